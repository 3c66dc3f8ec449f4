"""Validation of a JSON document by a schema of types, lists and objects.

A list of one item describes its items; a function parses the value and raises ValueError.
"""

from __future__ import annotations

from typing import Any

_NAMES = {str: "a text", int: "a whole number", bool: "true or false", dict: "an object"}


class Maybe:
    """An optional part."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema


class Each:
    """An object with any keys and values of one schema."""

    def __init__(self, schema: Any) -> None:
        self.schema = schema


def check_schema(value: Any, schema: Any, path: str = "") -> None:
    """Raise ValueError if a value does not match a schema."""
    if isinstance(schema, Maybe):
        schema = schema.schema
    if isinstance(schema, list):
        if not isinstance(value, list):
            raise ValueError(f"{path} is not a list")
        for index, item in enumerate(value):
            check_schema(item, schema[0], f"{path}[{index}]")
    elif isinstance(schema, (dict, Each)):
        if not isinstance(value, dict):
            raise ValueError(f"{path} is not an object")
        if isinstance(schema, Each):
            for key, item in value.items():
                check_schema(item, schema.schema, f"{path}.{key}")
            return
        for key, item in schema.items():
            inner = f"{path}.{key}".lstrip(".")
            if key in value:
                check_schema(value[key], item, inner)
            elif not isinstance(item, Maybe):
                raise ValueError(f"{inner} is missing")
    elif isinstance(schema, type):
        if not isinstance(value, schema) or (schema is int and isinstance(value, bool)):
            raise ValueError(f"{path} is not {_NAMES[schema]}")
    else:
        try:
            schema(value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

"""A document's data with the platform's defaults that apply to it."""

from __future__ import annotations

from typing import Any

from gpuctl.frontend.exclusive_fields import FieldNames, excluded, unused_cards
from gpuctl.frontend.field_shapes import kind_shape


def with_defaults(kind: str, defaults: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a document of a kind plus the defaults that apply to it.

    Not those about cards that the job does not have, nor those that the document excludes by what it writes.
    """
    unused = {*unused_cards(defaults, data), *excluded(kind_shape(kind), defaults, data, bounds=True)}
    for path in unused:
        defaults = _without(defaults, path)
    return merge(defaults, data)


def _without(block: dict[str, Any], path: FieldNames) -> dict[str, Any]:
    """Return a block without the field at a path, and without the blocks that are empty then."""
    name, *rest = path
    inner = _without(block[name], tuple(rest)) if rest and name in block else {}
    others = {key: value for key, value in block.items() if key != name}
    return {**others, name: inner} if inner else others


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return ``over`` with the entries that only ``base`` has.

    Mappings are merged recursively, environment variables by name in both of their forms. Any other value is replaced
    as a whole.
    """
    merged = dict(over)
    for key, value in base.items():
        if key not in merged:
            merged[key] = value
        elif key == "env" and isinstance(value, dict | list) and isinstance(merged[key], dict | list):
            merged[key] = _merge_variables(value, merged[key])
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = merge(value, merged[key])
    return merged


def _merge_variables(base: Any, over: Any) -> Any:
    """Return a document's variables plus the defaults that it does not set, in the form that the document uses.

    Defaults are appended: diagnostics name the document's entries by index.
    """
    if isinstance(over, dict):
        return over | {name: value for name, value in _as_mapping(base).items() if name not in over}
    own = {entry.get("name") for entry in over if isinstance(entry, dict)}
    entries = base if isinstance(base, list) else [_as_entry(name, value) for name, value in base.items()]
    return [*over, *(entry for entry in entries if entry["name"] not in own)]


def _as_mapping(variables: Any) -> dict[str, Any]:
    """Return variables as a mapping: ``NAME: value``, or ``NAME:`` with the source of the value."""
    if isinstance(variables, dict):
        return variables
    return {
        entry["name"]: entry.get("value", {key: item for key, item in entry.items() if key != "name"})
        for entry in variables
    }


def _as_entry(name: str, value: Any) -> dict[str, Any]:
    """Return an entry of a variable mapping as a list entry."""
    return {"name": name, **value} if isinstance(value, dict) else {"name": name, "value": value}

"""Reads the snapshot of a cluster from a file, in which nothing is trusted: its schema is checked."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from jsonschema_rs import Draft202012Validator, ValidationError

from gpuctl.capacity.snapshot.snapshot_document import KIND, VERSION, Snapshot, json_name
from gpuctl.capacity.snapshot.snapshot_schema import SCHEMA
from gpuctl.language.display_text import shorten, visible


class DamagedSnapshot(ValueError):
    """A text is not a snapshot, or a damaged one. ``hint``: what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def load(text: str, name: str = "the snapshot") -> Snapshot:
    """Parse a snapshot that :func:`~gpuctl.capacity.snapshot.snapshot_document.render` wrote.

    :param name: the name of the file, for messages.
    :raises DamagedSnapshot: the text is not a snapshot, or a damaged one; the message says where.
    """
    hint = "make a new one with `gpuctl snapshot > cluster.json`"
    try:
        # A number with a fraction is at most a quantity, whose text is exact.
        value = json.loads(text, parse_float=str, parse_constant=str)
    except ValueError as error:
        raise DamagedSnapshot(f"{name} is not JSON: {error}", hint) from None
    except RecursionError:
        raise DamagedSnapshot(f"{name} is not a snapshot: it is nested too deeply", hint) from None
    if not isinstance(value, dict) or value.get("kind") != KIND:
        raise DamagedSnapshot(f"{name} is not a snapshot: its `kind` is not {KIND}", hint)
    version = value.get("version")
    if version != VERSION:
        raise DamagedSnapshot(f"{name} has version {json.dumps(version)}; this gpuctl reads version {VERSION}", hint)
    try:
        damage = next(map(_damage, _validator().iter_errors(value)), None)
    except UnicodeEncodeError:
        damage = "it has text that is not Unicode"
    if damage is not None:
        raise DamagedSnapshot(f"{name} is damaged: {damage}", hint)
    known = {json_name(item): item for item in Snapshot.__dataclass_fields__}
    found = {known[key]: item for key, item in value.items() if key in known}
    return Snapshot(**found)


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    return Draft202012Validator(SCHEMA, validate_formats=True)


def _damage(error: ValidationError) -> str:
    """Return where a document does not match the schema, and how."""
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
    keyword, found = error.kind.name, error.kind.value
    if keyword == "required":
        text = f"{path}.{found} is missing"
    elif keyword == "additionalProperties":
        text = f"{path}.{found[0]} is not a field of a snapshot"
    else:
        part: Any = SCHEMA
        for step in error.schema_path[:-1]:
            part = part[step]
        text = f"{path}: {shorten(json.dumps(error.instance), 60)} is not {part['title']}"
    return visible(text.removeprefix("."))

"""Paths of fields in Kubernetes objects, such as ``spec.template.spec.containers[main].image``.

An item of a list that Kubernetes merges by key is named by the first of its keys, any other item by its index.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from gpuctl.objects.api_resources import Object
from gpuctl.objects.list_keys import LIST_KEYS, key_values
from gpuctl.objects.pod_templates import short_path

ABSENT: Any = object()
"""The value of a field that does not exist."""

_STEPS = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_SERVICE_PORT = ("port", "protocol")
_POD_METADATA = re.compile(
    r"spec\.(?:replicatedJobs\[[^]]*\]\.template\.spec\.)?template\.metadata(?:\.(?:labels|annotations)|\Z)"
)


def child_path(path: str, key: str) -> str:
    """Return the path of a field below another: ``spec`` and ``replicas`` -> ``spec.replicas``."""
    return path + _step(key) if path else key


@lru_cache(maxsize=4096)
def _step(key: str) -> str:
    return f".{key}" if all(part.isalnum() for part in key.replace("-", "_").split("_") if part) else f"[{key}]"


def steps_of(path: str) -> list[str]:
    """Return the keys and item names that lead to a field, or to the list whose order a path names."""
    return [plain or quoted for plain, quoted in _STEPS.findall(path.removesuffix(" (order)"))]


def value_at(value: Any, steps: list[str]) -> Any:
    """Return the value of a field given by :func:`steps_of`; None if it does not exist."""
    for field, step in zip(["", *steps], steps, strict=False):
        if isinstance(value, list):
            place = item_place(value, field, step)
            value = value[place] if place < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def item_place(items: list[Any], field: str, name: str) -> int:
    """Return the index of the item with this name in paths, or the length of the list."""
    names = [str(list_identity(field, item, index)) for index, item in enumerate(items)]
    return names.index(name) if name in names else len(items)


def is_within(path: str, other: str) -> bool:
    """Return True if a path is the other path, a field below it, or its order."""
    return path == other or path.startswith((f"{other}.", f"{other}[", f"{other} "))


def is_pod_metadata(path: str) -> bool:
    """Return True for the path of labels or annotations in the pod template of a Job or JobSet."""
    return _POD_METADATA.match(path) is not None


def named(path: str) -> str:
    """Return a path as users see it: ``containers[main].image``, ``annotation example.com/owner``."""
    match = re.fullmatch(r"metadata\.(label|annotation|finalizer)s(?:\.|\[)(.*?)\]?", path)
    return f"{match[1]} {match[2]}" if match else short_path(path)


def list_identity(field: str, item: Any, index: int) -> Any:
    """Return the name of an item in a path: the first of its keys, or its index."""
    keys = _keys_of(field, [item])
    return key_values(item, keys)[0] if keys is not None else index


def list_identities(field: str, *lists: list[Any]) -> tuple[list[tuple[Any, ...]], ...] | None:
    """Return the key values of all items of the lists; None if Kubernetes does not merge such lists by key."""
    keys = _keys_of(field, *lists)
    return tuple([key_values(item, keys) for item in one] for one in lists) if keys is not None else None


def item_key(field: str, item: Any) -> Object | None:
    """Return the keys of an item with their values; None if Kubernetes does not merge its list by key."""
    keys = _keys_of(field, [item])
    return dict(zip(keys, key_values(item, keys), strict=True)) if keys is not None else None


@lru_cache(maxsize=4096)
def identity_of(key: str) -> Object:
    """Parse a key of ``fieldsV1`` that names an item, such as ``k:{"name":"main"}``, into keys and values."""
    identity: Object = json.loads(key[2:])
    return identity


def has_keys(item: Any, identity: Object) -> bool:
    """Return True if an item of a list has these keys."""
    return isinstance(item, dict) and key_values(item, identity) == tuple(identity.values())


def _keys_of(field: str, *lists: list[Any]) -> tuple[str, ...] | None:
    items = [item for one in lists for item in one]
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    keys = LIST_KEYS.get(field)
    if field == "ports" and not any("containerPort" in item for item in items):
        keys = _SERVICE_PORT
    if keys is None or not all(keys[0] in item for item in items):
        return None
    return keys

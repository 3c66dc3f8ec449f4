"""Who set which fields of a live object, and when: what ``managedFields`` record, by our paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import Tree
from gpuctl.apply.state.managed_fields import ABSENT, field_at
from gpuctl.objects.api_resources import Object


class FieldHolder(NamedTuple):
    """A field manager: its name, how it wrote (``Apply``, ``Update``), and when it last wrote any of its fields.

    ``time`` is RFC 3339, "" where it is not recorded.
    """

    manager: str
    operation: str
    time: str


class Holdings(NamedTuple):
    """What one manager holds of an object: the paths of its fields."""

    holder: FieldHolder
    paths: frozenset[str]


def holdings_of(live: Object) -> list[Holdings]:
    """What each manager holds, without what was written to ``status``; those who wrote last come last."""
    found = []
    for entry in live["metadata"].get("managedFields") or []:
        if entry.get("subresource") == "status":
            continue
        manager, operation, time = (str(entry.get(key) or "") for key in ("manager", "operation", "time"))
        paths = frozenset(_leaves(entry.get("fieldsV1") or {}, live, "", ""))
        found.append(Holdings(FieldHolder(manager, operation, time), paths))
    return sorted(found, key=lambda item: item.holder.time)


def holders_of(path: str, holdings: Iterable[Holdings]) -> tuple[FieldHolder, ...]:
    """The managers of a field, of something in it, or of what it is in as a whole."""
    return tuple(item.holder for item in holdings if any(_meet(path, held) for held in item.paths))


def _meet(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))


def _leaves(tree: Tree, live: Any, path: str, field: str) -> Iterator[str]:
    for key, below in tree.items():
        found = field_at(key, (live,), path, field)
        if found is None or (key.startswith("k:") and found.values[0] is ABSENT):
            continue
        if any(name != "." for name in below):
            yield from _leaves(below, found.values[0], found.path, found.name)
        else:
            yield found.path

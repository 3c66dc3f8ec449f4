"""What others put into an object, and what of it a replacement does not have: by ``managedFields``.

Never a loss: what the API server or a webhook puts into every new object (the dry-run's answer has it), what the
controllers of Kubernetes and Kueue write again, and what is carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import Tree, is_ignored
from gpuctl.apply.state.managed_fields import ABSENT, RETURNING, field_at, fields_of, held_by_others, owned_fields
from gpuctl.objects.api_resources import Object
from gpuctl.objects.generations import LOWERED_FROM
from gpuctl.objects.ownership_metadata import PART_OF

_METADATA = frozenset({"f:labels", "f:annotations", "f:finalizers", "f:ownerReferences"})
# Records about the object that leaves: they say nothing about its successor.
_RECORDS = (
    *("[deployment.kubernetes.io/", "[kubectl.kubernetes.io/last-applied-configuration]", f"[{PART_OF}]"),
    f"/{LOWERED_FROM}]",
)
_AT_DELETION = ("metadata.finalizers[foregroundDeletion]", "metadata.finalizers[orphan]")
ADMISSION = "an admission webhook"
UNKNOWN = "an unknown manager"


class LostField(NamedTuple):
    """A field that a replacement drops: ``value`` is the live one, ``new`` what stands there then (None: nothing).

    ``manager`` is the field manager that put it there.
    """

    path: str
    value: Any
    new: Any
    manager: str


def lost_fields(
    live: Object,
    desired: Object,
    answer: Object | None,
    changed: Collection[str],
    *,
    adopted: bool = False,
    same: bool = False,
) -> list[LostField]:
    """What the successor of a live object does not have though somebody put it there, by path.

    :param desired: the successor as it is sent.
    :param answer: the successor as the server would make it; None when it was not asked.
    :param changed: the paths that are shown as changes already.
    :param adopted: the live object was made by other means, see :func:`owned_fields`.
    :param same: the live object was made from an equal one: what is missing of ours was never stated by us.
    """
    holders = [(name, tree) for name, tree in held_by_others(live, adopted=adopted) if not name.startswith(RETURNING)]
    if answer is not None and not live["metadata"].get("managedFields"):
        holders.append((UNKNOWN, fields_of(live)))
    elif answer is not None and same:
        holders.append((ADMISSION, owned_fields(live)))
    found: dict[str, LostField] = {}
    for manager, tree in holders:
        below = {key: fields for key, fields in tree.items() if key not in ("f:status", "f:apiVersion", "f:kind")}
        if "f:metadata" in below:
            below["f:metadata"] = {key: fields for key, fields in below["f:metadata"].items() if key in _METADATA}
        for path, value, new in _within(below, live, desired if answer is None else answer, "", ""):
            if path not in found and not is_hidden(path, live["kind"], changed):
                found[path] = LostField(path, value, new, manager)
    return [found[path] for path in sorted(found)]


def written_by(live: Object, desired: Object, managers: tuple[str, ...]) -> list[LostField]:
    """What managers whose names begin so have in the spec, where ``desired`` has it otherwise."""
    found: dict[str, LostField] = {}
    for manager, tree in held_by_others(live):
        if manager.startswith(managers):
            below = {key: fields for key, fields in tree.items() if key not in ("f:status", "f:metadata")}
            for path, value, new in _within(below, live, desired, "", ""):
                found.setdefault(path, LostField(path, value, new, manager))
    return [found[path] for path in sorted(found)]


def is_hidden(path: str, kind: str, changed: Collection[str]) -> bool:
    """Whether a path is told of elsewhere, or of no interest: records, what never makes a difference, changes."""
    if path.endswith(_AT_DELETION) or any(record in path for record in _RECORDS) or is_ignored(kind, path):
        return True
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in changed)


def _within(tree: Tree, live: Any, base: Any, path: str, field: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, live value and new value (None: absent) of the held fields that ``base`` has otherwise."""
    for key, below in tree.items():
        found = field_at(key, (live, base), path, field)
        if found is None or found.values[0] is ABSENT:
            continue
        value, have = found.values
        if key.startswith("f:"):
            yield from _at(below, value, have, found.path, found.name)
        elif have is ABSENT and (not below or "." in below):
            yield found.path, value, None
        elif key.startswith("k:"):
            yield from _within(below, value, have, found.path, "")


def _at(tree: Tree, live: Any, base: Any, path: str, field: str) -> Iterator[tuple[str, Any, Any]]:
    if live == base:
        return
    if any(key != "." for key in tree):
        yield from _within(tree, live, base, path, field)
    elif isinstance(live, list) and isinstance(base, list) and any(item not in base for item in live):
        gone = [item for item in live if item not in base]
        yield path, gone, None if all(item in live for item in base) else base
    elif base is ABSENT or not tree:
        yield path, live, None if base is ABSENT else base

"""The fields that other managers have set on an object, and that its successor does not have.

This walks over ``managedFields``. The walk over the wanted object in :mod:`gpuctl.apply.state.compare` skips fields
that are neither wanted nor gpuctl's.

Never a loss: values that the API server or a webhook sets on every new object (they are in the dry-run's answer). Nor
are fields that the controllers of Kubernetes and Kueue write again, and fields that are carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import is_ignored
from gpuctl.apply.state.field_paths import ABSENT, is_within
from gpuctl.apply.state.managed_fields import (
    REWRITING_CONTROLLERS,
    UNKNOWN,
    HeldField,
    Tree,
    fields_of,
    held_by_others,
    owned_fields,
)
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hashed_names import LOWERED_FROM
from gpuctl.objects.ownership_metadata import PART_OF

_METADATA = frozenset({"f:labels", "f:annotations", "f:finalizers", "f:ownerReferences"})
# Records about the old object, which do not apply to its successor.
_RECORDS = (
    *("[deployment.kubernetes.io/", "[kubectl.kubernetes.io/last-applied-configuration]", f"[{PART_OF}]"),
    f"/{LOWERED_FROM}]",
)
_AT_DELETION = ("metadata.finalizers[foregroundDeletion]", "metadata.finalizers[orphan]")
ADMISSION = "an admission webhook"


class LostField(NamedTuple):
    """A field that a replacement drops: ``value`` is the live value, ``new`` the successor's (None: absent).

    ``manager`` is the field manager that set it.
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
    """Return the fields that other managers set on a live object and that its successor does not have, by path.

    :param desired: the successor as it is sent.
    :param answer: the successor as the server would create it; None if the server was not asked.
    :param changed: the paths that are shown as changes already.
    :param adopted: another tool made the live object, see :func:`owned_fields`.
    :param same: the live object was made from an equal one, so fields that gpuctl holds beyond it were added by
        admission.
    """
    holders = [
        (name, tree)
        for name, tree in held_by_others(live, adopted=adopted)
        if not name.startswith(REWRITING_CONTROLLERS)
    ]
    if answer is not None and not live["metadata"].get("managedFields"):
        holders.append((UNKNOWN, fields_of(live)))
    elif answer is not None and same:
        holders.append((ADMISSION, owned_fields(live)))
    found = _missing(holders, live, desired if answer is None else answer)
    return [one for one in found if not is_hidden(one.path, live["kind"], changed)]


def fields_written_by(live: Object, desired: Object, managers: tuple[str, ...]) -> list[LostField]:
    """Return the spec fields of the managers with these name prefixes that ``desired`` has otherwise."""
    holders = [(name, tree) for name, tree in held_by_others(live) if name.startswith(managers)]
    return [one for one in _missing(holders, live, desired) if not is_within(one.path, "metadata")]


def is_hidden(path: str, kind: str, changed: Collection[str]) -> bool:
    """Return True for paths of records, of changes already shown, and of fields that are never a difference."""
    if path.endswith(_AT_DELETION) or any(record in path for record in _RECORDS) or is_ignored(kind, path):
        return True
    return any(is_within(path, one) for one in changed)


def _missing(holders: Iterable[tuple[str, Tree]], live: Object, new: Object) -> list[LostField]:
    found: dict[str, LostField] = {}
    for manager, tree in holders:
        below = {key: fields for key, fields in tree.items() if key not in ("f:status", "f:apiVersion", "f:kind")}
        if "f:metadata" in below:
            below["f:metadata"] = {key: fields for key, fields in below["f:metadata"].items() if key in _METADATA}
        for path, value, wanted in _differing(HeldField(below, (live, new))):
            found.setdefault(path, LostField(path, value, wanted, manager))
    return [found[path] for path in sorted(found)]


def _differing(held: HeldField) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, live value and new value (None: absent) of the held fields that differ in the new object."""
    for field in held.below():
        live, new = field.values
        if live is ABSENT:
            continue
        if not field.name:
            if new is ABSENT and (not field.tree or "." in field.tree):
                yield field.path, live, None
            else:
                yield from _differing(field)
        elif live != new and not field.is_leaf:
            yield from _differing(field)
        elif isinstance(live, list) and isinstance(new, list) and any(item not in new for item in live):
            gone = [item for item in live if item not in new]
            yield field.path, gone, None if all(item in live for item in new) else new
        elif live != new and (new is ABSENT or not field.tree):
            yield field.path, live, None if new is ABSENT else new

"""The fields that other managers have set on an object, and that its successor does not have.

Never a loss: values that the API server or a webhook sets on every new object (they are in the dry-run's answer). Nor
are fields that the controllers of Kubernetes and Kueue write again, and fields that are carried over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuctl.apply.state.compare import FieldOutcome, compare, is_ignored
from gpuctl.apply.state.field_paths import is_within
from gpuctl.apply.state.managed_fields import (
    ADMISSION,
    REWRITING_CONTROLLERS,
    UNKNOWN,
    Tree,
    fields_of,
    held_by_others,
    owned_fields,
)
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hashed_names import LOWERED_FROM
from gpuctl.objects.ownership_metadata import PART_OF

# Records about the old object, which do not apply to its successor.
_RECORDS = (
    *("[deployment.kubernetes.io/", "[kubectl.kubernetes.io/last-applied-configuration]", f"[{PART_OF}]"),
    f"/{LOWERED_FROM}]",
)
_AT_DELETION = ("metadata.finalizers[foregroundDeletion]", "metadata.finalizers[orphan]")


def lost_fields(
    live: Object,
    desired: Object,
    answer: Object | None,
    changed: Collection[str],
    *,
    adopted: bool = False,
    same: bool = False,
) -> list[FieldOutcome]:
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
    return foreign_fields(live, desired if answer is None else answer, holders, changed)


def foreign_fields(
    live: Object, new: Object, holders: Iterable[tuple[str, Tree]], changed: Collection[str]
) -> list[FieldOutcome]:
    """Return the fields of some managers in a live object that a new one does not have, by path.

    Not among them are records, fields that are never a difference, and those at or below the ``changed`` paths.
    """
    found: dict[str, FieldOutcome] = {}
    for one in compare(live["kind"], new, live, others=holders, stated={}).outcomes:
        is_record = one.path.endswith(_AT_DELETION) or any(record in one.path for record in _RECORDS)
        if not is_record and not is_ignored(live["kind"], one.path):
            found.setdefault(one.path, one)
    return [found[path] for path in sorted(found) if not any(is_within(path, other) for other in changed)]

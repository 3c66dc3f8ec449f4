"""The difference of a step as two texts, before and after, for a unified diff. Credentials are masked."""

from __future__ import annotations

import copy
from typing import Any

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.apply.state.field_paths import item_place, list_identity, steps_of, value_at
from gpuctl.language.masking import masked, masked_pair
from gpuctl.objects.api_resources import Object
from gpuctl.objects.companion_names import without_archive
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.recreated_objects import recreatable


def masked_change(change: FieldOutcome) -> FieldOutcome:
    """Return a change for output. Credentials that differ are masked differently, as in ``kubectl diff``."""
    return FieldOutcome(change.path, *masked_pair(change.old, change.new, change.path))


def before_and_after(step: Step, keys: Records) -> tuple[Object | None, Object | None]:
    """Return the object before and after a step, at the paths that gpuctl sets; None if it does not exist."""
    if step.shown is not None:
        return step.shown
    if step.action in ("delete", "prune"):
        return (_presented(recreatable(step.live), keys) if step.live is not None else None), None
    desired = step.desired
    if step.method == "patch" and desired is not None and step.live is not None:
        desired = _patched(step)
    if desired is None:
        return None, None
    after = _presented(desired, keys)
    if step.live is None:
        return None, after
    before = copy.deepcopy(after)
    # Removals come last: they would also remove a structure that a later old value still needs.
    for change in sorted(map(masked_change, step.changes), key=lambda change: change.old is None):
        _put(before, change.path, change.old, grows=change.new is None)
        if change.new is not None:
            _put(after, change.path, change.new)
    return before, after


def _patched(step: Step) -> Object:
    """Return the fields of a merge patch with their new values."""
    assert step.live is not None
    metadata = {"name": step.key.name, "namespace": step.key.namespace}
    result: Object = {"apiVersion": step.live["apiVersion"], "kind": step.live["kind"], "metadata": metadata}
    for change in step.changes:
        if change.new is not None:
            *around, name = steps_of(change.path)
            place = result
            for one in around:
                place = place.setdefault(one, {})
            place[name] = change.new
    return result


def _presented(obj: Object, keys: Records) -> Object:
    """Return an object without gpuctl's records, and with masked credentials."""
    metadata = dict(obj["metadata"])
    metadata.pop("uid", None)
    metadata.pop("resourceVersion", None)
    hidden = (
        keys.hash,
        keys.lowered_by,
        keys.lowered_from,
        keys.applied_by,
        keys.document,
        "kubectl.kubernetes.io/last-applied-configuration",
    )
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in hidden}
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    # The customary order; the server sends metadata at any position.
    body = {key: value for key, value in without_archive(obj).items() if key not in ("apiVersion", "kind", "metadata")}
    result: Object = masked({"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **body})
    return result


def _put(obj: Object, path: str, new: Any, *, grows: bool = False) -> None:
    """Set a field of an object in place, or the order of a list; None removes it.

    A field in a structure that does not exist is not set. A removal also removes structures that become empty.

    :param grows: append an item that its list does not have.
    """
    steps = steps_of(path)
    if path.endswith(" (order)"):
        places = {name: place for place, name in enumerate(new)}
        (value_at(obj, steps) or []).sort(key=lambda item: places.get(list_identity(steps[-1], item, 0), len(places)))
        return
    around = value_at(obj, steps[:-1])
    if isinstance(around, list):
        place = item_place(around, *steps[-2:])
        if place < len(around) or grows:
            around[place : place + 1] = [] if new is None else [new]
    elif isinstance(around, dict) and new is not None:
        around[steps[-1]] = new
    elif isinstance(around, dict):
        around.pop(steps[-1], None)
        if around == {} and isinstance(value_at(obj, steps[:-2]), dict):
            _put(obj, path[: path.rindex(steps[-1]) - 1], None)

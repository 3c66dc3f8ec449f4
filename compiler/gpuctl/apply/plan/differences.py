"""A step's difference as two texts, before and after: what a unified diff is made of. Secrets are masked."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from typing import Any

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.compare import Change, identity_path, list_identity
from gpuctl.language.masking import masked, masked_pair
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import recreatable


def masked_change(change: Change) -> Change:
    """A change for output; secrets that differ look different, as in ``kubectl diff``."""
    return Change(change.path, *masked_pair(change.old, change.new, change.path))


def before_and_after(step: Step, keys: Records) -> tuple[Object | None, Object | None]:
    """The object as it is and as it will be, at the paths we set; None where there is none."""
    if step.shown is not None:
        return step.shown
    if step.action in ("delete", "prune"):
        return (_presented(_reduced(step.live), keys) if step.live is not None else None), None
    desired = step.desired
    if step.method == "patch" and desired is not None and step.live is not None:
        desired = _patched(step)
    if desired is None:
        return None, None
    after = _presented(desired, keys)
    if step.live is None:
        return None, after
    changes = {change.path: masked_change(change) for change in step.changes}
    before = copy.deepcopy(after)
    _undo(before, changes, "", "")
    marked = {path: change._replace(old=change.new) for path, change in changes.items() if change.new is not None}
    _undo(after, marked, "", "")
    return before, after


def _patched(step: Step) -> Object:
    """The fields of a merge patch's object that the patch is about, as they will be."""
    assert step.live is not None
    result: Object = {"apiVersion": step.live["apiVersion"], "kind": step.live["kind"]}
    result["metadata"] = {"name": step.key.name, "namespace": step.key.namespace}
    for change in step.changes:
        if change.new is None:
            continue
        head, _, rest = change.path.partition(".")
        if head == "spec":
            result.setdefault("spec", {})[rest] = change.new
        else:
            part, name = re.fullmatch(r"(labels|annotations)(?:\.|\[)(.*?)\]?", rest).groups()  # type: ignore[union-attr]
            result["metadata"].setdefault(part, {})[name] = change.new
    return result


def _reduced(live: Object) -> Object:
    return recreatable(live)


def _presented(obj: Object, keys: Records) -> Object:
    """Without our records, and with secrets masked."""
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
    # The customary order: what the server sends has metadata anywhere.
    body = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
    result: Object = masked({"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **body})
    return result


def _undo(value: Any, changes: Mapping[str, Change], path: str, field: str) -> Any:
    """Put the old values back, in place; returns what ``value`` was."""
    if isinstance(value, dict):
        for key in list(value):
            where = identity_path(path, key)
            if where in changes:
                old = changes[where].old
                if old is None:
                    del value[key]
                else:
                    value[key] = old
            else:
                filled = bool(value[key])
                value[key] = _undo(value[key], changes, where, key)
                if filled and value[key] == {}:
                    # Nothing of it was there.
                    del value[key]
        for where, change in changes.items():
            key = _child_of(path, where)
            if key is not None and change.old is not None and key not in value:
                value[key] = change.old
    elif isinstance(value, list):
        result = []
        for index, item in enumerate(value):
            where = f"{path}[{_name_of(item, field, index)}]"
            if where not in changes:
                result.append(_undo(item, changes, where, ""))
            elif changes[where].old is not None:
                result.append(changes[where].old)
        known = {f"{path}[{_name_of(item, field, index)}]" for index, item in enumerate(value)}
        for where, change in changes.items():
            inside = where.startswith(f"{path}[") and where.endswith("]") and "]" not in where[len(path) : -1]
            if inside and where not in known and change.new is None:
                result.append(change.old)
        order = changes.get(f"{path} (order)")
        if order is not None:
            places = {name: place for place, name in enumerate(order.old)}
            result.sort(key=lambda item: places.get(_name_of(item, field, 0), len(places)))
        return result
    return value


def _child_of(path: str, where: str) -> str | None:
    """The key of ``where`` directly below ``path``, or None."""
    if path and not where.startswith(path):
        return None
    rest = where[len(path) :]
    match = re.fullmatch(r"\.?([^.\[\]\s]+)|\[([^\]]+)\]", rest)
    return (match[1] or match[2]) if match else None


def _name_of(item: Any, field: str, index: int) -> Any:
    return list_identity(field, item, index)

"""What is kept of each object: what the rows are made of, and nothing that only fills memory.

An object that is kept is a part of the one that was listed, in the same form, so that everything which reads objects
reads these as well. What pods of one template have in common is kept once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from gpuctl.backend.api_resources import Object

_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "labels",
    "creationTimestamp",
    "deletionTimestamp",
)
_OWNER = ("kind", "name", "controller", "uid", "apiVersion")
_CONTAINER = ("name", "image", "resources", "restartPolicy")
_CONDITION = ("type", "status", "reason", "message", "lastTransitionTime")
_CONTAINER_STATUS = ("name", "ready", "started", "restartCount", "state")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_SHARED = 50_000


class Trimmer:
    """Makes objects small. Equal parts of different objects are one object afterwards: none of them is ever changed."""

    def __init__(self) -> None:
        self._shared: dict[str, Any] = {}

    def trim(self, obj: Object) -> Object:
        """The part of an object that is kept."""
        return _RULES.get(obj["kind"], _whole)(obj, self)

    def shared(self, value: Any) -> Any:
        """The one object that stands for all that are equal to it."""
        if len(self._shared) > _MOST_SHARED:
            self._shared.clear()
        return self._shared.setdefault(json.dumps(value, sort_keys=True), value)


def _picked(value: Mapping[str, Any] | None, keys: tuple[str, ...]) -> Object:
    return {sys.intern(key): value[key] for key in keys if key in value} if value else {}


def _head(obj: Object, trimmer: Trimmer, *, annotations: bool = False) -> Object:
    metadata = _picked(obj["metadata"], _METADATA)
    if metadata.get("labels"):
        metadata["labels"] = trimmer.shared(metadata["labels"])
    owners = obj["metadata"].get("ownerReferences")
    if owners:
        metadata["ownerReferences"] = trimmer.shared([_picked(item, _OWNER) for item in owners])
    if annotations and obj["metadata"].get("annotations"):
        metadata["annotations"] = {
            key: value for key, value in obj["metadata"]["annotations"].items() if key != _LAST_APPLIED
        }
    return {"apiVersion": sys.intern(obj["apiVersion"]), "kind": sys.intern(obj["kind"]), "metadata": metadata}


def _whole(obj: Object, trimmer: Trimmer) -> Object:
    return {**obj, **_head(obj, trimmer, annotations=True)}


def _pod(obj: Object, trimmer: Trimmer) -> Object:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    # Only what differs from pod to pod stands outside of what is shared.
    common = {
        key: [_picked(item, _CONTAINER) for item in spec[key]]
        for key in ("containers", "initContainers", "ephemeralContainers")
        if spec.get(key)
    }
    common |= _picked(spec, ("nodeSelector", "overhead", "resources", "schedulerName", "priority", "priorityClassName"))
    kept = dict(trimmer.shared(common))
    if spec.get("nodeName"):
        kept["nodeName"] = sys.intern(spec["nodeName"])
    known = _picked(status, ("phase", "reason", "message", "podIP", "startTime"))
    if status.get("conditions"):
        known["conditions"] = [trimmer.shared(_picked(item, _CONDITION[:4])) for item in status["conditions"]]
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        if status.get(key):
            known[key] = [trimmer.shared(_picked(item, _CONTAINER_STATUS)) for item in status[key]]
    head = _head(obj, trimmer)
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if default is not None:
        head["metadata"]["annotations"] = {_DEFAULT_CONTAINER: default}
    return {**head, "spec": kept, "status": known}


def _node(obj: Object, trimmer: Trimmer) -> Object:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    known = {key: trimmer.shared(status[key]) for key in ("allocatable", "capacity", "nodeInfo") if status.get(key)}
    known |= _picked(status, ("addresses", "conditions"))
    return {**_head(obj, trimmer), "spec": _picked(spec, ("unschedulable", "taints")), "status": known}


def _event(obj: Object, trimmer: Trimmer) -> Object:
    keys = (
        "involvedObject",
        "reason",
        "message",
        "type",
        "count",
        "series",
        "firstTimestamp",
        "lastTimestamp",
        "eventTime",
    )
    return {**_head(obj, trimmer), **_picked(obj, keys)}


_RULES: dict[str, Callable[[Object, Trimmer], Object]] = {"Pod": _pod, "Node": _node, "Event": _event}

"""Reduces objects to the fields that rows need, to save memory.

A reduced object has the same structure as the listed one, so all code that reads objects works with it. Equal parts of
pods from one template are kept once.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import REQUIRED, required_node_terms
from gpuctl.reading.jobs.pod_selection import DEFAULT_CONTAINER

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
_ENDED = ("reason", "exitCode", "signal", "message")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_SHARED = 50_000
_LARGEST_SHARED = 10_000
"""Characters. Larger values are hardly ever equal."""


class SkippedObject(Object):
    """Placeholder for a malformed object, with its uid and version. ``problem`` says what is wrong."""

    def __init__(self, obj: Object, problem: str) -> None:
        metadata = obj["metadata"]
        super().__init__(metadata={key: str(metadata.get(key) or "") for key in ("uid", "resourceVersion")})
        self.problem = problem


def malformed_reason(obj: Object) -> str | None:
    """Return what is malformed in an object; None if it can be used.

    The API server validates its own kinds. Objects of a proxy in front of it, or of custom kinds, may be malformed.
    """
    metadata = obj["metadata"]
    for key in ("name", "namespace", "resourceVersion", "creationTimestamp", "deletionTimestamp"):
        if not isinstance(metadata.get(key, ""), str):
            return f"metadata.{key} is not a string"
    for key in ("name", "resourceVersion"):
        if not metadata.get(key):
            return f"it has no metadata.{key}"
    for key in ("labels", "annotations"):
        value = metadata.get(key) or {}
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            return f"metadata.{key} has values that are not strings"
    if not _is_list_of_maps(metadata.get("ownerReferences")):
        return "metadata.ownerReferences is not a list of owners"
    for key in ("spec", "status"):
        if not isinstance(obj.get(key) or {}, dict):
            return f"{key} is not a map"
    if obj["kind"] == "Pod" and not isinstance(obj.get("spec"), dict):
        return "it has no spec"
    parts = (("spec", "containers"), ("spec", "initContainers"), ("spec", "podSets"), ("status", "conditions"))
    statuses = (("status", "containerStatuses"), ("status", "initContainerStatuses"))
    for part, key in (*parts, *statuses):
        if not _is_list_of_maps((obj.get(part) or {}).get(key)):
            return f"{part}.{key} is not a list of maps"
    return None


def _is_list_of_maps(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, dict) for item in value))


class Trimmer:
    """Reduces objects. Equal parts of several objects become one value, because objects are never modified."""

    def __init__(self) -> None:
        self._shared: dict[str, Any] = {}

    def trim(self, obj: Object) -> Object:
        """Return the part of an object that is kept."""
        return _RULES.get(obj["kind"], _whole)(obj, self)

    def shared(self, value: Any) -> Any:
        """Return one value for all equal values."""
        # Values with a different order of keys are not shared.
        text = repr(value)
        if len(text) > _LARGEST_SHARED:
            return value
        if len(self._shared) > _MOST_SHARED:
            self._shared.clear()
        return self._shared.setdefault(text, value)


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


def _container_status(item: Object) -> Object:
    """Return a container's status, with the end of its last run: the reason of a crash loop."""
    kept = _picked(item, _CONTAINER_STATUS)
    ended = (item.get("lastState") or {}).get("terminated")
    return {**kept, "lastState": {"terminated": _picked(ended, _ENDED)}} if ended else kept


def _pod(obj: Object, trimmer: Trimmer) -> Object:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    # Fields that differ from pod to pod are kept outside of the shared part.
    common: Object = {
        key: [_picked(item, _CONTAINER) for item in spec[key]]
        for key in ("containers", "initContainers", "ephemeralContainers")
        if spec.get(key)
    }
    fields = ("nodeSelector", "overhead", "resources", "schedulerName", "priority", "priorityClassName")
    common |= _picked(spec, (*fields, "resourceClaims"))
    terms = required_node_terms(spec)
    if terms:
        common["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
    kept = dict(trimmer.shared(common))
    if spec.get("nodeName"):
        kept["nodeName"] = sys.intern(spec["nodeName"])
    known = _picked(status, ("phase", "reason", "message", "podIP", "startTime"))
    if status.get("conditions"):
        known["conditions"] = [trimmer.shared(_picked(item, _CONDITION[:4])) for item in status["conditions"]]
    for key in ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"):
        if status.get(key):
            known[key] = [trimmer.shared(_container_status(item)) for item in status[key]]
    head = _head(obj, trimmer)
    speaks = (obj["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    if speaks:
        head["metadata"]["annotations"] = trimmer.shared({DEFAULT_CONTAINER: speaks})
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


def _workload(obj: Object, trimmer: Trimmer) -> Object:
    """Return a Workload of Kueue without the parts of its pod templates that determine no request."""
    spec = obj.get("spec") or {}
    sets = []
    for item in spec.get("podSets") or []:
        template = item.get("template") or {}
        pod = template.get("spec") or {}
        kept = _picked(pod, ("overhead", "resources", "resourceClaims", "runtimeClassName"))
        kept |= {
            key: [_picked(container, ("name", "resources", "restartPolicy")) for container in pod[key]]
            for key in ("containers", "initContainers")
            if pod.get(key)
        }
        metadata = _picked(template.get("metadata"), ("labels",))
        shared = trimmer.shared({"spec": kept})
        sets.append({**item, "template": {"metadata": metadata, **shared}})
    return {**obj, **_head(obj, trimmer, annotations=True), "spec": {**spec, "podSets": sets}}


_RULES: dict[str, Callable[[Object, Trimmer], Object]] = {
    "Pod": _pod,
    "Node": _node,
    "Event": _event,
    "Workload": _workload,
}

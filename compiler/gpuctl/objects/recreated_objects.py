"""The form of a live object for creating it again, and what a new object keeps of the old one, such as a pause."""

from __future__ import annotations

import copy

from gpuctl.objects.api_resources import SERVICES, TRAINING_FORMS, TRAININGS, Object, annotations_of
from gpuctl.objects.autoscalers import AUTOSCALERS, keep_paused
from gpuctl.objects.embedded_document import document_of
from gpuctl.objects.ownership_metadata import PART_OF, Records
from gpuctl.objects.queueing import as_submitted, forget_admission, hold, is_held, is_paused
from gpuctl.objects.workload_state import end_state

_SERVER_METADATA = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "finalizers",
)
_JOB_LABELS = (
    "controller-uid",
    "job-name",
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
)
_SERVICE_FIELDS = ("clusterIP", "clusterIPs", "healthCheckNodePort")


def recreatable(live: Object) -> Object:
    """Return a live object in a form that can be created again, without fields set by the server or a controller.

    A finished Job is suspended and held back from its queue, so that it does not run a second time. Its ``selector``
    and the labels of its pods are removed: the server generates them (batch/v1 ``generateSelector``).
    """
    metadata = {key: value for key, value in live["metadata"].items() if key not in _SERVER_METADATA}
    finalizers = [name for name in live["metadata"].get("finalizers") or [] if "/" in name]
    if finalizers:
        metadata["finalizers"] = finalizers
    annotations = {
        key: value
        for key, value in (metadata.get("annotations") or {}).items()
        if key != "deployment.kubernetes.io/revision"
    }
    metadata.pop("annotations", None)
    if annotations:
        metadata["annotations"] = annotations
    body = {key: value for key, value in live.items() if key not in ("metadata", "status")}
    result: Object = copy.deepcopy({**body, "metadata": metadata})
    forget_admission(result)
    if live["kind"] == "Job":
        spec = result["spec"]
        if not spec.get("manualSelector"):
            spec.pop("selector", None)
            labels = (spec["template"].get("metadata") or {}).get("labels") or {}
            for label in _JOB_LABELS:
                labels.pop(label, None)
        spec["template"].get("metadata", {}).pop("creationTimestamp", None)
    if live["kind"] in TRAININGS and end_state(live):
        result["spec"]["suspend"] = True
        hold(result)
    if live["kind"] == "Service" and live["spec"].get("clusterIP") != "None":
        for name in _SERVICE_FIELDS:
            result["spec"].pop(name, None)
    return result


def restorable(live: Object, keys: Records, queued: Object | None) -> Object:
    """Return a live object in a form that restores it after its replacement could not be created.

    A paused job stays paused: it is held back from Kueue, which would start a new object in its queue.

    :param queued: the Kueue Workload, if any. Its original node selector is restored instead of the one Kueue injected.
    """
    result = recreatable(live)
    if queued is not None:
        as_submitted(result, queued)
    if live["kind"] in TRAININGS and is_paused(live, keys):
        result["spec"]["suspend"] = True
        hold(result)
    return result


def own_strategy(live: Object, keys: Records) -> str | None:
    """Return the change strategy of a live object if a user set its annotation; None if it comes from the document."""
    value = annotations_of(live).get(keys.strategy)
    if value is None:
        return None
    block = (document_of(live, keys.document) or {}).get("service")
    return None if isinstance(block, dict) and block.get("strategy") == value else value


def carried_over(
    desired: Object, live: Object, keys: Records, *, autoscaled: bool = False, again: bool = True
) -> Object:
    """Return the desired object with the state it keeps from the live one: a pause, an autoscaler's replicas, the set,
    a user's strategy.

    Nothing else is kept; docs/cluster.md lists it.

    :param autoscaled: an autoscaler that is not in the document sets the replicas.
    :param again: True if the object is created again, so that a pause must hold it back from its queue; False if it is
        changed in place.
    """
    result = copy.deepcopy(desired)
    metadata, spec = result["metadata"], result["spec"]
    old_annotations = live["metadata"].get("annotations") or {}
    if PART_OF in (live["metadata"].get("labels") or {}) and PART_OF not in (metadata.get("labels") or {}):
        metadata.setdefault("labels", {})[PART_OF] = live["metadata"]["labels"][PART_OF]
    strategy = own_strategy(live, keys)
    if strategy is not None and keys.strategy not in annotations_of(result):
        metadata.setdefault("annotations", {})[keys.strategy] = strategy
    paused = old_annotations[keys.paused] if is_paused(live, keys) else None
    kind = desired["kind"]
    if kind in AUTOSCALERS:
        keep_paused(result, live, keys.paused)
    elif paused is not None:
        if keys.pause_reason in old_annotations:
            metadata.setdefault("annotations", {})[keys.pause_reason] = old_annotations[keys.pause_reason]
        if kind in TRAINING_FORMS:
            if again or live["spec"].get("suspend"):
                spec["suspend"] = True
            if again or is_held(live):
                hold(result)
            metadata.setdefault("annotations", {})[keys.paused] = paused
        else:
            metadata.setdefault("annotations", {})[keys.paused] = (
                paused if autoscaled else str(spec.get("replicas", paused))
            )
            spec["replicas"] = 0
    elif kind in SERVICES and (autoscaled or "replicas" not in spec):
        replicas = (live.get("spec") or {}).get("replicas")
        if isinstance(replicas, int) and (replicas > 0 or autoscaled):
            spec["replicas"] = replicas
    return result

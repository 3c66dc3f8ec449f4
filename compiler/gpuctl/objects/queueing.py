"""A job and its Kueue queue: waiting in it, held back from it, and the fields that Kueue writes.

Kueue suspends a Job or JobSet until it admits it. A Deployment or StatefulSet creates its pods at once, with a
scheduling gate that Kueue removes; without replicas it uses no quota.

Kueue starts every training that names one of its queues, even a suspended one. To hold a job back, its queue label is
renamed to `<queue>.held-by-gpuctl`, a queue that does not exist. The label itself carries the original name, so it
cannot be lost. Without the label, Kueue's webhook would set the LocalQueue ``default`` if it exists
(``ApplyDefaultLocalQueue``).
"""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.objects.api_resources import (
    DEFAULT_QUEUE,
    QUEUE_LABEL,
    QUEUE_PRIORITY_LABEL,
    SERVICES,
    TRAININGS,
    WORKLOADS,
    Object,
    annotations_of,
    controller_of,
    labels_of,
)
from gpuctl.objects.elastic_jobs import SIZE_FIELDS, node_bounds
from gpuctl.objects.label_names import LABEL_MAX
from gpuctl.objects.ownership_metadata import HELD_QUEUE, Records
from gpuctl.objects.pod_templates import pod_templates

_KUEUE = "kueue.x-k8s.io/"
TOPOLOGIES = {
    "required": f"{_KUEUE}podset-required-topology",
    "preferred": f"{_KUEUE}podset-preferred-topology",
}
"""Annotations with which pods request a level of closeness from Kueue; the value is the level's node label."""
# The only Kueue keys that documents become.
_OURS = frozenset({QUEUE_PRIORITY_LABEL, *TOPOLOGIES.values()})
POD_PARENT = f"{_KUEUE}pod-suspending-parent"
"""Annotation of pods whose workload is in a queue. Kueue writes it into the templates of services."""
_HELD = ".held-by-gpuctl"
_JOB_UID = f"{_KUEUE}job-uid"


def queue_of(obj: Object) -> str:
    """Return the LocalQueue of a workload, also of a held one; "" if it has none."""
    label, whole = labels_of(obj).get(QUEUE_LABEL, ""), annotations_of(obj).get(HELD_QUEUE, "")
    # The annotation may be stale or written by another tool, and name another queue.
    return whole if whole and label == _held(whole) else label.removesuffix(_HELD)


def _held(queue: str) -> str:
    """Return the queue name that holds a job back, with a long name cut. Kueue rejects names that are not DNS
    subdomains.
    """
    return queue[: LABEL_MAX - len(_HELD)].rstrip("-.") + _HELD


def is_held(obj: Object) -> bool:
    """Return True if a workload is held back from its queue, see :func:`hold`."""
    return labels_of(obj).get(QUEUE_LABEL, "").endswith(_HELD)


def is_defaulted(live: Object, desired: Object) -> bool:
    """Return True if Kueue may have set the queue of a live job whose document names none, and would again."""
    return live["kind"] in WORKLOADS and not queue_of(desired) and queue_of(live) == DEFAULT_QUEUE


def is_gated(pod: Object) -> bool:
    """Return True if a pod waits for Kueue, which removes its scheduling gates."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or []
    return any(str(gate.get("name")).startswith(_KUEUE) for gate in gates)


def owner_of_workload(workload: Object) -> Object | None:
    """Return the owner reference of the object for which Kueue made a Workload: a Job, a JobSet, a StatefulSet, or one
    pod of a Deployment.

    A StatefulSet is not the controller of its Workload; its uid is in a label. Any user who may write Workloads can add
    further owners. Source: Kueue 0.19, ``jobs/statefulset/statefulset_reconciler.go`` (constructWorkload).
    """
    controller = controller_of(workload)
    if controller is not None:
        return controller
    uid = labels_of(workload).get(_JOB_UID)
    owners: Iterable[Object] = workload["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner["kind"] == "StatefulSet" and owner["uid"] == uid), None)


def is_queued(obj: Object, keys: Records) -> bool:
    """Return True if a training waits for Kueue: suspended, neither paused nor held back."""
    suspended = bool((obj.get("spec") or {}).get("suspend"))
    return suspended and bool(queue_of(obj)) and not is_held(obj) and keys.paused not in annotations_of(obj)


def is_paused(obj: Object, keys: Records) -> bool:
    """Return True if a workload has the mark of a pause, and no other client has started it since.

    Kueue suspends a job in its queue only a moment after the mark is set.
    """
    if keys.paused not in annotations_of(obj):
        return False
    spec = obj.get("spec") or {}
    if obj["kind"] in SERVICES:
        return bool(spec.get("replicas", 1) == 0)
    return bool(spec.get("suspend")) or (bool(queue_of(obj)) and not is_held(obj))


def is_written_by_kueue(key: str) -> bool:
    """Return True for a label or annotation that Kueue writes into pod templates."""
    return key.startswith(_KUEUE) and key not in _OURS


def was_admitted(obj: Object) -> bool:
    """Return True if Kueue wrote into a training's pod templates, as it does on admission."""
    if obj["kind"] not in TRAININGS:
        return False
    metadata = [template.get("metadata") or {} for template, _ in pod_templates(obj)]
    keys = [key for item in metadata for part in ("labels", "annotations") for key in item.get(part) or {}]
    return any(map(is_written_by_kueue, keys))


def hold(obj: Object) -> None:
    """Hold an object back from its queue, before it is created or while it is suspended."""
    name = queue_of(obj)
    if not name:
        return
    labels_of(obj)[QUEUE_LABEL] = _held(name)
    if queue_of(obj) != name:
        obj["metadata"]["annotations"] = {**annotations_of(obj), HELD_QUEUE: name}


def release(obj: Object) -> None:
    """Undo :func:`hold`."""
    if not is_held(obj):
        return
    labels_of(obj)[QUEUE_LABEL] = queue_of(obj)
    if HELD_QUEUE in annotations_of(obj):
        del annotations_of(obj)[HELD_QUEUE]
        if not annotations_of(obj):
            del obj["metadata"]["annotations"]


def forget_admission(obj: Object) -> None:
    """Remove what Kueue wrote on admission: from the pod templates, and the number of nodes of an elastic training.

    Kueue never starts an object that names a Workload other than the one Kueue creates for it. Node labels and
    tolerations of the flavor stay: see :func:`as_submitted`.
    """
    if not queue_of(obj):
        return
    if (bounds := node_bounds(obj)) is not None and obj["kind"] == "Job":
        obj["spec"] |= dict.fromkeys(SIZE_FIELDS, bounds.most)
    for template, _ in pod_templates(obj):
        metadata = template.get("metadata") or {}
        for part in ("labels", "annotations"):
            for key in list(filter(is_written_by_kueue, metadata.get(part) or {})):
                del metadata[part][key]
            if metadata.get(part) == {}:
                del metadata[part]


def as_submitted(obj: Object, workload: Object) -> None:
    """Restore the scheduling fields of the pod templates from Kueue's Workload. With the nodes of one flavor, another
    flavor could not admit them.

    Source: Kueue's ``podset.RestorePodSpec``. A JobSet's pod set is named after its replicated job.
    """
    sets = {item.get("name", "main"): item for item in (workload.get("spec") or {}).get("podSets") or []}
    names = [item["name"] for item in obj["spec"]["replicatedJobs"]] if obj["kind"] == "JobSet" else ["main"]
    for name, (template, _) in zip(names, pod_templates(obj), strict=True):
        if name not in sets:
            continue
        was = (sets[name].get("template") or {}).get("spec") or {}
        for field in ("nodeSelector", "tolerations", "schedulingGates"):
            if was.get(field):
                template["spec"][field] = was[field]
            else:
                template["spec"].pop(field, None)

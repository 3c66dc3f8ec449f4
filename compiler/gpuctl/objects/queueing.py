"""A training and the queue of Kueue that it names: waiting in it, kept out of it, and what Kueue writes into it.

Kueue starts whatever names one of its queues, suspended or not. What must not start is given the name of a queue that
does not exist, which is made of its own queue's: no other mark can be lost without the name. Without a name Kueue's
webhook would give it that of the LocalQueue ``default``, where there is one (``ApplyDefaultLocalQueue``).
"""

from __future__ import annotations

from gpuctl.objects.api_resources import DEFAULT_QUEUE, QUEUE_LABEL, TRAININGS, Object, annotations_of, labels_of
from gpuctl.objects.label_names import LABEL_MAX
from gpuctl.objects.ownership_metadata import HELD_QUEUE, Records
from gpuctl.objects.pod_templates import pod_templates

_KUEUE = "kueue.x-k8s.io/"
# The one of Kueue's keys that a document may set.
_OURS = frozenset({f"{_KUEUE}priority-class"})
_HELD = ".held-by-gpuctl"


def queue_of(obj: Object) -> str:
    """The LocalQueue of a workload, also of one that is kept out of it; "" when it has none."""
    label, whole = labels_of(obj).get(QUEUE_LABEL, ""), annotations_of(obj).get(HELD_QUEUE, "")
    # Left of an earlier time, or written by others, the annotation may tell of another queue.
    return whole if whole and label == _held(whole) else label.removesuffix(_HELD)


def _held(queue: str) -> str:
    """The name that keeps out of a queue: the beginning of a long one. Kueue refuses what is no DNS subdomain."""
    return queue[: LABEL_MAX - len(_HELD)].rstrip("-.") + _HELD


def is_held(obj: Object) -> bool:
    """Whether a workload is kept out of its queue, see :func:`hold`."""
    return labels_of(obj).get(QUEUE_LABEL, "").endswith(_HELD)


def is_defaulted(live: Object, desired: Object) -> bool:
    """Whether Kueue may have chosen the queue of a live training that is to name none: it would do so again."""
    return live["kind"] in TRAININGS and not queue_of(desired) and queue_of(live) == DEFAULT_QUEUE


def is_queued(obj: Object, keys: Records) -> bool:
    """Whether a workload waits for Kueue: suspended, and neither paused nor kept out of its queue."""
    suspended = bool((obj.get("spec") or {}).get("suspend"))
    return suspended and bool(queue_of(obj)) and not is_held(obj) and keys.paused not in annotations_of(obj)


def was_admitted(obj: Object) -> bool:
    """Whether Kueue wrote into the pod templates of an object, as it does when it admits it."""
    metadata = [template.get("metadata") or {} for template, _ in pod_templates(obj)]
    keys = [key for item in metadata for part in ("labels", "annotations") for key in item.get(part) or {}]
    return any(key.startswith(_KUEUE) and key not in _OURS for key in keys)


def hold(obj: Object) -> None:
    """Keep an object that will be created, or is suspended, out of its queue."""
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
    """Take out of the pod templates what Kueue wrote when it admitted the object.

    It never starts an object that names another Workload than the one it makes for it. Labels of nodes and tolerations
    of the flavor stay: see :func:`as_submitted`.
    """
    if not queue_of(obj):
        return
    for template, _ in pod_templates(obj):
        metadata = template.get("metadata") or {}
        for part in ("labels", "annotations"):
            for key in [key for key in metadata.get(part) or {} if key.startswith(_KUEUE) and key not in _OURS]:
                del metadata[part][key]
            if metadata.get(part) == {}:
                del metadata[part]


def as_submitted(obj: Object, workload: Object) -> None:
    """Give the pod templates back where they may run, as Kueue's Workload has it: with a flavor's nodes they could be
    admitted to no other.

    Source: Kueue's ``podset.RestorePodSpec``; of a JobSet a pod set is named after its replicated job.
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

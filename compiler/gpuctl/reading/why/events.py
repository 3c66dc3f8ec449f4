"""Which events are about a job, and how they are told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuctl.cluster.resources import Object
from gpuctl.reading.jobs import Job, event_time
from gpuctl.reading.status import sentence
from gpuctl.reading.why.finding import Source

# What controllers put behind a workload's name for what they make: k8s.io/kubernetes, pkg/controller.
_MADE = {
    "Job": {"Pod": r"-[a-z0-9]{5}"},
    "Indexed": {"Pod": r"-\d+-[a-z0-9]{5}"},
    "Deployment": {"ReplicaSet": r"-[a-z0-9]{1,10}", "Pod": r"-[a-z0-9]{1,10}-[a-z0-9]{5}"},
    "StatefulSet": {"Pod": r"-\d+"},
    "JobSet": {"Job": r"-[a-z0-9-]+-\d+", "Pod": r"-[a-z0-9-]+-\d+(-\d+)?-[a-z0-9]{5}"},
}


def of_job(events: Iterable[Object], job: Job) -> Iterator[Object]:
    """Those about the job's workload, what its controller made, its claims, and nothing older than itself.

    A job of the same name may have been there before: its events are not this one's.
    """
    workload = job.workload
    pods = {pod["metadata"]["name"]: pod for pod in job.pods}
    claims = {name for pod in job.pods for name in _claims(pod)}
    born = workload["metadata"].get("creationTimestamp") or "" if workload is not None else ""
    for event in events:
        about = event.get("involvedObject") or {}
        kind, name, uid = about.get("kind") or "", about.get("name") or "", about.get("uid")
        if about.get("namespace") != job.identity.namespace:
            continue
        if kind == "Pod" and name in pods:
            if uid in (None, "", pods[name]["metadata"].get("uid")):
                yield event
        elif kind == "PersistentVolumeClaim":
            if name in claims:
                yield event
        elif workload is not None and _is_about(kind, name, workload):
            same = uid in (None, "", workload["metadata"].get("uid")) or kind != workload["kind"]
            # Times of both generations of events are RFC 3339 in UTC: what differs is only the fraction.
            if same and event_time(event)[:19] >= born[:19]:
                yield event


def _claims(pod: Object) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]


def _is_about(kind: str, name: str, workload: Object) -> bool:
    own = workload["metadata"]["name"]
    if kind == workload["kind"]:
        return bool(name == own)
    indexed = (workload.get("spec") or {}).get("completionMode") == "Indexed"
    pattern = _MADE.get("Indexed" if indexed else workload["kind"], {}).get(kind)
    return pattern is not None and re.fullmatch(re.escape(own) + pattern, name) is not None


def source(event: Object) -> Source:
    """An event as evidence."""
    about = event.get("involvedObject") or {}
    text = f"{event.get('reason') or ''}: {sentence(event.get('message'))}"
    return Source("event", f"{(about.get('kind') or '').lower()}/{about.get('name')}", text, event_time(event) or None)


def condition_source(obj: Object, kind: str) -> Source | None:
    """A condition of an object, whatever its status, as evidence."""
    for item in (obj.get("status") or {}).get("conditions") or []:
        if item.get("type") == kind:
            parts = [f"{kind}={item.get('status')}", item.get("reason") or "", sentence(item.get("message"))]
            text = ": ".join(part for part in parts if part)
            return Source("condition", title(obj), text, item.get("lastTransitionTime"))
    return None


def title(obj: Object) -> str:
    """``pod/train-x1``."""
    return f"{obj['kind'].lower()}/{obj['metadata']['name']}"


def sources(*found: Source | None) -> tuple[Source, ...]:
    """Those that there are, each once."""
    return tuple(dict.fromkeys(item for item in found if item is not None))

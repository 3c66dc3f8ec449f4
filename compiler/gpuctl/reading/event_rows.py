"""Events: when they happened, which came first, and which of them are about a job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timezone

from gpuctl.objects.api_resources import Object
from gpuctl.objects.workload_state import IntermediateOwner, intermediate_owners, without_generated_suffix

# What controllers put behind the name of what makes pods: k8s.io/kubernetes, pkg/controller.
_POD = r"-[a-z0-9]{5}"
_INDEXED_POD = rf"-\d+{_POD}"
_ORDINAL = r"-\d+"


def of_job(
    events: Iterable[Object], namespace: str, workload: Object | None, members: Iterable[Object]
) -> Iterator[Object]:
    """Those about a job's workload (None: it has gone), what its controller made, its claims, and nothing older.

    A job of the same name may have been there before: its events are not this one's. Events about what is there have
    its uid: without one they are nobody's.
    """
    events = list(events)
    pods = {pod["metadata"]["name"]: pod for pod in members}
    makers = _makers(events, pods.values())
    claims = {name for pod in pods.values() for name in _claims(pod)}
    born = workload["metadata"].get("creationTimestamp") or "" if workload is not None else ""
    for event in events:
        about = event.get("involvedObject") or {}
        kind, name, uid = about.get("kind") or "", about.get("name") or "", about.get("uid")
        if about.get("namespace") != namespace:
            continue
        if kind == "Pod" and name in pods:
            if uid == pods[name]["metadata"].get("uid"):
                yield event
        elif kind == "PersistentVolumeClaim":
            if name in claims:
                yield event
        elif workload is not None and _is_about(kind, name, workload, makers):
            same = uid == workload["metadata"].get("uid") or kind != workload["kind"]
            # Times of both generations of events are RFC 3339 in UTC: what differs is only the fraction.
            if same and event_time(event)[:19] >= born[:19]:
                yield event


def _claims(pod: Object) -> Iterator[str]:
    for volume in (pod.get("spec") or {}).get("volumes") or []:
        if volume.get("persistentVolumeClaim"):
            yield volume["persistentVolumeClaim"]["claimName"]


def _makers(events: Iterable[Object], pods: Iterable[Object]) -> set[tuple[str, str]]:
    """Kind and name of what makes pods, as far as it is told of, or pods of it are there."""
    about = [event.get("involvedObject") or {} for event in events]
    owners = [owner for pod in pods for owner in pod["metadata"].get("ownerReferences") or []]
    return {(item.get("kind") or "", item.get("name") or "") for item in (*about, *owners)}


def _is_about(kind: str, name: str, workload: Object, makers: Collection[tuple[str, str]]) -> bool:
    if kind == workload["kind"]:
        return bool(name == workload["metadata"]["name"])
    if kind != "Pod":
        return IntermediateOwner(kind, without_generated_suffix(name)) in intermediate_owners(workload)
    return _may_be_pod_of(name, workload, makers)


def _may_be_pod_of(name: str, workload: Object, makers: Collection[tuple[str, str]]) -> bool:
    """Whether a pod that has gone was a workload's, by its name and by what else is there to make such a pod."""
    own, above, spec = workload["metadata"]["name"], without_generated_suffix(name), workload.get("spec") or {}
    if workload["kind"] == "Deployment":
        # Those of a Job chat-v2 are called as those of a ReplicaSet of chat may be.
        return ("ReplicaSet", above) in makers and without_generated_suffix(above) == own
    if workload["kind"] == "JobSet":
        named = ((f"{own}-{item['name']}", item["template"]["spec"]) for item in spec.get("replicatedJobs") or [])
        return any(_is_called(name, begins, _ORDINAL + _pod_of(job)) for begins, job in named)
    if workload["kind"] == "StatefulSet":
        return _is_called(name, own, _ORDINAL)
    # Those of a Job train-1 are called as one of the indexed Job train.
    return _is_called(name, own, _pod_of(spec)) and (above == own or ("Job", above) not in makers)


def _pod_of(job: Object) -> str:
    return _INDEXED_POD if job.get("completionMode") == "Indexed" else _POD


def _is_called(name: str, own: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(own) + pattern, name) is not None


def event_time(event: Object) -> str:
    """When an event last happened (RFC 3339), whichever of the API's two generations wrote it."""
    series = event.get("series") or {}
    return (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def event_order(event: Object) -> tuple[str, str]:
    """What to sort events by, the newest last, where several fall into one second.

    ``lastTimestamp`` has whole seconds, ``eventTime`` microseconds: compared as text, what has no fraction would be the
    last of its second, whatever came first.
    """
    told = event_time(event)
    second, _, fraction = told.rstrip("Z").partition(".")
    if not fraction:
        fraction = _recorded(event, second) or "9" * 9
    return second, fraction.ljust(9, "0")


def _recorded(event: Object, second: str) -> str:
    """The fraction of a second at which an event was made, "" where it is not known.

    client-go (tools/record/event.go, makeEvent) puts the nanoseconds since 1970 of the first occurrence, in
    hexadecimal, behind the dot of an event's name.
    """
    stamp = (event["metadata"].get("name") or "").rpartition(".")[2]
    if re.fullmatch(r"[0-9a-f]{16}", stamp) is None:
        return ""
    seconds, rest = divmod(int(stamp, 16), 10**9)
    same = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") == second
    return f"{rest:09d}" if same else ""

"""Events of a job: which they are, their time and order, and those that are merged because they repeat."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import mounted_claims
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.objects.workload_state import intermediate_owners, possible_owners, without_generated_suffix
from gpuctl.reading.jobs.status import one_line

# Suffixes that controllers append to the owner's name for their pods: k8s.io/kubernetes, pkg/controller.
_POD = r"-[a-z0-9]{5}"
_INDEXED_POD = rf"-\d+{_POD}"
_ORDINAL = r"-\d+"


@dataclass(frozen=True)
class RepeatedEvent:
    """An event, or several events with the same text about the same object.

    :param count: number of occurrences.
    :param time: time of the last occurrence, RFC 3339.
    """

    type: str
    reason: str
    about: str
    message: str
    count: int
    time: str


def of_job(
    events: Iterable[Object], namespace: str, workload: Object | None, members: Iterable[Object]
) -> Iterator[Object]:
    """Yield the events about a job's workload, the objects its controller created, and its claims.

    Events of an earlier job of the same name are left out: those older than the workload, and those about an existing
    pod or workload with another uid.

    :param workload: None if it was deleted.
    :param members: the job's pods.
    """
    events = list(events)
    pods = {pod["metadata"]["name"]: pod for pod in members}
    makers = _makers(events, pods.values())
    claims = {name for pod in pods.values() for name in mounted_claims(pod.get("spec") or {})}
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
            # Both event APIs write RFC 3339 times in UTC; only the fraction differs.
            if same and event_time(event)[:19] >= born[:19]:
                yield event


def _makers(events: Iterable[Object], pods: Iterable[Object]) -> set[tuple[str, str]]:
    """Return kind and name of the objects that events are about or that own pods; each may have created pods."""
    about = [event.get("involvedObject") or {} for event in events]
    owners = [owner for pod in pods for owner in pod["metadata"].get("ownerReferences") or []]
    return {(item.get("kind") or "", item.get("name") or "") for item in (*about, *owners)}


def _is_about(kind: str, name: str, workload: Object, makers: Collection[tuple[str, str]]) -> bool:
    if kind == workload["kind"]:
        return bool(name == workload["metadata"]["name"])
    if kind != "Pod":
        return not set(possible_owners(kind, name)).isdisjoint(intermediate_owners(workload))
    return _may_be_pod_of(name, workload, makers)


def _may_be_pod_of(name: str, workload: Object, makers: Collection[tuple[str, str]]) -> bool:
    """Return True if a deleted pod of this name may have belonged to the workload, given other possible owners."""
    own, above, spec = workload["metadata"]["name"], without_generated_suffix(name), workload.get("spec") or {}
    if workload["kind"] == "Deployment":
        # A Job `chat-v2` names its pods like a ReplicaSet of the Deployment `chat`.
        return ("ReplicaSet", above) in makers and without_generated_suffix(above) == own
    if workload["kind"] == "JobSet":
        named = ((f"{own}-{item['name']}", item["template"]["spec"]) for item in spec.get("replicatedJobs") or [])
        return any(_is_called(name, begins, _ORDINAL + _pod_of(job)) for begins, job in named)
    if workload["kind"] == "StatefulSet":
        return _is_called(name, own, _ORDINAL)
    if workload["kind"] == "LeaderWorkerSet":
        return _is_called(name, own, rf"{_ORDINAL}(?:{_ORDINAL})?")
    # A Job `train-1` names its pods like the indexed Job `train`.
    return _is_called(name, own, _pod_of(spec)) and (above == own or ("Job", above) not in makers)


def _pod_of(job: Object) -> str:
    return _INDEXED_POD if job.get("completionMode") == "Indexed" else _POD


def _is_called(name: str, own: str, pattern: str) -> bool:
    return re.fullmatch(re.escape(own) + pattern, name) is not None


def event_time(event: Object) -> str:
    """Return the time of an event's last occurrence (RFC 3339), for core/v1 and events.k8s.io events."""
    series = event.get("series") or {}
    return (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def event_order(event: Object) -> tuple[str, str]:
    """Sort key: events by time, newest last, also within one second.

    ``lastTimestamp`` has whole seconds and ``eventTime`` microseconds. Without a known fraction an event sorts last in
    its second.
    """
    told = event_time(event)
    second, _, fraction = told.rstrip("Z").partition(".")
    if not fraction:
        fraction = _recorded(event, second) or "9" * 9
    return second, fraction.ljust(9, "0")


def _recorded(event: Object, second: str) -> str:
    """Return the fraction of the second (9 digits) at which an event was created; "" if unknown.

    client-go (tools/record/event.go, makeEvent) ends an event's name with the nanoseconds since 1970 of its first
    occurrence, in hexadecimal.
    """
    stamp = (event["metadata"].get("name") or "").rpartition(".")[2]
    if re.fullmatch(r"[0-9a-f]{16}", stamp) is None:
        return ""
    seconds, rest = divmod(int(stamp, 16), 10**9)
    same = format_timestamp(seconds) == f"{second}Z"
    return f"{rest:09d}" if same else ""


def merge_repeated(events: Iterable[Object]) -> list[RepeatedEvent]:
    """Merge events with the same reason and message about the same object, ordered by last occurrence, newest last."""
    found: dict[tuple[str, str, str], RepeatedEvent] = {}
    # A repeated event is removed and inserted again, so the order is that of last occurrences.
    for event in sorted(events, key=event_order):
        on = event.get("involvedObject") or {}
        about = f"{(on.get('kind') or '').lower()}/{on.get('name')}"
        message, reason = one_line(event.get("message")), one_line(event.get("reason"))
        number = int((event.get("series") or {}).get("count") or event.get("count") or 1)
        before = found.pop((about, reason, message), None)
        count = number + (before.count if before is not None else 0)
        found[about, reason, message] = RepeatedEvent(
            event.get("type") or "Normal", reason, about, message, count, event_time(event)
        )
    return list(found.values())

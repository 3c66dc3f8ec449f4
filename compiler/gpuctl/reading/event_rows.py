"""Events: when they happened, which came first, and which of them are about a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from gpuctl.backend.api_resources import Object

# What controllers put behind a workload's name for what they make: k8s.io/kubernetes, pkg/controller.
_MADE = {
    "Job": {"Pod": r"-[a-z0-9]{5}"},
    "Indexed": {"Pod": r"-\d+-[a-z0-9]{5}"},
    "Deployment": {"ReplicaSet": r"-[a-z0-9]{1,10}", "Pod": r"-[a-z0-9]{1,10}-[a-z0-9]{5}"},
    "StatefulSet": {"Pod": r"-\d+"},
    "JobSet": {"Job": r"-[a-z0-9-]+-\d+", "Pod": r"-[a-z0-9-]+-\d+(-\d+)?-[a-z0-9]{5}"},
}


def of_job(
    events: Iterable[Object], namespace: str, workload: Object | None, members: Iterable[Object]
) -> Iterator[Object]:
    """Those about a job's workload (None: it has gone), what its controller made, its claims, and nothing older.

    A job of the same name may have been there before: its events are not this one's. Events about what is there have
    its uid: without one they are nobody's.
    """
    pods = {pod["metadata"]["name"]: pod for pod in members}
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
        elif workload is not None and _is_about(kind, name, workload):
            same = uid == workload["metadata"].get("uid") or kind != workload["kind"]
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

"""The times at which a pod reached each stage, from its conditions, container states and kubelet's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.objects.workload_state import condition, has_ended
from gpuctl.reading.jobs.events_of_jobs import event_time
from gpuctl.reading.why.event_proofs import has_expected_reporter

STAGES = ("created", "scheduled", "pulled", "started", "ready", "finished")


class Stage(NamedTuple):
    """A stage of a pod: one of :data:`STAGES`, its time (RFC 3339), and seconds since the previous stage."""

    name: str
    time: str
    seconds: float


def timeline(pod: Object, events: Iterable[Object]) -> list[Stage]:
    """Return the stages that a pod has reached, in order.

    A restarted container counts with its current run. The time of readiness is not kept after a pod has ended.
    """
    result: list[Stage] = []
    for name, time in _times(pod, events):
        seconds = _seconds(result[-1].time, time) if result else 0.0
        # Times are whole seconds from several clocks: a difference may be negative, and counts as 0.
        result.append(Stage(name, time, max(0.0, seconds)))
    return result


def _times(pod: Object, events: Iterable[Object]) -> Iterator[tuple[str, str]]:
    status = pod.get("status") or {}
    found: dict[str, str | None] = {"created": pod["metadata"].get("creationTimestamp")}
    for name, kind in (("scheduled", "PodScheduled"), ("ready", "Ready")):
        found[name] = (condition(pod, kind) or {}).get("lastTransitionTime")
    if not found["scheduled"] and (pod.get("spec") or {}).get("nodeName"):
        # kubelet may rewrite all conditions; its start time is the closest known time.
        found["scheduled"] = status.get("startTime")
    pulled = [event_time(event) for event in events if event.get("reason") == "Pulled" and has_expected_reporter(event)]
    found["pulled"] = max(pulled) if pulled else None
    states = [item.get("state") or {} for item in status.get("containerStatuses") or []]
    begun = [(state.get("running") or state.get("terminated") or {}).get("startedAt") for state in states]
    found["started"] = min((time for time in begun if time), default=None)
    if has_ended(pod):
        ended = [(state.get("terminated") or {}).get("finishedAt") for state in states]
        found["finished"] = max((time for time in ended if time), default=None)
    for name in STAGES:
        time = found.get(name)
        if time:
            yield name, time


def _seconds(before: str, after: str) -> float:
    return (parse_timestamp(after) - parse_timestamp(before)).total_seconds()

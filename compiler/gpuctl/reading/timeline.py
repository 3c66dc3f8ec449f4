"""When what happened to a pod: from its conditions, its containers' states, and kubelet's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.reading.event_rows import event_time
from gpuctl.reading.why.event_proofs import has_expected_reporter

STAGES = ("created", "scheduled", "pulled", "started", "ready", "finished")


class Stage(NamedTuple):
    """``name`` is one of :data:`STAGES`, ``time`` RFC 3339, ``seconds`` since the stage before."""

    name: str
    time: str
    seconds: float


def timeline(pod: Object, events: Iterable[Object]) -> list[Stage]:
    """The stages that a pod has reached, in their order.

    A container that was restarted counts with its present run; a pod that has ended keeps no time of its readiness.
    """
    result: list[Stage] = []
    for name, time in _times(pod, events):
        seconds = _seconds(result[-1].time, time) if result else 0.0
        # The API's times are whole seconds of several clocks: none goes back.
        result.append(Stage(name, time, max(0.0, seconds)))
    return result


def _times(pod: Object, events: Iterable[Object]) -> Iterator[tuple[str, str]]:
    status = pod.get("status") or {}
    found: dict[str, str | None] = {"created": pod["metadata"].get("creationTimestamp")}
    for name, kind in (("scheduled", "PodScheduled"), ("ready", "Ready")):
        held = [
            item for item in status.get("conditions") or [] if item.get("type") == kind and item.get("status") == "True"
        ]
        found[name] = held[0].get("lastTransitionTime") if held else None
    if not found["scheduled"] and (pod.get("spec") or {}).get("nodeName"):
        # kubelet rewrites all conditions; the start of its work is the next best.
        found["scheduled"] = status.get("startTime")
    pulled = [event_time(event) for event in events if event.get("reason") == "Pulled" and has_expected_reporter(event)]
    found["pulled"] = max(pulled) if pulled else None
    states = [item.get("state") or {} for item in status.get("containerStatuses") or []]
    begun = [(state.get("running") or state.get("terminated") or {}).get("startedAt") for state in states]
    found["started"] = min((time for time in begun if time), default=None)
    if status.get("phase") in ("Succeeded", "Failed"):
        ended = [(state.get("terminated") or {}).get("finishedAt") for state in states]
        found["finished"] = max((time for time in ended if time), default=None)
    for name in STAGES:
        time = found.get(name)
        if time:
            yield name, time


def _seconds(before: str, after: str) -> float:
    times = [datetime.fromisoformat(time.replace("Z", "+00:00")) for time in (before, after)]
    return (times[1] - times[0]).total_seconds()

"""Exits of containers: facts shared by the rules about crashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.objects.workload_state import has_ended

STEADY = 600.0
"""Seconds of running after which an earlier exit is ignored; kubelet resets its back-off then, too (kubelet.go)."""


class ContainerExit(NamedTuple):
    """The last exit of a container.

    :param previous: the container has restarted since, or waits for its restart.
    :param running: it runs now, since ``since`` (RFC 3339).
    """

    pod: str
    container: str
    code: int
    reason: str
    message: str
    started: str
    finished: str
    restarts: int
    previous: bool
    running: bool
    since: str
    init: bool
    node: str


def container_exits(pods: Iterable[Object], now: datetime) -> list[ContainerExit]:
    """Return the exits of containers that ended in error or restart again and again, earliest first.

    If several pods of a training end, the first exit usually caused the others.
    """
    found = [end for pod in pods for end in _of_pod(pod, now)]
    return sorted(found, key=lambda end: (end.finished, end.pod, end.container))


def has_ended_container(pod: Object) -> bool:
    """Return True if a container of a running pod has ended."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return not has_ended(pod) and any("terminated" in (item.get("state") or {}) for item in statuses)


def _of_pod(pod: Object, now: datetime) -> Iterator[ContainerExit]:
    status = pod.get("status") or {}
    if status.get("phase") == "Succeeded":
        # Kubelet stops sidecars when the program has ended: their exit codes mean nothing.
        return
    for field, init in (("initContainerStatuses", True), ("containerStatuses", False)):
        for item in status.get(field) or []:
            end = _end(pod, item, now, init=init)
            if end is not None:
                yield end


def _end(pod: Object, item: Object, now: datetime, *, init: bool) -> ContainerExit | None:
    state, last = item.get("state") or {}, (item.get("lastState") or {}).get("terminated")
    ended, running = state.get("terminated"), state.get("running")
    previous = ended is None
    if ended is None:
        ended = last
    if ended is None:
        return None
    if not previous and ended.get("exitCode") == 0:
        return None
    since = (running or {}).get("startedAt") or ""
    if running is not None and _seconds(since, now) > STEADY:
        return None
    if previous and running is None and (state.get("waiting") or {}).get("reason") not in ("CrashLoopBackOff", None):
        # It exited before, but now waits for something else: its image or its configuration.
        return None
    return ContainerExit(
        pod["metadata"]["name"],
        item["name"],
        int(ended.get("exitCode") or 0),
        ended.get("reason") or "",
        ended.get("message") or "",
        ended.get("startedAt") or "",
        ended.get("finishedAt") or "",
        int(item.get("restartCount") or 0),
        previous,
        running is not None,
        since,
        init,
        (pod.get("spec") or {}).get("nodeName") or "",
    )


def _seconds(time: str, now: datetime) -> float:
    return (now - parse_timestamp(time)).total_seconds() if time else 0.0

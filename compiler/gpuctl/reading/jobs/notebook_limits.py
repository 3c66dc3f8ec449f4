"""The limits of a notebook, read from its object and its pod. Times are seconds since 1970."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.durations import HOUR, format_duration, parse_duration, rough_duration
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.timestamps import format_timestamp, seconds_of
from gpuctl.reading.jobs.status import Status

_LEAST_AHEAD = HOUR


class LimitSeconds(NamedTuple):
    """The limits of a notebook in seconds; None without one, or with one that is not a duration."""

    stop_after: float | None
    max_lifetime: float | None

    def end(self, start: float) -> float:
        """Return the end of the lifetime of a pod that started at ``start``; infinite without a limit."""
        return float("inf") if self.max_lifetime is None else start + self.max_lifetime

    def warned_from(self, start: float) -> float:
        """Return the time from which on the owner is warned: the last tenth of the lifetime, at least its last hour."""
        return self.end(start) - max(_LEAST_AHEAD, (self.max_lifetime or 0.0) / 10)

    def lifetime_warning(self, start: float, now: float) -> str:
        """Return when the notebook is paused because of its lifetime; "" before its owner is warned."""
        if self.max_lifetime is None or now < self.warned_from(start):
            return ""
        end, field = self.end(start), f"`notebook.max_lifetime: {format_duration(int(self.max_lifetime))}`"
        if now >= end:
            return say("its lifetime has ended, at {time} ({field})", time=format_timestamp(end), field=field)
        return say(
            "it is paused in {duration}, at {time} ({field}); save your work before",
            duration=rough_duration(end - now),
            time=format_timestamp(end),
            field=field,
        )


def limits_of(workload: Object, keys: Records) -> LimitSeconds:
    """Return the limits in the annotations of a workload."""
    annotations = annotations_of(workload)
    texts = (annotations.get(key) for key in (keys.stop_after, keys.max_lifetime))
    return LimitSeconds(*(parse_duration(text) or None if text else None for text in texts))


def start_of(pod: Object) -> float | None:
    """Return the time at which a node accepted a pod; None for a pod that waits or is being deleted."""
    if pod["metadata"].get("deletionTimestamp"):
        return None
    return seconds_of((pod.get("status") or {}).get("startTime"))


def with_lifetime(
    status: Status, workload: Object | None, pods: Iterable[Object], keys: Records, ahead: float = 0.0
) -> Status:
    """Return the status of a running notebook with a warning before the end of its lifetime.

    :param ahead: seconds by which the API server's clock is ahead of this machine's.
    """
    if workload is None or keys.max_lifetime not in annotations_of(workload) or status.phase != "running":
        return status
    starts = [start for pod in pods if (start := start_of(pod)) is not None]
    warning = limits_of(workload, keys).lifetime_warning(max(starts), time.time() + ahead) if starts else ""
    return status._replace(reason=status.reason or warning)

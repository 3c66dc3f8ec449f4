"""The limits of a notebook, read from its object and its pod. Times are seconds since 1970."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.durations import parse_duration
from gpuctl.objects.ownership_metadata import Records

_LEAST_AHEAD = 3600.0


class NotebookLimits(NamedTuple):
    """The limits of a notebook in seconds; None without one, or with one that is not a duration."""

    stop_after: float | None
    max_lifetime: float | None

    def end(self, start: float) -> float:
        """Return the end of the lifetime of a pod that started at ``start``; infinite without a limit."""
        return float("inf") if self.max_lifetime is None else start + self.max_lifetime

    def warned_from(self, start: float) -> float:
        """Return the time from which on the owner is warned: the last tenth of the lifetime, at least its last hour."""
        return self.end(start) - max(_LEAST_AHEAD, (self.max_lifetime or 0.0) / 10)


def limits_of(workload: Object, keys: Records) -> NotebookLimits:
    """Return the limits in the annotations of a workload."""
    annotations = annotations_of(workload)
    texts = (annotations.get(key) for key in (keys.stop_after, keys.max_lifetime))
    return NotebookLimits(*(parse_duration(text) or None if text else None for text in texts))


def time_of(text: object) -> float | None:
    """Return an RFC 3339 time in UTC as seconds; None for other text."""
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except (ValueError, OverflowError):
        return None


def start_of(pod: Object) -> float | None:
    """Return the time at which a node accepted a pod; None for a pod that waits or is being deleted."""
    if pod["metadata"].get("deletionTimestamp"):
        return None
    return time_of((pod.get("status") or {}).get("startTime"))

"""Arrays: Indexed Jobs whose indexes run, fail and are retried independently, and their progress."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuctl.objects.api_resources import Object


class ArrayProgress(NamedTuple):
    """The progress of an array: its number of indexes, and how many have succeeded and failed for good."""

    size: int
    succeeded: int
    failed: int

    def __str__(self) -> str:
        failed = f" ({self.failed} failed)" if self.failed else ""
        return f"{self.succeeded}/{self.size}{failed}"


def is_array(workload: Object) -> bool:
    """Return True for a Job whose indexes fail independently."""
    return workload["kind"] == "Job" and (workload.get("spec") or {}).get("backoffLimitPerIndex") is not None


def array_progress(workload: Object) -> ArrayProgress | None:
    """Return the progress of an array; None for other workloads."""
    if not is_array(workload):
        return None
    status = workload.get("status") or {}
    failed = count_indexes(status.get("failedIndexes") or "")
    return ArrayProgress(int(workload["spec"].get("completions") or 0), int(status.get("succeeded") or 0), failed)


def index_ranges(listed: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last index of each range in a list such as ``1,3-5``.

    :raises ValueError: the text is not such a list.
    """
    for part in listed.split(",") if listed else ():
        first, _, last = part.partition("-")
        yield int(first), int(last or first)


def count_indexes(listed: str) -> int:
    """Return the number of indexes in a list such as ``1,3-5``."""
    return sum(last - first + 1 for first, last in index_ranges(listed))


def other_indexes(listed: str, size: int) -> str:
    """Return the indexes below ``size`` that a list does not contain, as a list of the same form."""
    ranges, begin = [], 0
    for first, last in [*index_ranges(listed), (size, size)]:
        if first > begin:
            ranges.append(str(begin) if first == begin + 1 else f"{begin}-{first - 1}")
        begin = last + 1
    return ",".join(ranges)

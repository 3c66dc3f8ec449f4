"""The jobs of a sweep as a prerequisite (`job.after`): which exist, and how each has ended.

A sweep has ended if all its jobs have. The first job states their number, because an apply may be interrupted before
it has created them all. A job may be removed by its ttl before the others end, so a waiting training records which
jobs have ended.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.array_jobs import index_ranges, other_indexes
from gpuctl.objects.sweep_names import MOST_SWEEP_JOBS, job_name, number_in_sweep

Outcome = Literal["ok", "failed"]
_SIZE, _ENDED = "jobs", "ended"


class SweepEnds:
    """The existing jobs of a sweep, and their ends; None for a job that has not ended.

    ``size``: the number of jobs that the first one states, 0 if unknown.
    """

    def __init__(self, sweep: str) -> None:
        self.sweep = sweep
        self.jobs: dict[str, Outcome | None] = {}
        self.size = 0

    def add(self, name: str, outcome: Outcome | None, obj: Object, key: str) -> None:
        """Add a job. ``key``: the annotation with the number of jobs."""
        self.jobs[name] = outcome
        if name == job_name(self.sweep, 0):
            self.size = stated_size(obj, key)

    def absent(self) -> tuple[str, ...]:
        """Return the names of the jobs that do not exist."""
        return updated_record(SweepRecord(), self).absent(self.jobs, self.sweep)


class SweepRecord(NamedTuple):
    """The record of a sweep on a training that waits for it: the number of its jobs, and the numbers of those that have
    ended. Jobs whose names were chosen by users have no numbers.
    """

    size: int = 0
    ended: frozenset[int] = frozenset()

    def absent(self, jobs: Collection[str], sweep: str) -> tuple[str, ...]:
        """Return the names of the jobs that do not exist and have not been seen to end."""
        lacking = (job_name(sweep, number) for number in range(self.size) if number not in self.ended)
        return tuple(name for name in lacking if name not in jobs)

    def may_have(self, name: str, sweep: str) -> bool:
        """Return True unless a job has a number that the sweep no longer has."""
        number = number_in_sweep(name, sweep)
        return number is None or number < self.size or not self.size

    def as_json(self) -> dict[str, Any]:
        """Return the form that :func:`read_record` reads."""
        left = ",".join(str(number) for number in range(self.size) if number not in self.ended)
        return {_SIZE: self.size, _ENDED: other_indexes(left, self.size)}


def read_record(value: object) -> SweepRecord:
    """Return the record in a JSON value; an empty one for any other value, which a user may have written."""
    size, ended = (value.get(_SIZE), value.get(_ENDED)) if isinstance(value, dict) else (None, None)
    if not isinstance(size, int) or not 0 < size <= MOST_SWEEP_JOBS or not isinstance(ended, str):
        return SweepRecord()
    numbers: list[int] = []
    try:
        for first, last in index_ranges(ended):
            if not (numbers[-1] if numbers else -1) < first <= last < size:
                return SweepRecord(size)
            numbers += range(first, last + 1)
    except ValueError:
        return SweepRecord(size)
    return SweepRecord(size, frozenset(numbers))


def updated_record(before: SweepRecord, ends: SweepEnds) -> SweepRecord:
    """Return the record of a sweep after its jobs were read. A job that runs again has not ended."""
    outcomes = {
        number: ends.jobs[name] for name in ends.jobs if (number := number_in_sweep(name, ends.sweep)) is not None
    }
    if not outcomes:
        return before
    size = max(ends.size or before.size, max(outcomes) + 1)
    ended = {number for number, outcome in outcomes.items() if outcome is not None}
    return SweepRecord(size, frozenset(ended | {number for number in before.ended - outcomes.keys() if number < size}))


def stated_size(obj: Object, key: str) -> int:
    """Return the number of jobs that the first job of a sweep states in its annotation ``key``; 0 without one."""
    text = annotations_of(obj).get(key, "")
    is_number = re.fullmatch(r"(?a)[1-9]\d{0,3}", text) is not None and int(text) <= MOST_SWEEP_JOBS
    return int(text) if is_number else 0


def with_stated_size(obj: Object, key: str, size: int) -> Object:
    """Return the first job of a sweep with the number of its jobs."""
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations_of(obj), key: str(size)}}}

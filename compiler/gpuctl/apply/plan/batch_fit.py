"""One ``fit`` for all jobs of a batch, whose entries are planned and created one after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import WORKLOADS, Key, Object, key_of

_LASTS = 60.0
"""Seconds for which a snapshot of the cluster is used."""


class BatchFit:
    """The answers of one ``fit`` for all jobs of a batch, in the order in which they are created.

    Reading a cluster of 5,000 pods and running ``fit`` takes longer than creating a job, so the entries share both.

    :param entries: the objects of each entry by its number. Of two jobs with the same name only the first is included.
    """

    def __init__(self, entries: Mapping[int, Sequence[Object]]) -> None:
        self._entries: dict[int, list[Object]] = {}
        self._jobs: set[Key] = set()
        for number, objects in entries.items():
            new = [obj for obj in objects if key_of(obj) not in self._jobs]
            self._entries[number] = new
            self._jobs.update(key_of(obj) for obj in new if obj["kind"] in WORKLOADS)
        self._snapshot: Snapshot | None = None
        self._taken = 0.0
        self._answers: list[Fit] | None = None

    def leave_out(self, number: int) -> None:
        """Remove an entry that is not created, so that later entries can use its room."""
        for obj in self._entries.pop(number, ()):
            self._jobs.discard(key_of(obj))
            self._answers = None

    def answers(self, keys: set[Key], take: Callable[[], Snapshot]) -> tuple[Snapshot, list[Fit]] | None:
        """Return the snapshot and the answers for some jobs; None if one of them is not in the batch.

        :param take: takes a snapshot of the cluster.
        """
        if not keys <= self._jobs:
            return None
        if self._snapshot is None or time.monotonic() - self._taken > _LASTS:
            self._taken = time.monotonic()
            self._snapshot, self._answers = take(), None
        if self._answers is None:
            objects = [obj for entry in self._entries.values() for obj in entry]
            self._answers = fit(self._snapshot, objects, self._jobs)
        return self._snapshot, [answer for answer in self._answers if answer.demand.key in keys]

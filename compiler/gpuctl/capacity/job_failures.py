"""Which jobs fail in one run of a simulated scheduler; what nobody can tell is drawn, for each job once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable

from gpuctl.capacity.draws import Draws
from gpuctl.capacity.frailty import Endurance
from gpuctl.capacity.job_pods import JobPods, Whole


class JobFailures:
    """The pods that jobs have lost in one run, and what that has done to them."""

    def __init__(self, draws: Draws) -> None:
        self._draws = draws
        self._evicted: Counter[Hashable] = Counter()
        self._luck: dict[Hashable, bool] = {}

    def fails(self, job: Hashable, endurance: Endurance, evicted: int, others: int = 0) -> bool:
        """Whether a job fails that loses so many more pods.

        :param others: so many of its pods are deleted by others.
        """
        self._evicted[job] += evicted
        return self._drawn(job, endurance.fails(self._evicted[job], others))

    def failing(self, jobs: Iterable[JobPods]) -> list[JobPods]:
        """Those of some jobs that fail, each of which loses a pod as often as it is given."""
        return [job for job, lost in Counter(jobs).items() if self.fails(job, job.endurance, lost, job.leaving)]

    def restarts(self, whole: Whole) -> bool:
        """Whether what has failed is made again."""
        return self._drawn(whole, whole.restarts)

    def _drawn(self, what: Hashable, known: bool | None) -> bool:
        if known is not None:
            return known
        if what not in self._luck:
            self._luck[what] = self._draws.below(2) == 0
        return self._luck[what]

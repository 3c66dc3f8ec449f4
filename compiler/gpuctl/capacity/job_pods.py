"""The pods of Jobs, and what becomes of them when some are evicted: a Job goes on or fails, and its JobSet with it.

A Job whose rules leave that open, or which may not be read, may do either: what may end is told as well as what does.
Source: ``pkg/controller/job/job_controller.go``; JobSet 0.12, ``pkg/controllers/jobset_controller.go``: of a JobSet
that has failed, and of one that starts again, all Jobs are deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.capacity.eviction_tolerance import UNSURE, Endurance
from gpuctl.capacity.pod_deadlines import job_of, job_set_of
from gpuctl.capacity.scheduler_model import PlacedPod
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object


@dataclass(eq=False)
class Whole:
    """What ends as a whole: the ``pods`` of a Job, or of all Jobs of a JobSet, those that have a node.

    ``expected`` are those that have none yet. ``restarts``: all of them are made again then; None: nobody can tell.
    """

    restarts: bool | None
    pods: list[PlacedPod] = field(default_factory=list)
    expected: list[PlacedPod] = field(default_factory=list)


@dataclass(eq=False)
class JobPods:
    """The ``pods`` of one Job that have a node, and the ``whole`` that fails with it.

    ``leaving`` are so many that somebody else has deleted: whether they are counted among the failed ones nobody knows.
    """

    endurance: Endurance
    whole: Whole
    pods: list[PlacedPod] = field(default_factory=list)
    leaving: int = 0

    def fails(self, evicted: int) -> bool | None:
        """Whether it fails when so many of its pods are evicted; None: nobody can tell."""
        return self.endurance.fails(evicted, self.leaving)

    @property
    def may_fail(self) -> bool:
        """Whether it may fail when any of its pods are evicted. One that comes again waits longer than others take."""
        return self.fails(len(self.pods)) is not False


class Lost(NamedTuple):
    """The effect of an eviction on other pods.

    ``ending`` end with the evicted pods, ``unsure`` may end. ``over`` are all pods that are not created again, the
    evicted and the waiting ones too. ``frees``: pods without a node may end as well, and the room reserved for them
    is free.
    """

    ending: tuple[PlacedPod, ...]
    unsure: tuple[PlacedPod, ...]
    over: frozenset[PlacedPod]
    frees: bool

    @property
    def all(self) -> tuple[PlacedPod, ...]:
        """All that end or may."""
        return self.ending + self.unsure


_NOTHING = Lost((), (), frozenset(), frees=False)


class Jobs:
    """The Jobs of a cluster by their pods."""

    def __init__(
        self, pods: Iterable[tuple[PlacedPod, Object]], expected: Iterable[tuple[PlacedPod, Object]], snapshot: Snapshot
    ) -> None:
        """
        :param pods: the pods of the snapshot that are on nodes, in both forms.
        :param expected: those that are not yet.
        """
        self._snapshot = snapshot
        self._by_pod: dict[PlacedPod, JobPods] = {}
        self._whole: dict[PlacedPod, Whole] = {}
        self._named: dict[tuple[str, str], JobPods] = {}
        self._wholes: dict[tuple[str, str], Whole] = {}
        for pod, item in pods:
            job = self._job(item)
            if job is None:
                continue
            if pod.deleting:
                job.leaving += 1
            else:
                job.pods.append(pod)
                job.whole.pods.append(pod)
                self._by_pod[pod] = job
                self._whole[pod] = job.whole
        for pod, item in expected:
            job = self._job(item)
            if job is not None:
                job.whole.expected.append(pod)
                self._whole[pod] = job.whole

    def _job(self, item: Object) -> JobPods | None:
        name, owner = job_of(item), job_set_of(item)
        if name is None:
            return None
        if name not in self._named:
            known = self._snapshot.jobs_by_name.get(name)
            own = UNSURE if known is None else Endurance(known.get("spared", 0), known.get("enough"))
            self._named[name] = JobPods(own, Whole(False) if owner is None else self._job_set(owner))
        return self._named[name]

    def _job_set(self, name: tuple[str, str]) -> Whole:
        if name not in self._wholes:
            known = self._snapshot.sets_by_name.get(name)
            again = None if known is None or known.get("unsure") else known.get("restarts", False)
            self._wholes[name] = Whole(again)
        return self._wholes[name]

    def of(self, pod: PlacedPod) -> JobPods | None:
        """The Job of a pod that is on a node, and that nobody has deleted."""
        return self._by_pod.get(pod)

    def whole_of(self, pod: PlacedPod) -> Whole | None:
        """What a pod ends with, one that has no node as well."""
        return self._whole.get(pod)

    def lost_with(self, evicted: Iterable[PlacedPod]) -> Lost:
        """What becomes of others when all these are evicted."""
        if not self._by_pod:
            return _NOTHING
        gone = list(evicted)
        counts = Counter(job for pod in gone if (job := self._by_pod.get(pod)) is not None)
        fates = {job: fails for job, number in counts.items() if (fails := job.fails(number)) is not False}
        if not fates:
            return _NOTHING
        ending: dict[PlacedPod, None] = {}
        touched: dict[PlacedPod, None] = {}
        over: set[PlacedPod] = set()
        for job, fails in fates.items():
            touched.update(dict.fromkeys(job.whole.pods))
            if fails:
                # A rule of a JobSet may start this Job alone again.
                ending.update(dict.fromkeys(job.pods if job.whole.restarts is None else job.whole.pods))
                over.update((*job.whole.pods, *job.whole.expected) if job.whole.restarts is False else ())
        known = set(gone)
        return Lost(
            tuple(pod for pod in ending if pod not in known),
            tuple(pod for pod in touched if pod not in known and pod not in ending),
            frozenset(over),
            frees=any(job.whole.expected for job in fates),
        )

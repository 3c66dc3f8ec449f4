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

from gpuctl.capacity.eviction_tolerance import UNKNOWN, EvictionTolerance
from gpuctl.capacity.pod_deadlines import job_of, job_set_of
from gpuctl.capacity.scheduler_model import PlacedPod
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object


@dataclass(eq=False)
class FailureDomain:
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

    tolerance: EvictionTolerance
    domain: FailureDomain
    pods: list[PlacedPod] = field(default_factory=list)
    leaving: int = 0

    def fails(self, evicted: int) -> bool | None:
        """Whether it fails when so many of its pods are evicted; None: nobody can tell."""
        return self.tolerance.fails(evicted, self.leaving)

    @property
    def may_fail(self) -> bool:
        """Whether it may fail when any of its pods are evicted. One that comes again waits longer than others take."""
        return self.fails(len(self.pods)) is not False


class EvictionLoss(NamedTuple):
    """The effect of an eviction on other pods.

    ``ending`` end with the evicted pods, ``unsure`` may end. ``over`` are all pods that are not created again, the
    evicted and the waiting ones too. ``frees``: pods without a node may end as well, and the room reserved for them
    is free.
    """

    ending: tuple[PlacedPod, ...]
    may_end: tuple[PlacedPod, ...]
    not_recreated: frozenset[PlacedPod]
    frees_reserved_room: bool

    @property
    def all(self) -> tuple[PlacedPod, ...]:
        """All that end or may."""
        return self.ending + self.may_end


_NOTHING = EvictionLoss((), (), frozenset(), frees_reserved_room=False)


class JobIndex:
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
        self._domain_by_pod: dict[PlacedPod, FailureDomain] = {}
        self._named: dict[tuple[str, str], JobPods] = {}
        self._job_set_domains: dict[tuple[str, str], FailureDomain] = {}
        for pod, item in pods:
            job = self._job(item)
            if job is None:
                continue
            if pod.deleting:
                job.leaving += 1
            else:
                job.pods.append(pod)
                job.domain.pods.append(pod)
                self._by_pod[pod] = job
                self._domain_by_pod[pod] = job.domain
        for pod, item in expected:
            job = self._job(item)
            if job is not None:
                job.domain.expected.append(pod)
                self._domain_by_pod[pod] = job.domain

    def _job(self, item: Object) -> JobPods | None:
        name, owner = job_of(item), job_set_of(item)
        if name is None:
            return None
        if name not in self._named:
            known = self._snapshot.jobs_by_name.get(name)
            own = UNKNOWN if known is None else EvictionTolerance(known.get("spared", 0), known.get("enough"))
            self._named[name] = JobPods(own, FailureDomain(False) if owner is None else self._job_set(owner))
        return self._named[name]

    def _job_set(self, name: tuple[str, str]) -> FailureDomain:
        if name not in self._job_set_domains:
            known = self._snapshot.sets_by_name.get(name)
            again = None if known is None or known.get("unsure") else known.get("restarts", False)
            self._job_set_domains[name] = FailureDomain(again)
        return self._job_set_domains[name]

    def of(self, pod: PlacedPod) -> JobPods | None:
        """The Job of a pod that is on a node, and that nobody has deleted."""
        return self._by_pod.get(pod)

    def domain_of(self, pod: PlacedPod) -> FailureDomain | None:
        """What a pod ends with, one that has no node as well."""
        return self._domain_by_pod.get(pod)

    def lost_with(self, evicted: Iterable[PlacedPod]) -> EvictionLoss:
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
        not_recreated: set[PlacedPod] = set()
        for job, fails in fates.items():
            touched.update(dict.fromkeys(job.domain.pods))
            if fails:
                # A rule of a JobSet may start this Job alone again.
                ending.update(dict.fromkeys(job.pods if job.domain.restarts is None else job.domain.pods))
                not_recreated.update((*job.domain.pods, *job.domain.expected) if job.domain.restarts is False else ())
        known = set(gone)
        return EvictionLoss(
            tuple(pod for pod in ending if pod not in known),
            tuple(pod for pod in touched if pod not in known and pod not in ending),
            frozenset(not_recreated),
            frees_reserved_room=any(job.domain.expected for job in fates),
        )

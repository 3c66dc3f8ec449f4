"""The pods of Jobs, and which of them end when some are evicted: a Job survives or fails, and its JobSet with it. The
pods of a replica of a LeaderWorkerSet end together.

If a Job's rules leave that open, or may not be read, its pods are listed as pods that may end. Source:
``pkg/controller/job/job_controller.go``; JobSet 0.12, ``pkg/controllers/jobset_controller.go``: if a JobSet fails or
restarts, all its Jobs are deleted; LeaderWorkerSet 0.9, ``pkg/controllers/pod_controller.go`` (handleRestartPolicy).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.capacity.pods.pod_deadlines import group_of, job_of, job_set_of
from gpuctl.capacity.scheduler.scheduler_model import PlacedPod
from gpuctl.capacity.snapshot.eviction_tolerance import UNKNOWN, EvictionTolerance
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object
from gpuctl.objects.label_names import MANAGED_BY, MANAGER


@dataclass(eq=False)
class FailureDomain:
    """Pods that fail together: those of a Job, of all Jobs of a JobSet, or of a replica of a LeaderWorkerSet.

    ``pods`` are on nodes, ``expected`` are not yet. ``restarts``: all of them are recreated after a failure; None if
    unknown.
    """

    restarts: bool | None
    pods: list[PlacedPod] = field(default_factory=list)
    expected: list[PlacedPod] = field(default_factory=list)


@dataclass(eq=False)
class JobPods:
    """The ``pods`` of one Job, or of one replica, that are on nodes, and their failure domain.

    ``leaving``: the number of pods that others have deleted; it is unknown whether they count as failed.
    """

    tolerance: EvictionTolerance
    domain: FailureDomain
    pods: list[PlacedPod] = field(default_factory=list)
    leaving: int = 0

    def fails(self, evicted: int) -> bool | None:
        """Return True if the Job fails when so many of its pods are evicted, None if that is unknown."""
        return self.tolerance.fails(evicted, self.leaving)

    @property
    def may_fail(self) -> bool:
        """True if the Job may fail when pods are evicted. A Job that is recreated queues behind the others."""
        return self.fails(len(self.pods)) is not False


def _replica(pod: Object) -> JobPods:
    """Return the replica of a pod: gpuctl's are recreated as a whole. The policy of others is not in a snapshot."""
    if (pod.get("labels") or {}).get(MANAGED_BY) == MANAGER:
        return JobPods(EvictionTolerance(0, 1), FailureDomain(True))
    return JobPods(UNKNOWN, FailureDomain(None))


class EvictionLoss(NamedTuple):
    """The effect of an eviction on other pods.

    ``ending`` end with the evicted pods, ``may_end`` possibly do. ``not_recreated`` are all pods that are not created
    again, evicted and pending ones included. ``frees_reserved_room``: pods without a node may end as well, which frees
    the room reserved for them.
    """

    ending: tuple[PlacedPod, ...]
    may_end: tuple[PlacedPod, ...]
    not_recreated: frozenset[PlacedPod]
    frees_reserved_room: bool

    @property
    def all(self) -> tuple[PlacedPod, ...]:
        """All pods that end, or may end."""
        return self.ending + self.may_end


_NOTHING = EvictionLoss((), (), frozenset(), frees_reserved_room=False)


class JobIndex:
    """The Jobs of a cluster, indexed by their pods."""

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
        self._groups: dict[tuple[str, str, str], JobPods] = {}
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
        group = group_of(item)
        if group is not None:
            return self._groups.setdefault(group, _replica(item))
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
        """Return the Job of a pod, or None if the pod has no node, is being deleted, or belongs to no Job."""
        return self._by_pod.get(pod)

    def domain_of(self, pod: PlacedPod) -> FailureDomain | None:
        """Return the failure domain of a pod, also of a pod without a node."""
        return self._domain_by_pod.get(pod)

    def lost_with(self, evicted: Iterable[PlacedPod]) -> EvictionLoss:
        """Return the effect on other pods if all these are evicted."""
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
                # A rule of the JobSet may restart this Job alone.
                ending.update(dict.fromkeys(job.pods if job.domain.restarts is None else job.domain.pods))
                not_recreated.update((*job.domain.pods, *job.domain.expected) if job.domain.restarts is False else ())
        known = set(gone)
        return EvictionLoss(
            tuple(pod for pod in ending if pod not in known),
            tuple(pod for pod in touched if pod not in known and pod not in ending),
            frozenset(not_recreated),
            frees_reserved_room=any(job.domain.expected for job in fates),
        )

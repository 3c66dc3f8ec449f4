"""The state of Kueue's queues: the ClusterQueues, the jobs that have quota, and those that wait.

Source: Kueue 0.19, ``pkg/cache/scheduler/clusterqueue.go``, ``pkg/cache/queue/cluster_queue.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from gpuctl.capacity.kueue.cohorts import FlavorResource, cohort_of, parent_of
from gpuctl.capacity.kueue.kueue_configuration import OWN_LABELS, KueueConfiguration
from gpuctl.capacity.kueue.queue_quota import QuotaNode, is_in_cycle, quota_trees
from gpuctl.capacity.scheduler.scheduler_model import Units
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.pod_specs import required_node_terms
from gpuctl.objects.quantities import sum_by_key
from gpuctl.objects.selectors import blocking_taint, requirement_matches

NOT_CREATED = "~"
"""Prefix of the creation times of jobs that do not exist yet: they sort after all existing times."""
_NEVER = "Never"
# v1beta1 values of what v1beta2 calls MayStopSearch.
_STOPS = ("Borrow", "Preempt", "MayStopSearch")


class FlavorGroup(NamedTuple):
    """Resources that a job gets from one flavor, and the flavors in the order in which Kueue tries them."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


class PodSet(NamedTuple):
    """The total requests of the pods of one template.

    ``excluded``: flavor -> why its pods cannot use it. ``depends_on_release``: of Kueue, which is unknown.
    ``is_uncounted``: Kueue counts devices (DRA) that the requests lack.
    """

    name: str
    requests: Units
    excluded: Mapping[str, str]
    depends_on_release: bool = False
    is_uncounted: bool = False

    def without_flavors(self, rules: ClusterQueueRules) -> PodSet:
        """Return the pod set with every flavor excluded."""
        return self._replace(excluded={flavor: "" for group in rules.groups for flavor in group.flavors})


class ClusterQueueRules(NamedTuple):
    """The rules of a ClusterQueue.

    - ``threshold``: highest priority of jobs that may be preempted while borrowing.
    - ``stops_at_borrowing``, ``stops_at_preempting``: no further flavor is tried if a flavor fits that way.
    - ``prefers_preemption``: of several flavors, the one that borrows least is taken.
    - Not ``is_active``: it admits no job, and no quota is reclaimed from it.
    """

    name: str
    groups: tuple[FlavorGroup, ...]
    is_strict: bool
    preemption_policy: str
    reclaim_policy: str
    borrows: bool
    threshold: int | None
    stops_at_borrowing: bool
    stops_at_preempting: bool
    prefers_preemption: bool
    is_active: bool

    @property
    def preempts(self) -> bool:
        """True if its jobs may preempt others."""
        return {self.preemption_policy, self.reclaim_policy} != {_NEVER}


@dataclass(eq=False)
class QueuedJob:
    """A Workload of the cluster, or of a job to be created. ``number`` identifies it.

    - ``created``: sortable text. ``since``: the order in which jobs got quota. ``held``: its quota.
    - ``ends_after_eviction``: after an eviction it does not queue again.
    - ``is_untried``: Kueue has not tried to admit it yet.
    """

    number: int
    queue: str
    priority: int
    created: str
    pod_sets: tuple[PodSet, ...]
    held: dict[FlavorResource, int] | None = None
    since: int = 0
    uid: str = ""
    evicted: bool = False
    ends_after_eviction: bool = False
    is_untried: bool = False

    @property
    def importance(self) -> tuple[int, int, str]:
        """Sort key: jobs with a smaller key are preempted first."""
        return self.priority, -self.since, self.uid

    @property
    def requests(self) -> Units:
        """Its total requests."""
        return sum_by_key(item.requests for item in self.pod_sets)


@dataclass
class QueueState:
    """The ClusterQueues of a cluster, the jobs that hold quota and the jobs that wait.

    ``roots``: ClusterQueue -> the root of its tree; equal for queues that can lend each other quota.
    """

    cluster_queues: list[Object]
    cohorts: list[Object]
    rules: dict[str, ClusterQueueRules]
    roots: dict[str, str]
    holding: list[QueuedJob] = field(default_factory=list)
    waiting: list[QueuedJob] = field(default_factory=list)

    @cached_property
    def unused_quota(self) -> Mapping[str, QuotaNode]:
        """The quota of the ClusterQueues by name while no job holds any. Read only."""
        return quota_trees(self.cluster_queues, self.cohorts)

    def part(self, root: str) -> QueueState:
        """Return the state of the ClusterQueues below a root."""
        return QueueState(
            [item for item in self.cluster_queues if self.roots[item["name"]] == root],
            self.cohorts,
            self.rules,
            self.roots,
            [job for job in self.holding if self.roots[job.queue] == root],
            [job for job in self.waiting if self.roots[job.queue] == root],
        )


def chooses_flavors(job: QueuedJob, rules: ClusterQueueRules) -> bool:
    """Return True if a pod set of a job may use several flavors of a resource that it requests."""
    return any(
        sum(flavor not in pods.excluded for flavor in group.flavors) > 1
        for pods in job.pod_sets
        for group in rules.groups
        if group.resources & pods.requests.keys()
    )


def combines_flavors(job: QueuedJob, rules: ClusterQueueRules) -> bool:
    """Return True if a job that does not fit is tried again with other flavors: it has several pod sets with a choice.

    Source: ``scheduler.go``, lastAssignmentOutdated.
    """
    return len(job.pod_sets) > 1 and chooses_flavors(job, rules)


def build_queue_state(cluster_queues: list[Object], cohorts: list[Object], flavors: Iterable[Object]) -> QueueState:
    """Return the state of the queues without any job."""
    known = {item["name"] for item in flavors}
    parents = {item["name"]: parent_of(item) for item in cohorts}
    rules, roots = {}, {}
    nodes = quota_trees(cluster_queues, cohorts)
    for item in cluster_queues:
        found = _rules(item)
        used = {flavor for group in found.groups for flavor in group.flavors}
        is_whole = used <= known and not is_in_cycle(cohort_of(item), parents)
        rules[found.name] = found._replace(is_active=found.is_active and is_whole)
        top = [cohort.name for cohort in nodes[found.name].ancestors()]
        roots[found.name] = f"cohort {top[-1]}" if top else f"queue {found.name}"
    return QueueState(cluster_queues, cohorts, rules, roots)


def _rules(item: Object) -> ClusterQueueRules:
    spec = item["spec"]
    preemption, fungibility = spec.get("preemption") or {}, spec.get("flavorFungibility") or {}
    borrow = preemption.get("borrowWithinCohort") or {}
    groups = tuple(
        FlavorGroup(frozenset(group["coveredResources"]), tuple(flavor["name"] for flavor in group["flavors"]))
        for group in spec.get("resourceGroups") or ()
    )
    return ClusterQueueRules(
        item["name"],
        groups,
        spec.get("queueingStrategy") == "StrictFIFO",
        preemption.get("withinClusterQueue") or _NEVER,
        preemption.get("reclaimWithinCohort") or _NEVER,
        (borrow.get("policy") or _NEVER) != _NEVER,
        borrow.get("maxPriorityThreshold"),
        (fungibility.get("whenCanBorrow") or "MayStopSearch") in _STOPS,
        (fungibility.get("whenCanPreempt") or "TryNextFlavor") in _STOPS,
        fungibility.get("preference") == "PreemptionOverBorrowing",
        (spec.get("stopPolicy") or "None") == "None" and item.get("active", True),
    )


def pod_set(
    name: str,
    requests: Units,
    count: int,
    spec: Object,
    rules: ClusterQueueRules,
    flavors: Mapping[str, Object],
    configuration: KueueConfiguration,
) -> PodSet:
    """Return the pod set of a template in a ClusterQueue.

    :param requests: the total requests of its ``count`` pods.

    Source: ``flavorassigner.go``, assignFlavors, checkFlavorForPodSets.
    """
    covered = {resource for group in rules.groups for resource in group.resources}
    total = configuration.quota_requests(requests, covered)
    if "pods" in covered:
        total["pods"] = count
    has_own_labels = configuration.has(OWN_LABELS)
    excluded = _all_excluded(spec, rules, flavors, shares_keys=has_own_labels is False)
    depends = has_own_labels is None and excluded.keys() != _all_excluded(spec, rules, flavors, shares_keys=True).keys()
    return PodSet(name, total, excluded, depends)


def _all_excluded(
    spec: Object, rules: ClusterQueueRules, flavors: Mapping[str, Object], *, shares_keys: bool
) -> dict[str, str]:
    """Return the flavors that pods cannot use, with the reason.

    :param shares_keys: compare the label keys of all flavors of the group.
    """
    found = {}
    for group in rules.groups:
        keys = {name: set(flavors.get(name, {}).get("labels") or {}) for name in group.flavors}
        every = set().union(*keys.values())
        for name in group.flavors:
            used = every if shares_keys else keys[name]
            reason = _excluded(spec, flavors[name], used) if name in flavors else say("does not exist")
            if reason is not None:
                found[name] = reason
    return found


def _excluded(spec: Object, flavor: Object, keys: set[str]) -> str | None:
    """Return why pods cannot use a flavor, or None. Only these label keys are compared."""
    tolerations = [*(spec.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
    taint = blocking_taint(flavor.get("taints") or (), tolerations)
    if taint is not None:
        return say("has the taint {taint}, which its pods do not tolerate", taint=taint["key"])
    labels = flavor.get("labels") or {}
    wanted = {key: value for key, value in (spec.get("nodeSelector") or {}).items() if key in keys}
    if not wanted.items() <= labels.items() or not _in_terms(spec, labels, keys):
        return say("selects other nodes than its pods do")
    return None


def _in_terms(spec: Object, labels: Mapping[str, str], keys: set[str]) -> bool:
    """Source: flavorSelector. A term without any of these keys matches every flavor."""
    terms = required_node_terms(spec)
    kept = [[item for item in term.get("matchExpressions") or [] if item["key"] in keys] for term in terms]
    return (
        not kept
        or any(not term for term in kept)
        or any(all(requirement_matches(item, labels) for item in term) for term in kept)
    )

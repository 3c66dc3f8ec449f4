"""Kueue's queues, who has quota of them and who waits: what its scheduler sees of a cluster.

Source: Kueue 0.15, ``pkg/cache/scheduler/clusterqueue.go``, ``pkg/cache/queue/cluster_queue.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from gpuctl.capacity.cohorts import FlavorResource, cohort_of, parent_of
from gpuctl.capacity.queue_quota import is_in_cycle, quota_trees
from gpuctl.capacity.scheduler_model import Units
from gpuctl.objects.api_resources import Object
from gpuctl.objects.selectors import holds, tolerates

NOT_CREATED = "~"
"""The times at which jobs that come will be created begin with this, and so are after all others."""
_NEVER = "Never"
_BLOCKING = ("NoSchedule", "NoExecute")
# v1beta1 has these words for what v1beta2 calls MayStopSearch.
_STOPS = ("Borrow", "Preempt", "MayStopSearch")


class FlavorGroup(NamedTuple):
    """Resources that a job gets from one flavor, the flavors in the order in which they are tried."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


class PodSet(NamedTuple):
    """Pods of one template: what they request together, and the flavors that are not for them, with the reason."""

    name: str
    requests: Units
    excluded: Mapping[str, str]

    def without_flavors(self, rules: ClusterQueueRules) -> PodSet:
        """The same pods where Kueue admits them with no flavor."""
        return self._replace(excluded={flavor: "" for group in rules.groups for flavor in group.flavors})


class ClusterQueueRules(NamedTuple):
    """A ClusterQueue's own rules. ``threshold`` is up to which priority others are preempted while it borrows.

    ``stops_at_...`` tell that no further flavor is looked at once one would do by that. Not ``is_active``: it admits
    nothing, and nobody takes quota back from it.
    """

    name: str
    groups: tuple[FlavorGroup, ...]
    is_strict: bool
    within: str
    reclaim: str
    borrows: bool
    threshold: int | None
    stops_at_borrowing: bool
    stops_at_preempting: bool
    is_active: bool

    @property
    def preempts(self) -> bool:
        """Whether a job of it may ever preempt another."""
        return {self.within, self.reclaim} != {_NEVER}


@dataclass(eq=False)
class QueuedJob:
    """A Workload: of an object that comes, or one that the cluster has. Its ``number`` tells it from all others.

    ``created`` orders as text, ``since`` tells in which order jobs have got quota; ``held`` is the quota that it has.
    ``in_turn``: Kueue knows of it before the next one is created. ``leaves``: it does not wait again once its pods have
    gone. ``is_untried``: Kueue has not looked at it yet.
    """

    number: int
    namespace: str
    kind: str
    name: str
    queue: str
    priority: int
    created: str
    pod_sets: tuple[PodSet, ...]
    held: dict[FlavorResource, int] | None = None
    since: int = 0
    uid: str = ""
    evicted: bool = False
    in_turn: bool = False
    leaves: bool = False
    is_untried: bool = False

    @property
    def importance(self) -> tuple[int, int, str]:
        """Less is preempted earlier."""
        return self.priority, -self.since, self.uid

    @property
    def requests(self) -> Units:
        """What it requests in all."""
        total: Units = {}
        for item in self.pod_sets:
            for name, amount in item.requests.items():
                total[name] = total.get(name, 0) + amount
        return total


@dataclass
class QueueState:
    """The ClusterQueues of a cluster, with those who hold quota of them and those who wait, as of now."""

    cluster_queues: list[Object]
    cohorts: list[Object]
    rules: dict[str, ClusterQueueRules]
    roots: dict[str, str]
    holding: list[QueuedJob] = field(default_factory=list)
    waiting: list[QueuedJob] = field(default_factory=list)

    def part(self, root: str) -> QueueState:
        """The world of the ClusterQueues that may lend each other quota."""
        return QueueState(
            [item for item in self.cluster_queues if self.roots[item["name"]] == root],
            self.cohorts,
            self.rules,
            self.roots,
            [job for job in self.holding if self.roots[job.queue] == root],
            [job for job in self.waiting if self.roots[job.queue] == root],
        )


def build_queue_state(cluster_queues: list[Object], cohorts: list[Object], flavors: Iterable[Object]) -> QueueState:
    """The queues without any job. ``roots`` tells by a ClusterQueue's name with whom it shares a cohort."""
    known = {item["name"] for item in flavors}
    parents = {item["name"]: parent_of(item) for item in cohorts}
    rules, roots = {}, {}
    nodes = quota_trees(cluster_queues, cohorts)
    for item in cluster_queues:
        found = _rules(item)
        used = {flavor for group in found.groups for flavor in group.flavors}
        is_whole = used <= known and not is_in_cycle(cohort_of(item), parents)
        rules[found.name] = found._replace(is_active=found.is_active and is_whole)
        top = [cohort.name for cohort in nodes[found.name].path()]
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
        (spec.get("stopPolicy") or "None") == "None" and item.get("active", True),
    )


def pod_set(
    name: str, requests: Units, count: int, spec: Object, rules: ClusterQueueRules, flavors: Mapping[str, Object]
) -> PodSet:
    """The pods of one template, which request so much together, in a ClusterQueue.

    Source: ``flavorassigner.go``, checkFlavorForPodSets.
    """
    total = {**requests}
    if any("pods" in group.resources for group in rules.groups):
        total["pods"] = count
    excluded: dict[str, str] = {}
    for group in rules.groups:
        keys = {key for name in group.flavors for key in flavors.get(name, {}).get("labels") or {}}
        for flavor in group.flavors:
            found = _excluded(spec, flavors[flavor], keys) if flavor in flavors else "does not exist"
            if found is not None:
                excluded[flavor] = found
    return PodSet(name, total, excluded)


def _excluded(spec: Object, flavor: Object, keys: set[str]) -> str | None:
    """Why pods cannot go with a flavor; only labels that some flavor of the group has are compared."""
    tolerations = [*(spec.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
    for taint in flavor.get("taints") or ():
        if taint.get("effect") in _BLOCKING and not any(tolerates(item, taint) for item in tolerations):
            return f"has the taint {taint['key']}, which its pods do not tolerate"
    labels = flavor.get("labels") or {}
    wanted = {key: value for key, value in (spec.get("nodeSelector") or {}).items() if key in keys}
    if not wanted.items() <= labels.items() or not _in_terms(spec, labels, keys):
        return "is for other nodes than its pods ask for"
    return None


def _in_terms(spec: Object, labels: Mapping[str, str], keys: set[str]) -> bool:
    """Source: flavorSelector. A term without any such label matches every flavor."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    terms = (required or {}).get("nodeSelectorTerms") or []
    kept = [[item for item in term.get("matchExpressions") or [] if item["key"] in keys] for term in terms]
    return not kept or any(not term for term in kept) or any(all(holds(item, labels) for item in term) for term in kept)

"""What a ClusterQueue of Kueue may still use: its own quota, and what its cohort lends it.

Source: Kueue 0.15, ``pkg/cache/scheduler/resource_node.go`` (available, potentialAvailable, SubtreeQuota, localQuota,
accumulateFromChild); ``pkg/workload/workload.go`` (totalRequestsFromPodSets, totalRequestsFromAdmission).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.pod_requests import Amounts, pod_requests, quantity
from gpuctl.objects.api_resources import Object

ZERO = Fraction(0)


class FlavorResource(NamedTuple):
    """What quota is given for: a flavor's resource."""

    flavor: str
    resource: str


class FlavorQuota(NamedTuple):
    """Of one slot: cores, bytes or pieces. Without a limit (None) all that others leave may be borrowed, or lent."""

    nominal: Fraction
    borrowing_limit: Fraction | None = None
    lending_limit: Fraction | None = None


@dataclass
class CohortNode:
    """A ClusterQueue or a cohort; ``used`` is what its workloads have reserved."""

    name: str
    quotas: Mapping[FlavorResource, FlavorQuota] = field(default_factory=dict)
    used: Mapping[FlavorResource, Fraction] = field(default_factory=dict)
    parent: CohortNode | None = None
    children: list[CohortNode] = field(default_factory=list)

    def available(self, slot: FlavorResource) -> Fraction:
        """What a new workload may get without anybody being preempted; below 0 when more is used than there is."""
        free = self._subtree(slot) - self.usage(slot)
        if self.parent is None:
            return free
        local = max(ZERO, self._guaranteed(slot) - self.usage(slot))
        lent = self.parent.available(slot)
        limit = self.quota(slot).borrowing_limit
        if limit is not None:
            stored = self._subtree(slot) - self._guaranteed(slot)
            lent = min(stored - max(ZERO, self.usage(slot) - self._guaranteed(slot)) + limit, lent)
        return local + lent

    def potential(self, slot: FlavorResource) -> Fraction:
        """What a workload may get at most: when nothing else is used in the whole cohort."""
        if self.parent is None:
            return self._subtree(slot)
        most = self._guaranteed(slot) + self.parent.potential(slot)
        limit = self.quota(slot).borrowing_limit
        return most if limit is None else min(self._subtree(slot) + limit, most)

    def quota(self, slot: FlavorResource) -> FlavorQuota:
        """What it has itself of a slot."""
        return self.quotas.get(slot, FlavorQuota(ZERO))

    def usage(self, slot: FlavorResource) -> Fraction:
        """What is used: by its own workloads, or of a cohort's quota by its members."""
        own = self.used.get(slot, ZERO)
        return own + sum((max(ZERO, child.usage(slot) - child._guaranteed(slot)) for child in self.children), ZERO)

    def _subtree(self, slot: FlavorResource) -> Fraction:
        lent = (child._subtree(slot) - child._guaranteed(slot) for child in self.children)
        return self.quota(slot).nominal + sum(lent, ZERO)

    def _guaranteed(self, slot: FlavorResource) -> Fraction:
        """What it never lends."""
        limit = self.quota(slot).lending_limit
        return ZERO if limit is None else max(ZERO, self._subtree(slot) - limit)


def cluster_queue(obj: Object) -> CohortNode:
    """A ClusterQueue by itself: what it may use is known if it is in no cohort."""
    reserved = (obj.get("status") or {}).get("flavorsReservation") or []
    used = {
        FlavorResource(flavor["name"], item["name"]): _counted(item["name"], item.get("total") or 0)
        for flavor in reserved
        for item in flavor.get("resources") or []
    }
    return CohortNode(obj["metadata"]["name"], flavor_quotas(obj), used)


def flavor_quotas(obj: Object) -> dict[FlavorResource, FlavorQuota]:
    """What a ClusterQueue or Cohort states, in the order in which Kueue tries flavors."""
    return {
        FlavorResource(flavor["name"], item["name"]): FlavorQuota(
            _counted(item["name"], item.get("nominalQuota") or 0),
            _limit(item["name"], item.get("borrowingLimit")),
            _limit(item["name"], item.get("lendingLimit")),
        )
        for group in (obj.get("spec") or {}).get("resourceGroups") or []
        for flavor in group.get("flavors") or []
        for item in flavor.get("resources") or []
    }


def _limit(resource: str, value: str | int | None) -> Fraction | None:
    return None if value is None else _counted(resource, value)


def _counted(resource: str, value: str | int | Fraction) -> Fraction:
    """An amount as Kueue counts it: CPUs in thousandths, all else in whole numbers. Source: ResourceValue."""
    amount = value if isinstance(value, Fraction) else quantity(value)
    return Fraction(math.ceil(amount * 1000), 1000) if resource == "cpu" else Fraction(math.ceil(amount))


def cohort_of(obj: Object) -> str:
    """The cohort of a ClusterQueue, "" for none. ``cohort`` is its name in v1beta1."""
    spec = obj.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def cohort_tree(name: str, cluster_queues: Iterable[Object], cohorts: Iterable[Object]) -> CohortNode | None:
    """A ClusterQueue among all others; None when it is not among them.

    A cohort that only ClusterQueues name exists all the same, and one that is its own ancestor lends nothing.
    """
    above = {item["metadata"]["name"]: item for item in cohorts}
    nodes = {name: CohortNode(name, flavor_quotas(item)) for name, item in above.items()}
    found: CohortNode | None = None
    for item in cluster_queues:
        node = cluster_queue(item)
        _join(node, nodes, cohort_of(item))
        found = node if node.name == name else found
    for cohort, item in above.items():
        parent = parent_of(item)
        if parent and cohort not in ancestor_cohorts(parent, above):
            _join(nodes[cohort], nodes, parent)
    return found


def parent_of(cohort: Object) -> str:
    """The cohort that a Cohort belongs to, "" for none. ``parent`` is its name in v1beta1."""
    spec = cohort.get("spec") or {}
    return str(spec.get("parentName") or spec.get("parent") or "")


def ancestor_cohorts(name: str, cohorts: Mapping[str, Object]) -> set[str]:
    """A cohort, and those that it belongs to; of those with an ancestor in common each may lend what others use."""
    found: set[str] = set()
    while name and name not in found:
        found.add(name)
        name = parent_of(cohorts.get(name, {}))
    return found


def _join(node: CohortNode, nodes: dict[str, CohortNode], parent: str) -> None:
    if not parent:
        return
    node.parent = nodes.setdefault(parent, CohortNode(parent))
    node.parent.children.append(node)


def requested_amounts(workload: Object) -> Amounts:
    """What a Workload asks for, or has reserved, in all."""
    total: Amounts = {}
    for amounts in requested_by_pod_sets(workload):
        for resource, value in amounts.items():
            total[resource] = total.get(resource, ZERO) + value
    # Of one that waits a request of nothing counts, too: a ClusterQueue that does not cover it never admits it.
    return {
        resource: value
        for resource, value in total.items()
        if value or not (workload.get("status") or {}).get("admission")
    }


def requested_by_pod_sets(workload: Object) -> Iterator[Amounts]:
    """What each pod set asks for, or has reserved: pods that have ended for good give theirs back.

    Kueue writes the sums down when it looks at a Workload (:func:`has_recorded_requests`). Before, it is what the
    pods request.
    """
    status = workload.get("status") or {}
    ended = {item["name"]: int(item["count"]) for item in status.get("reclaimablePods") or []}
    told = {item["name"]: item.get("resources") or {} for item in status.get("resourceRequests") or []}
    has = {item.get("name", "main"): item for item in (status.get("admission") or {}).get("podSetAssignments") or []}
    for pods in (workload.get("spec") or {}).get("podSets") or []:
        name, count = pods.get("name", "main"), int(pods.get("count", 1))
        left = max(0, count - ended.get(name, 0))
        if name in has:
            admitted = int(has[name].get("count") or count)
            share = Fraction(left, admitted) if left < admitted else 1
            usage = has[name].get("resourceUsage") or {}
            yield {resource: quantity(value) * share for resource, value in usage.items()}
        elif name in told:
            yield {resource: quantity(value) for resource, value in told[name].items()}
        else:
            each = pod_requests((pods.get("template") or {}).get("spec") or {})
            yield {resource: _counted(resource, value) * left for resource, value in each.items()}


def has_recorded_requests(workload: Object) -> bool:
    """Whether Kueue has written down what a Workload asks for: its Configuration may leave resources out, or count
    them as others."""
    return bool((workload.get("status") or {}).get("resourceRequests"))

"""The quota that a Kueue ClusterQueue can still use: its own, and what its cohort lends.

Source: Kueue 0.19, ``pkg/cache/scheduler/resource_node.go`` (available, potentialAvailable, SubtreeQuota, localQuota,
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
    """A resource of a flavor: the unit in which Kueue gives quota."""

    flavor: str
    resource: str


class FlavorQuota(NamedTuple):
    """The quota of a flavor resource: cores, bytes or pieces. A limit of None means unlimited borrowing or lending."""

    nominal: Fraction
    borrowing_limit: Fraction | None = None
    lending_limit: Fraction | None = None


@dataclass
class CohortNode:
    """A ClusterQueue or a cohort. ``used``: the quota that its workloads have reserved."""

    name: str
    quotas: Mapping[FlavorResource, FlavorQuota] = field(default_factory=dict)
    used: Mapping[FlavorResource, Fraction] = field(default_factory=dict)
    parent: CohortNode | None = None
    children: list[CohortNode] = field(default_factory=list)

    def available(self, slot: FlavorResource) -> Fraction:
        """Return the quota that a new workload can get without preemption. Negative if usage exceeds quota."""
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
        """Return the quota that a workload can get if nothing in the whole cohort is used."""
        if self.parent is None:
            return self._subtree(slot)
        most = self._guaranteed(slot) + self.parent.potential(slot)
        limit = self.quota(slot).borrowing_limit
        return most if limit is None else min(self._subtree(slot) + limit, most)

    def quota(self, slot: FlavorResource) -> FlavorQuota:
        """Return its own quota of a flavor resource."""
        return self.quotas.get(slot, FlavorQuota(ZERO))

    def usage(self, slot: FlavorResource) -> Fraction:
        """Return the usage by its own workloads; for a cohort, the usage beyond its members' guaranteed quota."""
        own = self.used.get(slot, ZERO)
        return own + sum((max(ZERO, child.usage(slot) - child._guaranteed(slot)) for child in self.children), ZERO)

    def _subtree(self, slot: FlavorResource) -> Fraction:
        lent = (child._subtree(slot) - child._guaranteed(slot) for child in self.children)
        return self.quota(slot).nominal + sum(lent, ZERO)

    def _guaranteed(self, slot: FlavorResource) -> Fraction:
        """Return the quota that it never lends."""
        limit = self.quota(slot).lending_limit
        return ZERO if limit is None else max(ZERO, self._subtree(slot) - limit)


def cluster_queue(obj: Object) -> CohortNode:
    """Return a ClusterQueue without its cohort."""
    reserved = (obj.get("status") or {}).get("flavorsReservation") or []
    used = {
        FlavorResource(flavor["name"], item["name"]): _counted(item["name"], item.get("total") or 0)
        for flavor in reserved
        for item in flavor.get("resources") or []
    }
    return CohortNode(obj["metadata"]["name"], flavor_quotas(obj), used)


def flavor_quotas(obj: Object) -> dict[FlavorResource, FlavorQuota]:
    """Return the quotas in the spec of a ClusterQueue or Cohort, in the order in which Kueue tries flavors."""
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
    """Convert an amount to Kueue's precision: thousandths of a core, else whole numbers. Source: ResourceValue."""
    amount = value if isinstance(value, Fraction) else quantity(value)
    return Fraction(math.ceil(amount * 1000), 1000) if resource == "cpu" else Fraction(math.ceil(amount))


def cohort_of(obj: Object) -> str:
    """Return the cohort of a ClusterQueue, "" for none. The field is ``cohort`` in v1beta1."""
    spec = obj.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def cohort_tree(name: str, cluster_queues: Iterable[Object], cohorts: Iterable[Object]) -> CohortNode | None:
    """Return a ClusterQueue with its cohorts and their members, or None if it does not exist.

    A cohort exists even if only ClusterQueues name it. A cohort that is its own ancestor gets no parent.
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
    """Return the parent of a Cohort, "" for none. The field is ``parent`` in v1beta1."""
    spec = cohort.get("spec") or {}
    return str(spec.get("parentName") or spec.get("parent") or "")


def ancestor_cohorts(name: str, cohorts: Mapping[str, Object]) -> set[str]:
    """Return a cohort and its ancestors. Cohorts with a common ancestor can lend each other quota."""
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
    """Return the total that a Workload requests or has reserved."""
    total: Amounts = {}
    for amounts in requested_by_pod_sets(workload):
        for resource, value in amounts.items():
            total[resource] = total.get(resource, ZERO) + value
    return {resource: value for resource, value in total.items() if value}


def requested_by_pod_sets(workload: Object) -> Iterator[Amounts]:
    """Yield what each pod set requests or has reserved, without the share of pods that have ended for good.

    Kueue records the sums when it examines a Workload (:func:`has_recorded_requests`). Before that, the pods' requests
    count.
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
    """Return True if Kueue has recorded a Workload's requests. Its configuration may exclude or transform resources."""
    return bool((workload.get("status") or {}).get("resourceRequests"))

"""Quotas of Kueue's ClusterQueues and cohorts in the scheduler's units, with usage that changes during admission.

Source: Kueue 0.19, ``pkg/cache/scheduler/resource_node.go``, ``pkg/scheduler/preemption/classical``
(FindHeightOfLowestSubtreeThatFits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

from gpuctl.capacity.kueue.cohorts import (
    ZERO,
    FlavorQuota,
    FlavorResource,
    cohort_of,
    flavor_quotas,
    parent_of,
    reserved_quota,
)
from gpuctl.capacity.scheduler.scheduler_model import amount_of
from gpuctl.capacity.snapshot.kueue_entries import cluster_queue_entry, cohort_entry
from gpuctl.objects.api_resources import Object

_NOTHING = FlavorQuota(0)


@dataclass(frozen=True)
class QueueQuota:
    """The quota of a ClusterQueue for one resource in one flavor, in cores, bytes or counts.

    :param free: amount that is available without preemption, with what the cohort lends; None if it may not be read.
    :param most: amount that is available if nothing else runs, as ``free``.
    """

    slot: FlavorResource
    nominal: Fraction
    borrowing_limit: Fraction | None
    used: Fraction
    free: Fraction | None
    most: Fraction | None

    @property
    def borrowed(self) -> Fraction:
        """Return the used amount above the own quota."""
        return max(ZERO, self.used - self.nominal)


@dataclass(frozen=True)
class QueueHeadroom(QueueQuota):
    """The quota for a resource that a job requests.

    :param asked: the job's total request.
    :param largest: the largest request of one pod set; all pods of a set get the resource from one flavor.
    """

    asked: Fraction
    largest: Fraction


class QuotaNode:
    """A ClusterQueue or a cohort, in the units of :func:`gpuctl.capacity.scheduler.scheduler_model.units`.

    ``subtree``: its quota with what its members lend; ``kept``: the part that it never lends. ``height``: the distance
    to its furthest member (getNodeHeight).
    """

    def __init__(self, name: str, own: Mapping[FlavorResource, FlavorQuota]) -> None:
        self.name = name
        self.own = own
        self.parent: QuotaNode | None = None
        self.queues: list[QuotaNode] = []
        self.cohorts: list[QuotaNode] = []
        self.subtree: dict[FlavorResource, int] = {}
        self.kept: dict[FlavorResource, int] = {}
        self.used: dict[FlavorResource, int] = {}
        self.height = 0

    def compute_quota(self) -> None:
        """Compute the quota of the node and its members. Source: updateCohortResourceNode, localQuota."""
        self.subtree = {slot: quota.nominal for slot, quota in self.own.items()}
        for child in (*self.cohorts, *self.queues):
            child.compute_quota()
            self.height = max(self.height, child.height + 1)
            for slot, amount in child.subtree.items():
                self.subtree[slot] = self.subtree.get(slot, 0) + amount - child.kept.get(slot, 0)
        for slot, amount in self.subtree.items():
            limit = self.own.get(slot, _NOTHING).lending_limit
            if limit is not None:
                self.kept[slot] = max(0, amount - limit)

    def local_available(self, slot: FlavorResource) -> int:
        """Return the free part of the quota that it never lends. Source: LocalAvailable."""
        return max(0, self.kept.get(slot, 0) - self.used.get(slot, 0))

    def available(self, slot: FlavorResource) -> int:
        """Return the quota that a new job can get without preemption; may be negative. Source: available."""
        used, subtree = self.used.get(slot, 0), self.subtree.get(slot, 0)
        if self.parent is None:
            return subtree - used
        lent = self.parent.available(slot)
        limit = self.own.get(slot, _NOTHING).borrowing_limit
        if limit is not None:
            kept = self.kept.get(slot, 0)
            lent = min(subtree - kept - max(0, used - kept) + limit, lent)
        return self.local_available(slot) + lent

    def potential(self, slot: FlavorResource) -> int:
        """Return the quota that a job can get if nothing is used. Source: potentialAvailable."""
        if self.parent is None:
            return self.subtree.get(slot, 0)
        most = self.kept.get(slot, 0) + self.parent.potential(slot)
        limit = self.own.get(slot, _NOTHING).borrowing_limit
        return most if limit is None else min(self.subtree.get(slot, 0) + limit, most)

    def add(self, slot: FlavorResource, amount: int) -> None:
        """Add usage. Source: addUsage."""
        passed = amount - self.local_available(slot)
        self.used[slot] = self.used.get(slot, 0) + amount
        if self.parent is not None and passed > 0:
            self.parent.add(slot, passed)

    def remove(self, slot: FlavorResource, amount: int) -> None:
        """Remove usage. Source: removeUsage."""
        stored = self.used.get(slot, 0) - self.kept.get(slot, 0)
        self.used[slot] = self.used.get(slot, 0) - amount
        if self.parent is not None and stored > 0:
            self.parent.remove(slot, min(amount, stored))

    def would_borrow(self, slot: FlavorResource, amount: int = 0) -> bool:
        """Return True if it would borrow with an additional amount. Source: BorrowingWith."""
        return self.used.get(slot, 0) + amount > self.subtree.get(slot, 0)

    def borrows_none(self, slots: Iterable[FlavorResource]) -> bool:
        """Return True if it borrows none of some flavor resources. Source: IsWithinNominalInResources."""
        return not any(self.would_borrow(slot) for slot in slots)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Yield its cohorts, from the nearest to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def borrowing_distance(self, slot: FlavorResource, amount: int) -> tuple[int, bool]:
        """Return the distance from which an additional amount would be borrowed (0: own quota), and whether that is
        below the root.

        Source: FindHeightOfLowestSubtreeThatFits.
        """
        if self.parent is None or not self.would_borrow(slot, amount):
            return 0, self.parent is not None
        rest, root = amount - self.local_available(slot), self.parent
        for node in self.ancestors():
            if not node.would_borrow(slot, rest):
                return node.height, node.parent is not None
            rest -= node.local_available(slot)
            root = node
        return root.height, False

    def fits_quota(self, requests: Mapping[FlavorResource, int]) -> tuple[bool, dict[FlavorResource, int]]:
        """Return True if its own quota suffices, and the amounts that remain to be borrowed. Source:
        QuantitiesFitInQuota.
        """
        fits = not any(self.would_borrow(slot, amount) for slot, amount in requests.items())
        return fits, {slot: max(0, amount - self.local_available(slot)) for slot, amount in requests.items()}


def quota_trees(cluster_queues: Iterable[Object], cohorts: Iterable[Object]) -> dict[str, QuotaNode]:
    """Return the ClusterQueues by name, each in its tree, without usage.

    A cohort exists even if only ClusterQueues or Cohorts name it. A cohort that is its own ancestor gets no parent; its
    ClusterQueues admit nothing (Kueue's ``hierarchy/cycle.go``).
    """
    found: dict[str, QuotaNode] = {}
    cohorts = list(cohorts)
    groups = {item["name"]: QuotaNode(item["name"], flavor_quotas(item)) for item in cohorts}
    parents = {item["name"]: parent_of(item) for item in cohorts}
    for item in cluster_queues:
        node = found[item["name"]] = QuotaNode(item["name"], flavor_quotas(item))
        name = cohort_of(item)
        if name:
            node.parent = groups.setdefault(name, QuotaNode(name, {}))
            node.parent.queues.append(node)
    for name, parent in parents.items():
        if parent and not is_in_cycle(name, parents):
            node = groups[name]
            node.parent = groups.setdefault(parent, QuotaNode(parent, {}))
            node.parent.cohorts.append(node)
    for node in [*groups.values(), *found.values()]:
        if node.parent is None:
            node.compute_quota()
    return found


def is_in_cycle(name: str, parents: Mapping[str, str]) -> bool:
    """Return True if a cohort's chain of parents never ends."""
    seen: set[str] = set()
    while name and name not in seen:
        seen.add(name)
        name = parents.get(name, "")
    return bool(name)


def live_quota_trees(cluster_queues: Iterable[Object], cohorts: Iterable[Object]) -> dict[str, QuotaNode]:
    """Return the ClusterQueues of a cluster by name, each in its tree, with the quota that is reserved now."""
    queues = list(cluster_queues)
    found = quota_trees(map(cluster_queue_entry, queues), map(cohort_entry, cohorts))
    for item in queues:
        for slot, amount in reserved_quota(item).items():
            found[item["metadata"]["name"]].add(slot, amount)
    return found


def queue_quota(node: QuotaNode, slot: FlavorResource) -> QueueQuota:
    """Return one of a ClusterQueue's own quotas, with its current use."""
    quota, resource = node.own[slot], slot.resource
    limit = None if quota.borrowing_limit is None else amount_of(resource, quota.borrowing_limit)
    values = (node.used.get(slot, 0), max(0, node.available(slot)), node.potential(slot))
    return QueueQuota(
        slot, amount_of(resource, quota.nominal), limit, *(amount_of(resource, value) for value in values)
    )


def lacking(rooms: Iterable[QueueHeadroom], amount: Callable[[QueueHeadroom], Fraction | None]) -> list[QueueHeadroom]:
    """Return the quota of resources of which an amount is known and less than a job requests."""
    by_resource: dict[str, list[QueueHeadroom]] = {}
    for room in rooms:
        by_resource.setdefault(room.slot.resource, []).append(room)
    found: list[QueueHeadroom] = []
    for own in by_resource.values():
        known = [has for has in map(amount, own) if has is not None]
        if len(known) == len(own) and (
            all(has < room.largest for has, room in zip(known, own, strict=True)) or sum(known) < own[0].asked
        ):
            found += own
    return found

"""Where a job stands in its queue of Kueue: what it asks for, what is free, who is before it and who has the quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from gpuctl.apply.state.records import Records
from gpuctl.apply.state.workload import condition
from gpuctl.backend.api_resources import Object
from gpuctl.capacity.cohorts import ZERO, FlavorQuota, Node, Slot, asked, cluster_queue, cohort_of, tree
from gpuctl.capacity.pod_requests import Amounts
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.kueue import kueue_resources
from gpuctl.kube.scope import Scope

# Conditions by which a Workload goes to the end of its queue: Kueue's pkg/workload, GetQueueOrderTimestamp.
_REQUEUED_AT_THE_END = ("PodsReadyTimeout", "AdmissionCheck")


class KueueLists(NamedTuple):
    """Kueue's objects as they were read; None: they may not be. ``installed``: there is a Kueue."""

    workloads: list[Object] | None = None
    local_queues: list[Object] | None = None
    cluster_queues: list[Object] | None = None
    cohorts: list[Object] | None = None
    installed: bool = True


class Claim(NamedTuple):
    """Another job that waits, or has quota: ``name`` as ``training/x``, ``since`` when it was created."""

    namespace: str
    name: str
    priority: int
    since: str
    amounts: Amounts


@dataclass(frozen=True)
class Room:
    """What a ClusterQueue has for one resource of a job in one flavor: cores, bytes or pieces.

    ``free`` is what a job gets without anybody being preempted, ``most`` what it gets when nothing else runs, both with
    what the cohort lends; None: that may not be read.
    """

    slot: Slot
    asked: Fraction
    quota: FlavorQuota
    used: Fraction
    free: Fraction | None
    most: Fraction | None

    @property
    def is_short(self) -> bool:
        """Whether the job has to wait for others here."""
        return self.free is not None and self.free < self.asked

    @property
    def is_too_small(self) -> bool:
        """Whether the job never fits here."""
        return self.most is not None and self.most < self.asked


@dataclass(frozen=True)
class QueuePosition:
    """A job in its queue. ``ahead`` are the jobs that Kueue looks at before it, first in front; ``waiting`` counts all.

    Both, and ``holders`` (who has quota of what it lacks), are those of the ClusterQueue that may be read; None: none.
    """

    queue: str
    cluster_queue: str | None
    cohort: str
    strategy: str
    priority: int
    asked: Amounts
    rooms: list[Room] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    ahead: list[Claim] | None = None
    waiting: int | None = None
    holders: list[Claim] = field(default_factory=list)

    @property
    def short(self) -> list[Room]:
        """The rooms of the resources that are short in every flavor, by resource."""
        resources = dict.fromkeys(room.slot.resource for room in self.rooms)
        lacking = [name for name in resources if all(room.is_short for room in self._of(name))]
        return [room for name in lacking for room in self._of(name)]

    @property
    def too_small(self) -> list[Room]:
        """The rooms of the resources of which no flavor ever has enough."""
        resources = dict.fromkeys(room.slot.resource for room in self.rooms)
        never = [name for name in resources if all(room.is_too_small for room in self._of(name))]
        return [room for name in never for room in self._of(name)]

    def _of(self, resource: str) -> list[Room]:
        return [room for room in self.rooms if room.slot.resource == resource]


def read_kueue(scope: Scope) -> KueueLists:
    """What the server tells of Kueue's queues. What may not be read is noted."""
    kinds = kueue_resources(scope.session)
    if kinds is None:
        return KueueLists(installed=False)
    confined: list[str] = []

    def read(kind: str) -> list[Object] | None:
        namespaces = (None, scope.namespace) if kinds[kind].namespaced else (None,)
        for namespace in namespaces:
            try:
                found = scope.session.list_objects(kinds[kind], namespace)[0]
            except ApiError as error:
                if not error.lacks_permission and not error.is_missing:
                    raise
            else:
                if namespace is not None:
                    confined.append(kind)
                return found
        return None

    workloads, local, cluster, cohorts = scope.session.each(read, list(kinds))
    if workloads is None:
        scope.note("Kueue's workloads may not be read: what the queue waits for is not known")
    elif confined:
        scope.note("Kueue's queues of other namespaces may not be read: whose jobs there are before it is not known")
    if local is None:
        scope.note("Kueue's localqueues may not be read: whether its queue exists is not known")
    if cluster is None:
        scope.note("Kueue's clusterqueues may not be read: how much quota there is, and is free, is not known")
    return KueueLists(workloads, local, cluster, cohorts)


def place_of(workload: Object, lists: KueueLists, keys: Records) -> QueuePosition:
    """Where the Workload of a job stands."""
    namespace, spec = workload["metadata"]["namespace"], workload.get("spec") or {}
    queue = spec.get("queueName") or ""
    leads = _leads(lists.local_queues or [])
    name = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue") or leads.get((namespace, queue))
    obj = next((item for item in lists.cluster_queues or [] if item["metadata"]["name"] == name), None)
    wants, priority = asked(workload), int(spec.get("priority") or 0)
    cohort = cohort_of(obj) if obj is not None else ""
    strategy = str(((obj or {}).get("spec") or {}).get("queueingStrategy") or "")
    rooms = list(_rooms(obj, wants, lists)) if obj is not None else []
    covered = {room.slot.resource for room in rooms}
    uncovered = [resource for resource in wants if resource not in covered] if obj is not None else []
    place = QueuePosition(queue, name, cohort, strategy, priority, wants, rooms, uncovered)
    if name is None or lists.workloads is None:
        return place
    same = [item for item in lists.workloads if _goes_to(item, leads) == name]
    waiting = [item for item in same if _waits(item)]
    before = sorted((item for item in waiting if _order(item) < _order(workload)), key=_order)
    short = {room.slot.resource for room in place.short}
    holders = [claim_of(item, keys) for item in _holding(lists.workloads, name, cohort, lists) if item is not workload]
    holders = [claim for claim in holders if short & claim.amounts.keys()]
    ahead = [claim_of(item, keys) for item in before]
    return QueuePosition(queue, name, cohort, strategy, priority, wants, rooms, uncovered, ahead, len(waiting), holders)


def _rooms(obj: Object, wants: Amounts, lists: KueueLists) -> Iterator[Room]:
    own = cluster_queue(obj)
    node: Node | None = own
    if cohort_of(obj):
        # Without the cohorts what they have themselves, and whom they belong to, is not known.
        known = lists.cluster_queues is not None and lists.cohorts is not None
        node = tree(own.name, lists.cluster_queues or [], lists.cohorts or []) if known else None
    for slot, quota in own.quotas.items():
        want = wants.get(slot.resource)
        if want is None:
            continue
        free = max(ZERO, node.available(slot)) if node is not None else None
        most = node.potential(slot) if node is not None else None
        yield Room(slot, want, quota, own.used.get(slot, ZERO), free, most)


def _leads(local_queues: Iterable[Object]) -> dict[tuple[str, str], str]:
    """(namespace, LocalQueue) -> ClusterQueue."""
    return {
        (item["metadata"]["namespace"], item["metadata"]["name"]): str((item.get("spec") or {}).get("clusterQueue"))
        for item in local_queues
    }


def _goes_to(workload: Object, leads: dict[tuple[str, str], str]) -> str | None:
    queue = (workload.get("spec") or {}).get("queueName") or ""
    return leads.get((workload["metadata"]["namespace"], queue))


def _waits(workload: Object) -> bool:
    active = (workload.get("spec") or {}).get("active") is not False
    return active and condition(workload, "QuotaReserved") is None and condition(workload, "Finished") is None


def _order(workload: Object) -> tuple[int, str]:
    """Kueue's order within a ClusterQueue; of those created within the same second the order is not known."""
    spec = workload.get("spec") or {}
    evicted = condition(workload, "Evicted") or {}
    time = evicted.get("lastTransitionTime") if evicted.get("reason") in _REQUEUED_AT_THE_END else None
    return -int(spec.get("priority") or 0), time or workload["metadata"].get("creationTimestamp") or ""


def _holding(workloads: Iterable[Object], name: str, cohort: str, lists: KueueLists) -> Iterator[Object]:
    """The Workloads that have quota of a ClusterQueue, or of others of its cohort."""
    others = {item["metadata"]["name"] for item in lists.cluster_queues or [] if cohort and cohort_of(item) == cohort}
    for item in workloads:
        admission = (item.get("status") or {}).get("admission") or {}
        if admission.get("clusterQueue") in {name, *others} and condition(item, "Finished") is None:
            yield item


def claim_of(workload: Object, keys: Records) -> Claim:
    """Whose a Workload is, and what it asks for, or has."""
    metadata, spec = workload["metadata"], workload.get("spec") or {}
    pods: Object = next(iter(spec.get("podSets") or []), {})
    labels = ((pods.get("template") or {}).get("metadata") or {}).get("labels") or {}
    owners = (item for item in metadata.get("ownerReferences") or [] if item.get("controller"))
    owner = next(owners, {"kind": "Workload", "name": metadata["name"]})
    name = f"{owner['kind']}/{owner['name']}"
    if keys.job_type in labels:
        name = f"{labels[keys.job_type]}/{labels.get('app', owner['name'])}"
    created = metadata.get("creationTimestamp") or ""
    return Claim(metadata["namespace"], name, int(spec.get("priority") or 0), created, asked(workload))

"""Nodes: their resources, requests, pods and pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, NamedTuple

from gpuctl.capacity.snapshot.pod_requests import Amounts, amounts, pod_requests
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.quantities import format_amount, sum_by_key
from gpuctl.objects.workload_state import condition, has_ended
from gpuctl.reading.nodes.node_devices import NO_DEVICES, Devices
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.registered_cards import (
    CardUse,
    held_amounts,
    registered_amounts,
    registered_cards,
    whole_cards,
)

NodeStatus = Literal["active", "maintaining", "faulty"]
STATUSES: tuple[NodeStatus, ...] = ("active", "maintaining", "faulty")
"""``active``; ``maintaining``: cordoned; ``faulty``: not ready and not cordoned."""
GpuStatus = Literal["used", "free", "faulty", "unknown"]

MOST_LISTED = 1024
"""Maximum number of GPUs that are listed one by one: a node may report any number."""


@dataclass(frozen=True)
class PodOnNode:
    """A pod that holds or waits for resources. ``kind`` is its job's kind; None for pods that gpuctl did not create."""

    pod: str
    name: str
    namespace: str
    kind: str | None
    gpu: int
    node: str | None
    pool: str | None


class GpuOnNode(NamedTuple):
    """A GPU of a node. ``status`` is ``unknown`` if pods may not be read.

    Kubernetes reports how many GPUs are allocated, not which. The index in ``name`` is assigned by gpuctl; it is not
    the device's index.
    """

    name: str
    type: str | None
    status: GpuStatus
    utilization: float | None = None
    memory: str | None = None


@dataclass(frozen=True)
class NodeDetails:
    """A node.

    :param broken_gpus: GPUs in the node's capacity that are not allocatable.
    :param total: allocatable resources (cores, bytes, counts).
    :param used: requests of the pods on it; None if pods may not be read.
    :param holders: those pods; None if pods may not be read.
    :param free_slices: see :class:`Devices`.
    """

    object: Object
    name: str
    status: NodeStatus
    pool: str
    gpu_type: str | None
    gpu_labels: Mapping[str, str]
    gpu_total: int
    gpu_used: int | None
    broken_gpus: int
    total: Amounts
    used: Amounts | None
    holders: tuple[PodOnNode, ...] | None
    free_slices: Mapping[str, int] = field(default_factory=dict)

    @property
    def gpu_free(self) -> int | None:
        """Return the number of GPUs that no pod requests, whether or not the node is schedulable."""
        return None if self.gpu_used is None else max(0, self.gpu_total - self.gpu_used)

    @property
    def created_at(self) -> str | None:
        """Return when the node joined the cluster, RFC 3339."""
        created: str | None = self.object["metadata"].get("creationTimestamp")
        return created

    @property
    def address(self) -> str | None:
        """Return the node's internal IP address."""
        addresses = (self.object.get("status") or {}).get("addresses") or []
        return next((item["address"] for item in addresses if item.get("type") == "InternalIP"), None)

    @property
    def kubernetes(self) -> str:
        """Return the status as kubectl prints it: ``Ready``, ``NotReady,SchedulingDisabled``."""
        ready = "Ready" if condition(self.object, "Ready") else "NotReady"
        return f"{ready},SchedulingDisabled" if _is_cordoned(self.object) else ready

    @property
    def is_cordoned(self) -> bool:
        """Return True if the node is unschedulable."""
        return _is_cordoned(self.object)

    @property
    def has_gpus(self) -> bool:
        """Return True if the node has GPUs, working or not."""
        return self.gpu_count > 0

    @property
    def gpus(self) -> list[GpuOnNode]:
        """Return the GPUs one by one, up to :data:`MOST_LISTED`."""
        used = self.gpu_used
        shown = min(self.gpu_total, MOST_LISTED)
        states: list[GpuStatus] = [
            "unknown" if used is None else "used" if index < used else "free" for index in range(shown)
        ]
        states += ["faulty"] * min(self.broken_gpus, MOST_LISTED - shown)
        return [GpuOnNode(f"gpu-{index}", self.gpu_type, state) for index, state in enumerate(states)]

    @property
    def gpu_count(self) -> int:
        """Return the number of GPUs, working or not. It may exceed the number of listed GPUs."""
        return self.gpu_total + self.broken_gpus

    @property
    def cpu(self) -> str:
        """Return the allocatable cores."""
        return format_amount("cpu", self.amount("cpu")[0])

    @property
    def memory(self) -> str:
        """Return the allocatable memory."""
        return format_amount("memory", self.amount("memory")[0])

    @property
    def bound_pools(self) -> list[str]:
        """Return the pool of the node, as a list."""
        return [self.pool]

    def amount(self, resource: str) -> tuple[Fraction, Fraction | None]:
        """Return the allocatable and the requested amount of a resource."""
        used = None if self.used is None else self.used.get(resource, Fraction(0))
        return self.total.get(resource, Fraction(0)), used


def status_of(node: Object) -> NodeStatus:
    """Return the status of a node. A node that is cordoned and not ready counts as ``maintaining``."""
    if _is_cordoned(node):
        return "maintaining"
    return "active" if condition(node, "Ready") else "faulty"


def pool_name(node: Object, keys: Records) -> str:
    """Return the pool of a node, ``default`` without a pool label."""
    return labels_of(node).get(keys.pool) or DEFAULT_POOL


def pod_on_node(pod: Object, gpus: int, keys: Records) -> PodOnNode:
    """Return a pod with the number of GPUs that it holds or requests."""
    labels, metadata = labels_of(pod), pod["metadata"]
    kind = labels.get(keys.job_type)
    return PodOnNode(
        metadata["name"],
        (labels.get("app") if kind else None) or _owner(metadata),
        metadata["namespace"],
        kind,
        gpus,
        pod["spec"].get("nodeName"),
        labels.get(keys.pool) if kind else None,
    )


def read_nodes(
    nodes: Iterable[Object],
    pods: Iterable[Object] | None,
    keys: Records,
    gpus: PlatformGpus,
    devices: Devices = NO_DEVICES,
) -> list[NodeDetails]:
    """Return the nodes by name, with the requests of their pods and the devices that drivers offer.

    Bound, unfinished pods are counted, with init containers and sidecars as the scheduler counts them. Holders are the
    pods of jobs, and other pods that request GPUs.

    :param pods: unfinished pods; None if they may not be read.
    """
    used: dict[str, Amounts] = {}
    cards: dict[str, CardUse] = {}
    holders: dict[str, list[PodOnNode]] = {}
    for pod in pods or ():
        place = pod["spec"].get("nodeName")
        if not place or has_ended(pod):
            continue
        requests = sum_by_key((held_amounts(pod_requests(pod["spec"]), gpus.shares), devices.of_pod(pod, gpus.vendors)))
        used[place] = sum_by_key((used.get(place, {}), requests))
        cards.setdefault(place, CardUse()).add(pod, requests, gpus.shares)
        found = pod_on_node(pod, gpus.count(requests), keys)
        if found.kind or found.gpu:
            holders.setdefault(place, []).append(found)
    known = pods is not None
    return [
        _node(
            node,
            used.get(node["metadata"]["name"], {}) if known else None,
            tuple(sorted(holders.get(node["metadata"]["name"], []), key=_order)) if known else None,
            keys,
            gpus,
            devices,
            cards.get(node["metadata"]["name"], CardUse()),
        )
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    ]


def _node(
    node: Object,
    used: Amounts | None,
    holders: tuple[PodOnNode, ...] | None,
    keys: Records,
    gpus: PlatformGpus,
    devices: Devices,
    in_use: CardUse,
) -> NodeDetails:
    status, name = node.get("status") or {}, node["metadata"]["name"]
    allocatable = amounts(status.get("allocatable"))
    # The nodes of HAMi do not report the memory and cores of their cards: those that pods use are shown.
    registered = {key: amount for key, amount in registered_amounts(node, gpus.shares).items() if key in (used or ())}
    total = {**registered, **sum_by_key((allocatable, devices.offered.get(name, {})))}
    capacity = amounts(status.get("capacity"))
    # Nodes of HAMi and Volcano report shares; their cards are counted.
    cards = {
        share.number: own
        for share in gpus.shares
        if capacity.get(share.number) and (own := registered_cards(node, share.registered))
    }

    def count(found: Amounts) -> int:
        whole = {key: whole_cards(found.get(key, Fraction(0)), capacity[key], len(own)) for key, own in cards.items()}
        return gpus.count({**found, **whole})

    gpu_total = count(total)
    gpu_used = None if used is None else gpus.count({**used, **{key: in_use.count(key, cards[key]) for key in cards}})
    broken = max(0, count(capacity) - count(allocatable))
    if gpu_used is not None and not devices.is_known:
        # The devices may not be read: requests may be for devices that the total lacks.
        gpu_used = min(gpu_used, gpu_total + broken)
    return NodeDetails(
        node,
        name,
        status_of(node),
        pool_name(node, keys),
        gpus.type_of(node),
        gpus.labels(node),
        gpu_total,
        gpu_used,
        broken,
        total,
        used,
        holders,
        devices.free_slices.get(name, {}),
    )


def _is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _owner(metadata: Object) -> str:
    owners = metadata.get("ownerReferences") or []
    return next((str(owner["name"]) for owner in owners if owner.get("controller")), str(metadata["name"]))


def _order(found: PodOnNode) -> tuple[str, str, str]:
    return found.namespace, found.name, found.pod

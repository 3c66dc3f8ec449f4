"""Nodes: their resources, what pods request of these, the pods, and the pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from gpuctl.capacity.pod_requests import Amounts, amounts, pod_requests
from gpuctl.capacity.quota_charges import format_amount
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import condition
from gpuctl.reading.node_devices import NO_DEVICES, Devices
from gpuctl.reading.node_gpus import PlatformGpus

NodeStatus = Literal["active", "maintaining", "faulty"]
STATUSES: tuple[NodeStatus, ...] = ("active", "maintaining", "faulty")
"""``active``; ``maintaining``: cordoned, so an administrator knows of it; ``faulty``: not ready."""
GpuStatus = Literal["used", "free", "faulty", "unknown"]

MOST_LISTED = 1024
"""GPUs of a node that are listed one by one: a node may say that it has any number, and no machine has as many."""


@dataclass(frozen=True)
class PodOnNode:
    """A pod that holds room on a node, or waits for some: ``kind`` is its job's, None when it is no job of gpuctl's."""

    pod: str
    name: str
    namespace: str
    kind: str | None
    gpu: int
    node: str | None
    pool: str | None


class GpuOnNode(NamedTuple):
    """A GPU of a node; ``status`` is used, free, faulty, or ``unknown`` where pods may not be read.

    Kubernetes knows how many are taken, not which: ``name`` has a number of ours, not the device's own.
    """

    name: str
    type: str | None
    status: GpuStatus
    utilization: float | None = None
    memory: str | None = None


class NodeGpus(NamedTuple):
    """The GPUs of a node: ``total`` of them, in order or not; those that are listed one by one may be fewer."""

    node: str
    total: int
    gpus: list[GpuOnNode]


class NodeRow(NamedTuple):
    """A node in a list. ``cpu`` and ``memory`` are what pods can have, ``kubernetes`` is its state for kubectl."""

    name: str
    status: NodeStatus
    pool: str
    gpu_type: str | None
    gpu_total: int
    gpu_used: int | None
    gpu_free: int | None
    cpu: str
    memory: str
    created_at: str | None
    address: str | None
    kubernetes: str


@dataclass(frozen=True)
class NodeDetails:
    """A node. ``total`` is what pods can have of it (cores, bytes, pieces), ``used`` what the pods on it request.

    ``used`` and ``holders`` are None when pods may not be read. ``broken_gpus`` are there but out of order.
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

    @property
    def gpu_free(self) -> int | None:
        """GPUs that no pod requests, whether or not the node takes pods at present."""
        return None if self.gpu_used is None else max(0, self.gpu_total - self.gpu_used)

    @property
    def created_at(self) -> str | None:
        """Return the time at which it joined (RFC 3339)."""
        created: str | None = self.object["metadata"].get("creationTimestamp")
        return created

    @property
    def address(self) -> str | None:
        """Its address inside the cluster."""
        addresses = (self.object.get("status") or {}).get("addresses") or []
        return next((item["address"] for item in addresses if item.get("type") == "InternalIP"), None)

    @property
    def kubernetes(self) -> str:
        """Its state as kubectl words it: ``Ready``, ``NotReady,SchedulingDisabled``."""
        ready = "Ready" if condition(self.object, "Ready") else "NotReady"
        return f"{ready},SchedulingDisabled" if _is_cordoned(self.object) else ready

    @property
    def is_cordoned(self) -> bool:
        """Return True if no new pods are placed on it."""
        return _is_cordoned(self.object)

    @property
    def has_gpus(self) -> bool:
        """Return True if it has GPUs, in order or not."""
        return bool(self.gpu_total or self.broken_gpus)

    @property
    def gpus(self) -> list[GpuOnNode]:
        """Its GPUs one by one, up to :data:`MOST_LISTED`."""
        used = self.gpu_used
        shown = min(self.gpu_total, MOST_LISTED)
        states: list[GpuStatus] = [
            "unknown" if used is None else "used" if index < used else "free" for index in range(shown)
        ]
        states += ["faulty"] * min(self.broken_gpus, MOST_LISTED - shown)
        return [GpuOnNode(f"gpu-{index}", self.gpu_type, state) for index, state in enumerate(states)]

    @property
    def gpus_one_by_one(self) -> NodeGpus:
        """Return its GPUs one by one, with their number."""
        return NodeGpus(self.name, self.gpu_total + self.broken_gpus, self.gpus)

    @property
    def row(self) -> NodeRow:
        """Return the node as lists have it."""
        return NodeRow(
            self.name,
            self.status,
            self.pool,
            self.gpu_type,
            self.gpu_total,
            self.gpu_used,
            self.gpu_free,
            format_amount("cpu", self.amount("cpu")[0]),
            format_amount("memory", self.amount("memory")[0]),
            self.created_at,
            self.address,
            self.kubernetes,
        )

    def amount(self, resource: str) -> tuple[Fraction, Fraction | None]:
        """Total and use of a resource."""
        used = None if self.used is None else self.used.get(resource, Fraction(0))
        return self.total.get(resource, Fraction(0)), used


def status_of(node: Object) -> NodeStatus:
    """Return the status of a node. A node that is cordoned and not ready is being worked on."""
    if _is_cordoned(node):
        return "maintaining"
    return "active" if condition(node, "Ready") else "faulty"


def pool_name(node: Object, keys: Records) -> str:
    """The pool of a node: ``default`` when no label says another."""
    return labels_of(node).get(keys.pool) or DEFAULT_POOL


def pod_on_node(pod: Object, requests: Amounts, keys: Records, gpus: PlatformGpus) -> PodOnNode:
    """A pod as the holder of room."""
    labels, metadata = labels_of(pod), pod["metadata"]
    kind = labels.get(keys.job_type)
    return PodOnNode(
        metadata["name"],
        (labels.get("app") if kind else None) or _owner(metadata),
        metadata["namespace"],
        kind,
        gpus.count(requests),
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
    """The nodes by name, with what the pods take of them, and with the devices that drivers offer there.

    Counted are pods that are bound and have not finished, with init containers and sidecars as the scheduler does. The
    holders are the jobs, and of other pods those with GPUs.

    :param pods: unfinished pods, or None when they may not be read.
    """
    used: dict[str, Amounts] = {}
    holders: dict[str, list[PodOnNode]] = {}
    for pod in pods or ():
        place = pod["spec"].get("nodeName")
        if not place or is_finished(pod):
            continue
        requests = _plus(pod_requests(pod["spec"]), devices.of_pod(pod, gpus.vendors))
        sums = used.setdefault(place, {})
        for resource, amount in requests.items():
            sums[resource] = sums.get(resource, Fraction(0)) + amount
        found = pod_on_node(pod, requests, keys, gpus)
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
        )
        for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"]))
    ]


def is_finished(pod: Object) -> bool:
    """Return True for a pod that has ended, and holds nothing."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _plus(first: Amounts, second: Amounts | None) -> Amounts:
    if not second:
        return first
    return {name: first.get(name, Fraction(0)) + second.get(name, Fraction(0)) for name in {**first, **second}}


def _node(
    node: Object,
    used: Amounts | None,
    holders: tuple[PodOnNode, ...] | None,
    keys: Records,
    gpus: PlatformGpus,
    devices: Devices,
) -> NodeDetails:
    status, name = node.get("status") or {}, node["metadata"]["name"]
    allocatable = amounts(status.get("allocatable"))
    total = _plus(allocatable, devices.offered.get(name))
    gpu_total = gpus.count(total)
    gpu_used = None if used is None else gpus.count(used)
    broken = max(0, gpus.count(amounts(status.get("capacity"))) - gpus.count(allocatable))
    if gpu_used is not None and not devices.is_known:
        # Some of what pods request may be devices, which are not in the total either.
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
    )


def _is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _owner(metadata: Object) -> str:
    owners = metadata.get("ownerReferences") or []
    return next((str(owner["name"]) for owner in owners if owner.get("controller")), str(metadata["name"]))


def _order(found: PodOnNode) -> tuple[str, str, str]:
    return found.namespace, found.name, found.pod

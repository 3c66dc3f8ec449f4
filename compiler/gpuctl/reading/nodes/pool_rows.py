"""Pools, from their definitions in the cluster and from node labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpuctl.capacity.snapshot.pod_requests import pod_requests
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.language.sentences import Template, say
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object, annotations_of
from gpuctl.objects.companion_names import pool_definition, pool_limits, pool_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.workload_state import has_ended
from gpuctl.reading.nodes.claim_templates import requested_gpus
from gpuctl.reading.nodes.inventory import Inventory
from gpuctl.reading.nodes.node_gpus import UNKNOWN, PlatformGpus
from gpuctl.reading.nodes.node_rows import STATUSES, NodeDetails, PodOnNode, pod_on_node, read_nodes

PoolStatus = Literal["active", "maintaining", "faulty", "empty"]
"""``empty``: a pool without nodes, in which no job can run."""
DEFAULT_DESCRIPTION = Template("nodes that are in no pool")


class PoolBounds(NamedTuple):
    """The limits of a pool: unfinished jobs in it, and GPUs of one job; None for no limit."""

    max_jobs: int | None
    max_gpu_per_job: int | None


@dataclass(frozen=True)
class PoolState:
    """A pool.

    :param missing: nodes that the definition names but that are not in the pool.
    :param waiting: unscheduled pods of its jobs; None if pods may not be read.
    :param is_defined: the pool has a definition, not only labelled nodes.
    """

    name: str
    stated_description: str | None
    members: tuple[NodeDetails, ...]
    missing: tuple[str, ...]
    quota: PoolBounds
    waiting: tuple[PodOnNode, ...] | None
    is_defined: bool

    @property
    def description(self) -> str | None:
        """Its description; that of the default pool is in the language of the caller."""
        return (
            say(DEFAULT_DESCRIPTION) if self.name == DEFAULT_POOL and not self.is_defined else self.stated_description
        )

    @property
    def status(self) -> PoolStatus:
        """Return ``active`` if a node is active, otherwise the best status of its nodes; ``empty`` without nodes."""
        found = {node.status for node in self.members}
        for status in STATUSES:
            if status in found:
                return status
        return "active" if self.name == DEFAULT_POOL else "empty"

    @property
    def gpu_total(self) -> int:
        """Return the number of GPUs on its nodes."""
        return sum(node.gpu_total for node in self.members)

    @property
    def gpu_used(self) -> int | None:
        """Return the number of GPUs that pods on its nodes request; None if pods may not be read."""
        return None if self.waiting is None else sum(node.gpu_used or 0 for node in self.members)

    @property
    def gpu_free(self) -> int | None:
        """Return the number of GPUs that no pod requests; None if pods may not be read."""
        return None if self.waiting is None else sum(node.gpu_free or 0 for node in self.members)

    @property
    def gpu_unavailable(self) -> int | None:
        """Return the number of free GPUs on nodes that are cordoned or not ready; None if pods may not be read."""
        if self.waiting is None:
            return None
        return sum(node.gpu_free or 0 for node in self.members if node.status != "active")

    @property
    def gpu_types(self) -> dict[str, int]:
        """Return GPU type -> number of GPUs."""
        found: dict[str, int] = {}
        for node in self.members:
            if node.gpu_total or node.gpu_type:
                kind = node.gpu_type or UNKNOWN
                found[kind] = found.get(kind, 0) + node.gpu_total
        return dict(sorted(found.items()))

    @property
    def jobs(self) -> list[PodOnNode] | None:
        """Return the pods on its nodes; None if pods may not be read."""
        return None if self.waiting is None else [found for node in self.members for found in node.holders or ()]

    @property
    def nodes(self) -> list[str]:
        """Return the names of its nodes."""
        return [node.name for node in self.members]


def read_pools(found: Inventory, settings: Settings, keys: Records) -> list[PoolState]:
    """Return the pools by name, ``default`` last."""
    gpus = PlatformGpus(settings)
    members: dict[str, list[NodeDetails]] = {DEFAULT_POOL: []}
    for node in read_nodes(found.nodes, found.pods, keys, gpus, found.devices):
        members.setdefault(node.pool, []).append(node)
    definitions = {pool_of(item, keys) or "": item for item in found.definitions or ()}
    waiting = waiting_pods(found, keys, gpus)
    names = sorted({*members, *definitions} - {DEFAULT_POOL, ""})
    return [
        _pool(name, members.get(name, []), definitions.get(name), waiting, settings) for name in [*names, DEFAULT_POOL]
    ]


def waiting_pods(found: Inventory, keys: Records, gpus: PlatformGpus) -> list[PodOnNode] | None:
    """Return the unscheduled pods of jobs; None if pods may not be read."""
    if found.pods is None:
        return None

    def gpus_of(pod: Object) -> int:
        return gpus.count(pod_requests(pod["spec"])) + requested_gpus(
            pod["spec"], pod["metadata"]["namespace"], found.requested
        )

    queue = (pod for pod in found.pods if not pod["spec"].get("nodeName") and not has_ended(pod))
    waiting = (pod_on_node(pod, gpus_of(pod), keys) for pod in queue)
    return sorted((item for item in waiting if item.kind), key=lambda item: (item.namespace, item.name, item.pod))


def _pool(
    name: str,
    nodes: list[NodeDetails],
    definition_map: Object | None,
    waiting: list[PodOnNode] | None,
    settings: Settings,
) -> PoolState:
    definition = pool_definition(definition_map or {})
    limits, named = pool_limits(definition), definition.get("nodes")
    here = {node.name for node in nodes}
    description = None
    if definition_map is not None:
        description = annotations_of(definition_map).get(settings.label("description"))
    return PoolState(
        name,
        description,
        tuple(nodes),
        tuple(sorted(str(node) for node in named if node not in here)) if isinstance(named, dict) else (),
        PoolBounds(limits.get("maxJobs"), limits.get("maxGpuPerJob")),
        None if waiting is None else tuple(item for item in waiting if (item.pool or DEFAULT_POOL) == name),
        definition_map is not None,
    )

"""Pools and nodes as the REST API returns them: those of the command line, with job ids and measured GPU
utilization."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.api.node_answers import GpusOfNode, NodeDetail, NodeGpu, NodeReport
from gpuctl.api.pool_answers import PoolDetail, PoolReport
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import NodeDetails
from gpuctl.reading.nodes.pool_rows import PoolState
from gpuctl_server.access.caller import Caller
from gpuctl_server.lookups.gpu_measurements import measure_gpus
from gpuctl_server.lookups.node_lookups import jobs_of, visible_pods
from gpuctl_server.service_context import Service


def pool_detail(service: Service, caller: Caller, pool: PoolState, *, with_jobs: bool) -> PoolDetail:
    """Return a pool, with or without the jobs and pods that the caller may see."""
    pods, waiting = (visible_pods(caller, found if with_jobs else None) for found in (pool.jobs, pool.waiting))
    return PoolDetail(
        **PoolReport.model_validate(pool).model_dump(exclude={"jobs", "waiting"}),
        jobs=jobs_of(service, pods),
        waiting=jobs_of(service, waiting),
        pods=pods,
        waiting_pods=waiting,
    )


def node_detail(service: Service, caller: Caller, node: NodeDetails) -> NodeDetail:
    """Return a node with the jobs and pods that the caller may see."""
    pods = visible_pods(caller, node.holders)
    fields = NodeReport.of(node, PlatformGpus(service.platform)).model_dump(exclude={"running_jobs"})
    detail = NodeDetail(**fields, running_jobs=jobs_of(service, pods), pods=pods)
    _measure(service, {node.name: detail.gpu_detail})
    return detail


def gpus_of_nodes(service: Service, nodes: Sequence[NodeDetails]) -> list[GpusOfNode]:
    """Return the GPUs of nodes one by one."""
    found = list(map(GpusOfNode.model_validate, nodes))
    _measure(service, {item.name: item.gpus for item in found})
    return found


def _measure(service: Service, nodes: dict[str, list[NodeGpu]]) -> None:
    use = measure_gpus(service, nodes)
    for name, gpus in nodes.items():
        for gpu in gpus:
            found = use.get(name, {}).get(gpu.name)
            if found is not None:
                gpu.utilization, gpu.memory = found.utilization, found.memory

"""Pools and nodes as the REST API returns them: those of the command line, with job ids and measured GPU
utilization."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.api.node_answers import GpusOfNode, HoldingPod, NodeDetail, NodeGpu, NodeReport
from gpuctl.api.pool_answers import PoolDetail, fields_without_jobs
from gpuctl.reading.node_gpus import PlatformGpus
from gpuctl.reading.node_rows import NodeDetails
from gpuctl.reading.pool_rows import PoolState
from gpuctl_server.access.caller import Caller
from gpuctl_server.gpu_measurements import measure_gpus
from gpuctl_server.node_lookups import jobs_of, visible_pods
from gpuctl_server.service_context import Service


def pool_detail(service: Service, caller: Caller, pool: PoolState, *, with_jobs: bool) -> PoolDetail:
    """Return a pool, with or without the jobs and pods that the caller may see."""
    fields = fields_without_jobs(pool.row)
    if not with_jobs:
        return PoolDetail(**fields, jobs=None, waiting_jobs=None, pods=None, waiting_pods=None)
    pods, waiting = visible_pods(caller, pool.jobs), visible_pods(caller, pool.waiting)
    return PoolDetail(
        **fields,
        jobs=jobs_of(service, pods),
        waiting_jobs=jobs_of(service, waiting),
        pods=HoldingPod.all_of(pods),
        waiting_pods=HoldingPod.all_of(waiting),
    )


def node_detail(service: Service, caller: Caller, node: NodeDetails) -> NodeDetail:
    """Return a node with the jobs and pods that the caller may see."""
    pods = visible_pods(caller, node.holders)
    fields = NodeReport.of(node, PlatformGpus(service.platform)).model_dump(exclude={"running_jobs"})
    detail = NodeDetail(**fields, running_jobs=jobs_of(service, pods), pods=HoldingPod.all_of(pods))
    _measure(service, {node.name: detail.gpu_detail})
    return detail


def gpus_of_nodes(service: Service, nodes: Sequence[NodeDetails]) -> list[GpusOfNode]:
    """Return the GPUs of nodes one by one."""
    found = [GpusOfNode.of(node.gpus_one_by_one) for node in nodes]
    _measure(service, {item.node_name: item.gpus for item in found})
    return found


def _measure(service: Service, nodes: dict[str, list[NodeGpu]]) -> None:
    use = measure_gpus(service, nodes)
    for name, gpus in nodes.items():
        for gpu in gpus:
            found = use.get(name, {}).get(gpu.gpu_id)
            if found is not None:
                gpu.utilization, gpu.memory_usage = found.utilization, found.memory

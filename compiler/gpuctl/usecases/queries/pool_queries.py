"""Queries about pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuctl.reading.nodes import inventory
from gpuctl.reading.nodes.claim_templates import read_requested_gpus
from gpuctl.reading.nodes.node_rows import NodeDetails
from gpuctl.reading.nodes.pool_rows import PoolState, read_pools
from gpuctl.usecases.queries.read_context import ReadContext, check_names
from gpuctl.usecases.service.service_names import names_of_service
from gpuctl.usecases.service.service_nodes import nodes_of_service, pools_of_service

if TYPE_CHECKING:
    from gpuctl.api.node_answers import NodeItem
    from gpuctl.api.pool_answers import PoolReport


class PoolView(NamedTuple):
    """A pool and its nodes. In a list from a service, only pools with GPUs on unschedulable nodes have ``nodes``."""

    pool: PoolState | PoolReport
    nodes: Sequence[NodeDetails | NodeItem]


def list_pools(reader: ReadContext, names: Sequence[str] = ()) -> list[PoolView]:
    """Return the pools by name, ``default`` last, or only those with the given names.

    :raises NotThere: one of the names does not exist.
    """
    return _views(reader, names, with_nodes=False)


def pool_names(reader: ReadContext) -> list[str]:
    """Return the names of the pools, ``default`` last."""
    if reader.service is not None:
        return names_of_service(reader.service, "pool", None)
    return [pool.name for pool in pool_states(reader)]


def describe_pool(reader: ReadContext, name: str) -> PoolView:
    """Return one pool with its nodes.

    :raises NotThere: it does not exist.
    """
    (view,) = _views(reader, [name], with_nodes=True)
    return view


def _views(reader: ReadContext, names: Sequence[str], *, with_nodes: bool) -> list[PoolView]:
    service = reader.service
    if service is not None:
        there = names_of_service(service, "pool", None)
        check_names("pool", names, there)
        rows = pools_of_service(service, [name for name in there if not names or name in names])
        return [
            PoolView(pool, nodes_of_service(service, pool=pool.name) if with_nodes or pool.gpu_unavailable else [])
            for pool in rows
        ]
    pools = pool_states(reader)
    check_names("pool", names, [pool.name for pool in pools])
    return [PoolView(pool, pool.members) for pool in pools if not names or pool.name in names]


def pool_states(reader: ReadContext) -> list[PoolState]:
    """Read the pools of a cluster by name, ``default`` last."""
    found = inventory.read_inventory(reader.scope, reader.keys, definitions=True, gpus=reader.settings.gpu_resources)
    waiting = (
        (pod["metadata"]["namespace"], pod["spec"]) for pod in found.pods or () if not pod["spec"].get("nodeName")
    )
    requested = read_requested_gpus(reader.scope, waiting, reader.settings.gpu_classes)
    return read_pools(found._replace(requested=requested), reader.settings, reader.keys)

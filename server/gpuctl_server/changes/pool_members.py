"""Adding nodes to pools and removing them, within the caller's rights."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.acts.node_labels import NodeChangeReport
from gpuctl.acts.pool_membership import add_to_pool, remove_from_pool
from gpuctl.kube.not_found import no_such
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.node_labelling import await_nodes
from gpuctl_server.lookups.job_lookups import require_access
from gpuctl_server.lookups.node_lookups import pool_filter


def add_nodes(change: ChangeRequest, pool: str, nodes: Sequence[str], *, overwrite: bool) -> NodeChangeReport:
    """Add nodes to a pool, and wait until the mirror has the change.

    :param overwrite: move nodes that are in another pool.
    :raises Problem: 403, 429, 503.
    :raises NotThere: the pool does not exist, or a node does not exist or is not visible to the caller.
    """
    _demand(change, pool, nodes)
    with change.session() as session:
        change.touched.begin()
        report = add_to_pool(session, nodes, pool, change.service.platform, overwrite=overwrite)
    return await_nodes(change, report)


def remove_nodes(change: ChangeRequest, pool: str, nodes: Sequence[str]) -> NodeChangeReport:
    """Remove nodes from a pool, and wait until the mirror has the change.

    :raises Problem: 403, 429, 503.
    :raises NotThere: a node does not exist or is not visible to the caller.
    """
    _demand(change, pool, nodes)
    with change.session() as session:
        change.touched.begin()
        report = remove_from_pool(session, nodes, pool, change.service.platform)
    return await_nodes(change, report)


def _demand(change: ChangeRequest, pool: str, names: Sequence[str]) -> None:
    """Check that the caller may change a pool and the nodes. Nodes of other pools are treated as if they did not
    exist."""
    require_access(change.caller, AccessRequest("update", "pools", pool=pool))
    change.touched.extend([f"pool/{pool}", *(f"node/{name}" for name in names)])
    takes, nodes = pool_filter(change.caller, "update", "pools"), change.service.fleet.now().nodes
    visible = {name for name, node in nodes.items() if takes(node.pool)}
    # For a caller who sees all nodes, the report lists the missing ones.
    for name in names if len(visible) < len(nodes) else ():
        if name not in visible:
            raise no_such("node", name, visible)

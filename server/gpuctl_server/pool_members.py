"""Adding nodes to pools and removing them, within the caller's rights."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.acts.node_labels import NodeChangeReport
from gpuctl.acts.pool_membership import add_to_pool, remove_from_pool
from gpuctl.kube.not_found import no_such
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.audit import AuditTrail
from gpuctl_server.job_changes import change_session
from gpuctl_server.job_lookups import require_access
from gpuctl_server.node_lookups import pool_filter
from gpuctl_server.service_context import Service


def add_nodes(
    service: Service,
    caller: Caller,
    pool: str,
    nodes: Sequence[str],
    touched: AuditTrail,
    *,
    overwrite: bool,
    dry_run: bool,
) -> NodeChangeReport:
    """Add nodes to a pool, and wait until the mirror has the change.

    :param overwrite: move nodes that are in another pool.
    :param dry_run: only let the API server check the change.
    :raises Problem: 403, 429, 503.
    :raises NotThere: the pool does not exist, or a node does not exist or is not visible to the caller.
    """
    _demand(service, caller, pool, nodes, touched)
    with change_session(service, caller, dry_run=dry_run) as session:
        touched.begin()
        report = add_to_pool(session, nodes, pool, service.platform, overwrite=overwrite)
    return _seen(service, report, dry_run=dry_run)


def remove_nodes(
    service: Service, caller: Caller, pool: str, nodes: Sequence[str], touched: AuditTrail, *, dry_run: bool
) -> NodeChangeReport:
    """Remove nodes from a pool, and wait until the mirror has the change.

    :raises Problem: 403, 429, 503.
    :raises NotThere: a node does not exist or is not visible to the caller.
    """
    _demand(service, caller, pool, nodes, touched)
    with change_session(service, caller, dry_run=dry_run) as session:
        touched.begin()
        report = remove_from_pool(session, nodes, pool, service.platform)
    return _seen(service, report, dry_run=dry_run)


def _demand(service: Service, caller: Caller, pool: str, names: Sequence[str], touched: AuditTrail) -> None:
    """Check that the caller may change a pool and the nodes. Nodes of other pools are treated as if they did not
    exist."""
    require_access(caller, AccessRequest("update", "pools", pool=pool))
    touched.extend([f"pool/{pool}", *(f"node/{name}" for name in names)])
    takes, nodes = pool_filter(caller, "update", "pools"), service.fleet.now().nodes
    visible = {name for name, node in nodes.items() if takes(node.pool)}
    # For a caller who sees all nodes, the report lists the missing ones.
    for name in names if len(visible) < len(nodes) else ():
        if name not in visible:
            raise no_such("node", name, visible)


def _seen(service: Service, report: NodeChangeReport, *, dry_run: bool) -> NodeChangeReport:
    if not dry_run:
        service.wait_until_seen([*(done.node for done in report.done), *report.written])
    return report

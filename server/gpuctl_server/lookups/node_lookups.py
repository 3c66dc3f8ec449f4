"""The pools, nodes and holders of GPUs that a caller may see. All others are treated as if they did not exist."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuctl.api.node_answers import JobOnNodes
from gpuctl.kube.not_found import no_such
from gpuctl.objects.api_resources import RESOURCES, Key, labels_of
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.nodes.node_rows import NodeDetails, PodOnNode
from gpuctl.reading.nodes.pool_rows import PoolState
from gpuctl.usecases.queries.node_queries import NodeQuery, label_query, select_nodes
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.http.http_problems import Problem, not_found
from gpuctl_server.lookups.job_lookups import require_access, sees_job
from gpuctl_server.mirror.job_board import Board, ListedJob
from gpuctl_server.service_context import Service

_LISTED_WITHIN = 1.0
"""Maximum wait for the list of jobs, seconds."""


def pool_filter(caller: Caller, action: Action, resource: str) -> Callable[[str], bool]:
    """Return a predicate of pools: True if the caller may do this there. The right for a pool is checked once."""
    known: dict[str, bool] = {}

    def takes(pool: str) -> bool:
        if pool not in known:
            known[pool] = caller.may(AccessRequest(action, resource, None, pool)).allowed
        return known[pool]

    return takes


def visible_pools(service: Service, caller: Caller) -> list[PoolState]:
    """Return the pools that the caller may see, ``default`` last."""
    takes = pool_filter(caller, "get", "pools")
    return [pool for pool in service.fleet.now().pools if takes(pool.name)]


def find_pool(service: Service, caller: Caller, name: str) -> PoolState:
    """Return a pool.

    :raises Problem: 403 for a pool that the caller may not see, even if it does not exist.
    :raises NotThere: it does not exist.
    """
    require_access(caller, AccessRequest("get", "pools", None, name))
    pools = visible_pools(service, caller)
    found = next((pool for pool in pools if pool.name == name), None)
    if found is None:
        raise no_such("pool", name, (pool.name for pool in pools))
    return found


def visible_nodes(service: Service, caller: Caller, resource: str = "nodes") -> list[NodeDetails]:
    """Return the nodes of the pools that the caller may see, by name."""
    takes = pool_filter(caller, "get", resource)
    return [node for node in service.fleet.now().nodes.values() if takes(node.pool)]


def chosen_nodes(service: Service, caller: Caller, query: NodeQuery) -> list[NodeDetails]:
    """Return the nodes that match a query and that the caller may see. A query for a label matches the nodes that have
    it.
    """
    nodes, gpus = visible_nodes(service, caller), PlatformGpus(service.platform)
    if query.selector:
        with service.read_context(None) as everything:
            selected = everything.scope.session.list_objects(RESOURCES["Node"], labels=query.selector)[0]
        names = {node["metadata"]["name"] for node in selected}
        nodes = [node for node in nodes if node.name in names]
    query = label_query(query, (node.object for node in nodes), gpus)
    found = select_nodes(nodes, query, gpus)
    return [node for node in found if query.label is None or query.label in labels_of(node.object)]


def find_node(service: Service, caller: Caller, name: str, resource: str = "nodes") -> NodeDetails:
    """Return a node.

    :raises Problem: 404.
    """
    found = service.fleet.now().nodes.get(name)
    if found is None or not pool_filter(caller, "get", resource)(found.pool):
        raise node_not_found(name, (node.name for node in visible_nodes(service, caller, resource)))
    return found


def node_not_found(name: str, there: Iterable[str]) -> Problem:
    """Return the 404 for a node, with similar names as a hint."""
    missing = no_such("node", name, there)
    problem = not_found(missing.message, "NodeNotFound")
    problem.hint = missing.hint
    return problem


def visible_pods(caller: Caller, pods: Iterable[PodOnNode] | None) -> list[PodOnNode] | None:
    """Return the pods that the caller may see; None if the service may not read pods."""
    return None if pods is None else [pod for pod in pods if sees_holder(caller, pod)]


def jobs_of(service: Service, pods: Iterable[PodOnNode] | None) -> list[JobOnNodes] | None:
    """Return the jobs of pods that the caller may see; None if the service may not read pods.

    Wait briefly if the list of jobs does not have the job of a pod yet.
    """
    if pods is None:
        return None
    seen = list(pods)
    board, version = service.board.now(), service.mirror.version
    if any(pod.kind is not None and _job_of(board, pod) is None for pod in seen):
        service.board.wait_for(lambda board: board.version >= version, _LISTED_WITHIN)
        board = service.board.now()
    found: dict[tuple[str, str, str | None], JobOnNodes] = {}
    for pod in seen:
        job = _job_of(board, pod)
        if job is None and pod.kind is not None:
            continue
        job_id = job.id if job is not None else None
        item = JobOnNodes(job_id=job_id, name=pod.name, namespace=pod.namespace, kind=pod.kind, gpu=0)
        found.setdefault((pod.namespace, pod.name, job_id), item).gpu += pod.gpu
    return list(found.values())


def gpu_type_of(service: Service, item: ListedJob) -> str | None:
    """Return the GPU type of a job: that of its document, else those of the nodes of its pods."""
    if item.row.gpu_type is not None or not item.row.gpu or item.row.node is None:
        return item.row.gpu_type
    gpus = PlatformGpus(service.platform)
    nodes = (service.mirror.find(Key("Node", "", name)) for name in item.row.node.split(","))
    types = {gpus.type_of(node) for node in nodes if node is not None}
    return ",".join(sorted(filter(None, types))) or None


def sees_holder(caller: Caller, pod: PodOnNode) -> bool:
    """Return True if the caller may see a pod on a visible node or pool. Pods that do not belong to a job have no
    pool."""
    if pod.kind is None:
        return caller.sees(pod.namespace)
    return sees_job(caller, pod.namespace, [pod.pool] if pod.pool else [])


def _job_of(board: Board, pod: PodOnNode) -> ListedJob | None:
    there = board.pods.get(pod.pod, ())
    return next((job for job in there if job.row.identity.namespace == pod.namespace), None)

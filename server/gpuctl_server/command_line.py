"""What the command line asks as a client: the use cases that it would carry out itself with a kubeconfig.

A question has the name of a use case, and is answered with its value (:mod:`gpuctl.usecases.wire`), without what
whoever asks may not see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from inspect import signature
from typing import Any, NamedTuple, TypeVar, get_type_hints

from gpuctl.kube.absent import no_such
from gpuctl.kube.scope import Scope
from gpuctl.language.masking import masked
from gpuctl.language.names import DEFAULT_POOL
from gpuctl.objects.api_resources import Object
from gpuctl.reading.describe_job import JobDetail
from gpuctl.reading.find import find_job
from gpuctl.reading.job_rows import Job
from gpuctl.reading.label_rows import GpuType, Label
from gpuctl.reading.node_gpus import Gpus
from gpuctl.reading.node_rows import NodeState, PodOnNode
from gpuctl.reading.pool_rows import PoolState
from gpuctl.reading.why.answer import Answer
from gpuctl.release import __version__
from gpuctl.usecases import job_queries, node_queries, pool_queries
from gpuctl.usecases.job_queries import GpuUse, JobQuery, ListedRows
from gpuctl.usecases.looking import Reader, check_names, reader_of
from gpuctl.usecases.node_queries import NodeListing, NodeQuery
from gpuctl.usecases.wire import NotOfThisForm, decode, encode, refuse_unknown_fields
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import Wish
from gpuctl_server.audit import AuditTrail
from gpuctl_server.lookups import demand
from gpuctl_server.node_lookups import pool_filter, sees_holder
from gpuctl_server.others import told_together
from gpuctl_server.problems import Problem, UnknownPath
from gpuctl_server.service import Service

Value = TypeVar("Value")


class Asked(NamedTuple):
    """Who asks what service about which namespace (None: all that they may see). ``scope`` takes up notes, ``touched``
    the names of what a change is about."""

    service: Service
    caller: Caller
    scope: Scope
    reader: Reader
    touched: AuditTrail

    @property
    def namespace(self) -> str | None:
        """As it was said."""
        return self.scope.namespace


class CommandQuestion(NamedTuple):
    """A question: the name of a use case, where, and with which arguments."""

    name: str
    namespace: str | None
    arguments: dict[str, Any]


def answer_question(
    service: Service,
    caller: Caller,
    asking: CommandQuestion,
    questions: Mapping[str, Callable[..., Any]],
    touched: AuditTrail | None = None,
) -> dict[str, Any]:
    """The answer to a question of the command line.

    :param questions: name of a use case -> what answers it.
    :raises Problem: 400, 403, 404, and whatever the use case raises.
    """
    question, namespace, arguments = asking
    function = questions.get(question)
    if function is None:
        raise UnknownPath
    with asked_by(service, caller, namespace, touched) as asked:
        value = called(function, asked, arguments)
        told = told_together(encode(value))
        return {"version": __version__, "answer": told, "notes": asked.scope.notes}


@contextmanager
def asked_by(
    service: Service, caller: Caller, namespace: str | None, touched: AuditTrail | None = None
) -> Iterator[Asked]:
    """A look at what somebody may see, for a question about a namespace."""
    with service.looking(caller, namespace) as reader:
        # Without a trail it is a question.
        yield Asked(service, caller, reader.scope, reader, AuditTrail(preview=True) if touched is None else touched)


def called(function: Callable[..., Value], asked: Asked, arguments: dict[str, Any]) -> Value:
    """What a function answers to arguments as they were sent.

    :raises Problem: 400, they are not its own.
    """
    return function(asked, **_arguments(function, arguments))


def _arguments(function: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    wanted = {name: kind for name, kind in get_type_hints(function).items() if name not in ("asked", "return")}
    try:
        refuse_unknown_fields(given, wanted)
        defaults = {name for name, item in signature(function).parameters.items() if item.default is not item.empty}
        missing = set(wanted) - set(given) - defaults
        if missing:
            raise NotOfThisForm(f"`{min(missing)}` is missing")
        return {name: decode(kind, given[name], asks=True) for name, kind in wanted.items() if name in given}
    except NotOfThisForm as error:
        raise Problem(
            400,
            f"the arguments are not those of gpuctl {__version__}: {error}",
            error="InvalidRequest",
            hint="the command line has to be of the same version as the service",
        ) from None


def _list_jobs(asked: Asked, query: JobQuery) -> ListedRows:
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    if not query.reasons:
        listing = job_queries.list_jobs(asked.reader, query)
        rows = list(listing.rows)
        return ListedRows(rows, listing.statuses, listing.stuck)
    # For what a job waits is told by the cluster itself, where everybody's pods count.
    with asked.service.weighing(asked.caller, asked.namespace) as reader:
        listing = job_queries.list_jobs(asked.reader, query, weighing=reader)
        rows = list(listing.rows)
        for note in reader.scope.notes:
            asked.scope.note(note)
    return ListedRows(rows, listing.statuses, listing.stuck)


def _gpu_use(asked: Asked) -> GpuUse:
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    listing = job_queries.list_jobs(asked.reader, JobQuery())
    list(listing.rows)
    return job_queries.gpu_use(asked.reader, listing.jobs)


def _describe_job(asked: Asked, name: str) -> JobDetail:
    return _of_job(asked, name, job_queries.describe_job, _told)


def _explain_job(asked: Asked, name: str) -> Answer:
    return _of_job(asked, name, job_queries.explain_job, _told_why)


def _of_job(asked: Asked, name: str, use_case: Callable[[Reader, str], Value], told: Callable[[Value], Value]) -> Value:
    """What a use case says of a job that may be seen: looked at in the cluster itself, where everybody's pods count."""
    demand(asked.caller, Wish("get", "jobs", asked.namespace))
    job = found_job(asked, name)
    identity = job.identity
    with asked.service.weighing(asked.caller, identity.namespace) as reader:
        value = use_case(reader, f"{identity.kind}/{identity.object_name}" if job.workload is not None else name)
        for note in reader.scope.notes:
            asked.scope.note(note)
        return told(value)


def found_job(asked: Asked, name: str) -> Job:
    """The job that a name means, among those that may be seen.

    :raises NoSuchJob: there is none, or there are several.
    """
    job, _ = find_job(asked.scope, name, asked.reader.keys)
    return job


def _told(detail: JobDetail) -> JobDetail:
    """A detail without credentials, and of its objects what is shown."""
    return replace(
        detail,
        job=slim(detail.job),
        answer=_told_why(detail.answer),
        document=None if detail.document is None else masked(detail.document),
    )


def _told_why(answer: Answer) -> Answer:
    return replace(answer, job=slim(answer.job))


def slim(job: Job) -> Job:
    """A job without its objects but for what is shown of them."""
    if job.workload is None:
        return Job(job.identity, None)
    # By its uid it is known who held GPUs.
    metadata = {name: job.workload["metadata"][name] for name in ("name", "uid")}
    status = {"conditions": (job.workload.get("status") or {}).get("conditions") or []}
    return Job(job.identity, {"kind": job.workload["kind"], "metadata": metadata, "status": status})


def _list_nodes(asked: Asked, query: NodeQuery) -> NodeListing:
    demand(asked.caller, Wish("get", "nodes", None, query.pool))
    with asked.service.looking(None) as everything:
        found = node_queries.list_nodes(everything, replace(query, names=()))
    takes = pool_filter(asked.caller, "get", "nodes")
    others = [_shown(asked, node) for node in found.others if takes(node.pool)]
    check_names("node", query.names, [node.name for node in others])
    named = [node for node in found.nodes if takes(node.pool) and (not query.names or node.name in query.names)]
    return NodeListing([_shown(asked, node) for node in named], others, replace(found.query, names=query.names))


def _describe_node(asked: Asked, name: str) -> NodeState:
    nodes = _visible_nodes(asked, "nodes", lambda everything: node_queries.list_nodes(everything, NodeQuery()).nodes)
    there = {node.name: node for node in nodes}
    if name not in there:
        raise no_such("node", name, there)
    return _shown(asked, there[name])


def _list_labels(asked: Asked, names: list[str], key: str | None) -> list[Label]:
    demand(asked.caller, Wish("get", "labels"))
    takes = pool_filter(asked.caller, "get", "labels")
    pool = asked.service.keys.pool

    def shows(have: Mapping[str, str]) -> bool:
        return takes(have.get(pool) or DEFAULT_POOL)

    # Who wrote what and when is not in the mirror.
    with asked.service.asking(asked.caller) as session:
        return node_queries.list_labels(reader_of(session, asked.service.platform), names, key, shows)


def _list_gpu_labels(asked: Asked) -> list[NodeState]:
    return [_shown(asked, node) for node in _visible_nodes(asked, "labels", node_queries.list_gpu_labels)]


def _list_gpu_types(asked: Asked, names: list[str]) -> list[GpuType]:
    nodes = _visible_nodes(asked, "nodes", lambda everything: node_queries.list_nodes(everything, NodeQuery()).nodes)
    return node_queries.gpu_types_of(nodes, names, Gpus(asked.service.platform))


def _visible_nodes(asked: Asked, resource: str, read: Callable[[Reader], list[NodeState]]) -> list[NodeState]:
    demand(asked.caller, Wish("get", resource))
    takes = pool_filter(asked.caller, "get", resource)
    with asked.service.looking(None) as everything:
        return [node for node in read(everything) if takes(node.pool)]


def _list_pools(asked: Asked, names: list[str]) -> list[PoolState]:
    demand(asked.caller, Wish("get", "pools"))
    takes = pool_filter(asked.caller, "get", "pools")
    with asked.service.looking(None) as everything:
        pools = [pool for pool in pool_queries.list_pools(everything) if takes(pool.name)]
    check_names("pool", names, [pool.name for pool in pools])
    return [
        replace(
            pool,
            nodes=tuple(_shown(asked, node) for node in pool.nodes),
            waiting=_seen(asked, pool.waiting),
        )
        for pool in pools
        if not names or pool.name in names
    ]


def _shown(asked: Asked, node: NodeState) -> NodeState:
    """A node as everybody may see it, and of the pods on it those that this one may."""
    obj = node.object
    metadata = {key: obj["metadata"].get(key) for key in ("name", "creationTimestamp", "labels")}
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    shown: Object = {
        "metadata": metadata,
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if key in spec},
        "status": {key: status[key] for key in ("conditions", "addresses", "nodeInfo") if key in status},
    }
    return replace(node, object=shown, holders=_seen(asked, node.holders))


def _seen(asked: Asked, pods: Iterable[PodOnNode] | None) -> tuple[PodOnNode, ...] | None:
    return None if pods is None else tuple(pod for pod in pods if sees_holder(asked.caller, pod))


QUESTIONS: dict[str, Callable[..., Any]] = {
    "list-jobs": _list_jobs,
    "gpu-use": _gpu_use,
    "describe-job": _describe_job,
    "explain-job": _explain_job,
    "list-nodes": _list_nodes,
    "describe-node": _describe_node,
    "list-pools": _list_pools,
    "list-labels": _list_labels,
    "list-gpu-labels": _list_gpu_labels,
    "list-gpu-types": _list_gpu_types,
}
"""Name of a use case -> what answers it."""

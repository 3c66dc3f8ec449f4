"""Checks across documents, possible because one compile reads all of them.

Errors are contradictions that no cluster can resolve; warnings are about waiting, or depend on the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity
from gpuctl.frontend.document import Document, service_of
from gpuctl.frontend.notify_checks import check_channel_namespaces
from gpuctl.frontend.pool_links import declared_pools, pool_capacity, pool_references
from gpuctl.frontend.prerequisite_links import prerequisite_links
from gpuctl.frontend.quota_links import quota_capacity, users_in_two_quotas
from gpuctl.frontend.quota_queue_links import queue_capacity, types_beyond_pool
from gpuctl.language.kinds import Model
from gpuctl.language.sentences import Sentence, say
from gpuctl.language.settings import Settings
from gpuctl.language.storage_block import NewClaim
from gpuctl.language.workload import Workload

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def link(
    documents: Sequence[Document], settings: Settings, namespace: str, *, complete: bool = True
) -> Iterator[Diagnostic]:
    """Resolve references between documents and yield the problems between them.

    Sets each workload's ``namespace`` and ``gpu_types``. The result does not depend on the order of the documents.

    :param complete: False if documents with errors are missing; a pool that is not declared is then not reported.
    """
    documents = sorted(documents, key=_position)
    for document in documents:
        if isinstance(document.model, Workload):
            document.namespace = document.model.job.namespace or namespace
            document.gpu_types = document.model.resources.gpu_types
    yield from _names(documents)
    yield from _nodes_in_two_pools(documents)
    yield from _node_ports(documents)
    yield from _routes(documents)
    yield from _new_claims(documents)
    yield from prerequisite_links(documents, complete=complete)
    yield from check_channel_namespaces(documents, settings)
    pools = declared_pools(documents, settings)
    yield from pool_references(documents, pools, settings, complete)
    for name in sorted(pools):
        yield from pool_capacity(name, pools[name], settings)
    yield from users_in_two_quotas(documents)
    yield from (queue_capacity if settings.has_quota_queues else quota_capacity)(documents, settings)
    if settings.has_quota_queues:
        yield from types_beyond_pool(documents, pools, settings)


def _position(document: Document) -> tuple[str, int, int]:
    return (document.file, document.chunk.first_line, document.index)


def _names(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[tuple[str, str], Document] = {}
    for document in documents:
        if not isinstance(document.model, Workload):
            continue
        name = document.model.job.name
        earlier = seen.setdefault((document.namespace, name), document)
        if earlier is not document:
            yield document.diagnostic(
                ERROR,
                "GPU417",
                say(
                    "two jobs are called `{name}` in namespace `{namespace}` ({first}, {second})",
                    name=name,
                    namespace=document.namespace,
                    first=earlier.kind,
                    second=document.kind,
                ),
                ("job", "name"),
                _how_to_part(document.model, earlier.model, say("rename one: commands find a job by its name")),
                related=(Related(say("the other one"), earlier.span(("job", "name"))),),
            )


def _how_to_part(model: Model, other: Model, change: Sentence) -> Sentence:
    """Return the hint for two jobs that cannot both exist in a cluster.

    :param change: the hint if they belong on the same cluster.
    """
    # The partial model of a document with errors may lack the field.
    found = [getattr(one, "placement", None) for one in (model, other)]
    placed = [one.clusters if one is not None else [] for one in found]
    if all(placed) and not set(placed[0]) & set(placed[1]):
        return say(
            "they belong on different clusters: compile for one at a time, with --cluster {cluster}",
            cluster=placed[0][0],
        )
    return change


def _nodes_in_two_pools(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[str, Document] = {}
    for document in documents:
        if document.model.kind != "pool":
            continue
        for node in document.model.nodes:
            earlier = seen.setdefault(node, document)
            if earlier is document:
                continue
            assert earlier.model.kind == "pool", "only pools are in the table"
            yield document.diagnostic(
                ERROR,
                "GPU407",
                say(
                    "node `{node}` is in two pools, `{first}` and `{second}`",
                    node=node,
                    first=earlier.model.header.name,
                    second=document.model.header.name,
                ),
                ("nodes", node),
                say("a node has one pool label: remove it from one of the two"),
                key=True,
                related=(Related(say("the other one"), earlier.span(("nodes", node), key=True)),),
            )


def _node_ports(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[int, tuple[Document, tuple[str | int, ...]]] = {}
    for document in documents:
        service = service_of(document.model)
        if service is None:
            continue
        wanted: list[tuple[int | None, tuple[str | int, ...]]] = [(service.nodePort, ("service", "nodePort"))]
        for index, extra in enumerate(service.ports):
            wanted.append((extra.nodePort, ("service", "ports", index, "nodePort")))
        for port, path in wanted:
            if port is None:
                continue
            earlier, earlier_path = seen.setdefault(port, (document, path))
            if earlier is not document:
                yield document.diagnostic(
                    ERROR,
                    "GPU418",
                    say("nodePort {port} is taken by another job of these documents", port=port),
                    path,
                    say("change one; a nodePort exists once in a cluster"),
                    related=(Related(say("the other one"), earlier.span(earlier_path)),),
                )


def _new_claims(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    """Report claims that documents create with different settings: only the first would count."""
    seen: dict[tuple[str, str], tuple[Document, NewClaim, FieldPath]] = {}
    for document in documents:
        if not isinstance(document.model, Workload):
            continue
        # The partial model of a document with errors may lack the field.
        storage = getattr(document.model, "storage", None)
        for name, (create, index) in (storage.new_claims if storage is not None else {}).items():
            path: FieldPath = ("storage", "workdirs", index, "pvc", "create")
            earlier = seen.setdefault((document.namespace, name), (document, create, path))
            if earlier[1] != create:
                other = earlier[0]
                yield document.diagnostic(
                    ERROR,
                    "GPU431",
                    say(
                        "another document creates the claim `{name}` of namespace `{namespace}` with other settings",
                        name=name,
                        namespace=document.namespace,
                    ),
                    path,
                    _how_to_part(document.model, other.model, say("write the same `create` in both, or in one only")),
                    key=True,
                    related=(Related(say("the other one"), other.span(earlier[2], key=True)),),
                )


def _routes(documents: Sequence[Document]) -> Iterator[Diagnostic]:
    seen: dict[tuple[str, str], Document] = {}
    for document in documents:
        service = service_of(document.model)
        if service is None or service.route is None:
            continue
        route = service.route
        # A controller matches `/v1` and `/v1/` alike.
        earlier = seen.setdefault((route.host, route.path.rstrip("/")), document)
        if earlier is not document:
            yield document.diagnostic(
                ERROR,
                "GPU442",
                say(
                    "requests to `{host}{path}` are routed to another job of these documents",
                    host=route.host,
                    path=route.path,
                ),
                ("service", "route"),
                _how_to_part(document.model, earlier.model, say("change `host` or `path` of one")),
                key=True,
                related=(Related(say("the other one"), earlier.span(("service", "route"), key=True)),),
            )

"""Lowering: from documents to objects, by kind, with the objects they share, in the order of application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from gpuctl.backend import gitops_annotations, object_order, shared_objects
from gpuctl.backend.canonical_form import embed
from gpuctl.backend.claim_objects import new_claims
from gpuctl.backend.code_config_map import config_map
from gpuctl.backend.lowering_context import Context, Lowered
from gpuctl.backend.object_metadata import names_queue_priority
from gpuctl.backend.pool_objects import lower_pool, node_labels
from gpuctl.backend.quota_objects import lower_quota
from gpuctl.backend.quota_queues import flavors
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.sweep_diagnostics import SweepDiagnostics
from gpuctl.language.sentences import Template, say
from gpuctl.language.settings import DEFAULT_PRIORITIES
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import CLAIM, WORKLOADS, Object

_MOST_DATA = 2**20
"""Maximum size of a ConfigMap's values, bytes. Source: k8s.io/kubernetes pkg/apis/core/validation, ValidateConfigMap.
"""
_POOL_TOO_LARGE = Template("the definition of the pool has {size} bytes: a ConfigMap holds {most}")
_HOSTFILE_TOO_LARGE = Template("the hostfile has {size} bytes: a ConfigMap holds {most}")
MAIN_KINDS = frozenset(WORKLOADS)


def lower(context: Context, documents: Iterable[Document]) -> list[Lowered]:
    """Return all objects of all documents, each once, in the order of application.

    Two documents that yield the same object are an error in ``context.diagnostics``.
    """
    made: set[tuple[str, str]] = set()
    found: dict[tuple[str, str, str, str], Lowered] = {}
    for item in _lowered(context, documents, made):
        obj = item.object
        key = (obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        earlier = found.setdefault(key, item)
        if earlier is not item and not item.shared:
            _collision(context, earlier, item)
    return sorted(found.values(), key=lambda item: object_order.sort_key(item.object))


def _lowered(context: Context, documents: Iterable[Document], made: set[tuple[str, str]]) -> Iterator[Lowered]:
    """Yield the objects of all documents. A diagnostic that all jobs of a sweep have is reported once."""
    sweeps = SweepDiagnostics()
    for document in documents:
        before = len(context.diagnostics)
        yield from lower_document(context, document, made)
        if document.first is not None:
            context.diagnostics[before:] = sweeps.new(document, context.diagnostics[before:])


def _collision(context: Context, first: Lowered, second: Lowered) -> None:
    if isinstance(first.document.model, Workload) and isinstance(second.document.model, Workload):
        names = {first.document.model.job.name, second.document.model.job.name}
        if len(names) == 1:
            return  # Reported by the linker: two jobs of one name.
    one, two = sorted((first.document, second.document), key=lambda document: str(document.span()))
    path = _name_path(two)
    obj = second.object
    span = two.span(path)
    context.diagnostics.append(
        Diagnostic(
            Severity.ERROR,
            "GPU416",
            say("this document and another both yield {kind} `{name}`", kind=obj["kind"], name=obj["metadata"]["name"]),
            span,
            path,
            say("rename one of the two"),
            (Related(say("the other one"), one.span(_name_path(one))),),
        )
    )


def _name_path(document: Document) -> tuple[str | int, ...]:
    model = document.model
    if model.kind == "pool":
        return ("pool" if model.pool is not None else "metadata", "name")
    if model.kind == "quota":
        return ("quota" if model.quota is not None else "metadata", "name")
    return ("job", "name")


def lower_document(context: Context, document: Document, made: set[tuple[str, str]] | None = None) -> Iterator[Lowered]:
    """Yield the objects of one document with the requested annotations, and the shared objects it needs.

    :param made: kind and name of the shared objects that were already yielded: most documents need the same few.
    """
    for lowered in _objects(context, document, set() if made is None else made):
        if lowered.shared and lowered.object["kind"] not in ("Node", CLAIM) and not context.options.shared:
            continue
        if lowered.object["kind"] == "Namespace" and not _shows_namespace(context, document):
            continue
        if context.options.embed and not lowered.shared and _is_main(context, lowered.object, document):
            embed(context, document, lowered.object)
        if lowered.object["kind"] == "ConfigMap":
            _check_room(context, document, lowered.object)
        if context.options.gitops is not None:
            gitops_annotations.annotate(context, lowered.object)
            if lowered.object["kind"] in ("Job", "JobSet"):
                gitops_annotations.warn_about_ttl(context, lowered)
                gitops_annotations.warn_about_replacing(context, lowered)
        yield lowered


def _check_room(context: Context, document: Document, obj: Object) -> None:
    """Report a ConfigMap that is too large for the API server."""
    size = sum(len(value.encode("utf-8", "surrogatepass")) for value in obj["data"].values())
    if size <= _MOST_DATA:
        return
    pool = document.kind == "pool"
    context.report(
        document,
        "GPU206",
        say(_POOL_TOO_LARGE if pool else _HOSTFILE_TOO_LARGE, size=f"{size:,}", most=f"{_MOST_DATA:,}"),
        ("nodes",) if pool else ("resources", "nodes"),
        say("split the pool, or use shorter names") if pool else say("use fewer nodes, or a shorter name"),
        key=True,
    )


def _shows_namespace(context: Context, document: Document) -> bool:
    """Return True if a document's output contains its Namespace, whose deletion deletes everything in it.

    Quotas and platforms define Namespaces; other documents only use them.
    """
    return context.options.namespaces or document.kind in ("quota", "platform")


def _is_main(context: Context, obj: Object, document: Document) -> bool:
    quota = "ClusterQueue" if context.settings.has_quota_queues else "ResourceQuota"
    return (
        obj["kind"] in MAIN_KINDS
        or (document.kind == "pool" and obj["kind"] == "ConfigMap")
        or (document.kind == "quota" and obj["kind"] == quota)
    )


def _objects(context: Context, document: Document, made: set[tuple[str, str]]) -> Iterator[Lowered]:
    """Yield a document's objects and the shared objects it needs. A kind's module is imported on first use."""
    model = document.model
    if isinstance(model, Workload):
        if _is_new(made, "Namespace", document.namespace):
            yield from _namespace(context, document, document.namespace)
        if _is_new(made, "PriorityClass", model.job.priority):
            yield Lowered(shared_objects.priority_class(context, model.job.priority), document, shared=True)
        if names_queue_priority(context, model) and _is_new(made, "WorkloadPriorityClass", model.job.priority):
            yield Lowered(shared_objects.workload_priority_class(context, model.job.priority), document, shared=True)
        for claim in new_claims(context, document.namespace, model):
            yield Lowered(claim, document, shared=True)
        for obj in (*config_map(context, document, model), *_lowering(document.kind)(context, document, model)):
            yield Lowered(obj, document)
    elif model.kind == "pool":
        yield Lowered(shared_objects.system_namespace(context), document, shared=True)
        yield Lowered(lower_pool(context, model), document)
        if context.options.nodes:
            for node in node_labels(context, model):
                yield Lowered(node, document, shared=True)
    elif model.kind == "quota":
        for flavor in flavors(context, model) if context.settings.has_quota_queues else ():
            if _is_new(made, "ResourceFlavor", flavor["metadata"]["name"]):
                yield Lowered(flavor, document, shared=True)
        for name, objects in lower_quota(context, model):
            yield from _namespace(context, document, name)
            for obj in objects:
                yield Lowered(obj, document)
    else:
        yield Lowered(shared_objects.system_namespace(context), document, shared=True)
        for level in DEFAULT_PRIORITIES:
            yield Lowered(shared_objects.priority_class(context, level), document, shared=True)
            if context.settings.has_queue_priorities:
                yield Lowered(shared_objects.workload_priority_class(context, level), document, shared=True)


def _is_new(made: set[tuple[str, str]], kind: str, name: str) -> bool:
    is_new = (kind, name) not in made
    made.add((kind, name))
    return is_new


@cache
def _lowering(kind: str) -> Any:
    return import_module(f"gpuctl.backend.{kind}_objects").lower


def _namespace(context: Context, document: Document, name: str) -> Iterator[Lowered]:
    namespace = shared_objects.namespace(context, name)
    if namespace is not None:
        yield Lowered(namespace, document, shared=True)

"""Compiles the documents of requests with the platform of the service."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpuctl.api.document_answers import DocumentWarning
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.history_writer import ApplyOrigin
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_variant import PLAIN, Variant
from gpuctl.frontend.source import Source
from gpuctl.kube.session import Session
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Key, key_of
from gpuctl.usecases.changes.applying import DocumentRequest, request_for
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.compiling import reportable_diagnostics
from gpuctl.usecases.fit.fit_documents import FitDocuments, compile_for_fit
from gpuctl_server.access.caller import Caller
from gpuctl_server.changes.confined_documents import confine
from gpuctl_server.changes.document_access import qualified_title, reject_platform, require_document_access
from gpuctl_server.changes.own_cluster import cluster_for, reject_other_clusters
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import visible_job_filter
from gpuctl_server.http.request_bodies import NAME
from gpuctl_server.limits.compile_limits import CompiledTooLong, StillCompiling, processor_limit
from gpuctl_server.service_context import Service

MOST_DOCUMENTS = 100


@dataclass(frozen=True)
class Submission:
    """Compiled documents, with the objects to create or change."""

    text: str
    wanted: DocumentRequest

    @property
    def documents(self) -> list[Document]:
        """The documents, in order."""
        return self.wanted.compilation.documents

    @property
    def warnings(self) -> list[DocumentWarning]:
        """The warnings about the documents."""
        return list(map(DocumentWarning.of, reportable_diagnostics(self.wanted.compilation)))

    def main(self, document: Document) -> Key | None:
        """Return the key of the workload of a document; None for other kinds."""
        lowered = self.wanted.compilation.lowered
        return next(
            (key_of(i.object) for i in lowered if i.document is document and i.object["kind"] in WORKLOADS), None
        )

    @property
    def mains(self) -> list[Key]:
        """The keys of all workloads."""
        return [key for key in map(self.main, self.documents) if key is not None]

    @property
    def titles(self) -> list[str]:
        """The titles of the documents."""
        return [qualified_title(document) for document in self.documents]


def compile_documents(
    service: Service,
    caller: Caller,
    session: Session,
    text: str,
    *,
    namespace: str | None = None,
    planning: PlanOptions | None = None,
    sources: Sequence[Source] = (),
    strict: bool = False,
    variant: Variant = PLAIN,
    are_here: bool = False,
) -> Submission:
    """Compile documents, and apply the limits of the caller. Does not read from the cluster.

    :param sources: further texts with names; ``strict``: reject documents with warnings.
    :param namespace: for jobs that name none; None: the default of the caller.
    :param variant: the profile and the overrides to compile.
    :param are_here: the documents were applied to this cluster before: do not check their placement.
    :raises InvalidDocuments: the documents have errors.
    :raises InvalidOptions: the documents have a placement, and the name of this cluster is unknown.
    :raises Problem: 400, 403.
    """
    given = [*([Source(NAME, text)] if text or not sources else ()), *sources]
    options = _options(service, caller, given, namespace, strict=strict, variant=variant, are_here=are_here)
    with _turn(service, caller) as interrupt:
        options = replace(options, interrupt=interrupt)
        wanted = request_for(session, options, planning or PlanOptions(), RunCallbacks())
    reject_other_clusters(wanted.compilation, options.cluster)
    wanted = replace(
        wanted, request=replace(wanted.request, sees=visible_job_filter(caller)), origin=ApplyOrigin(who=caller.name)
    )
    reject_platform(wanted.compilation.documents)
    confine(service, caller, wanted.compilation)
    return Submission(text, wanted)


def compile_to_fit(
    service: Service,
    caller: Caller,
    sources: Sequence[Source],
    namespace: str | None,
    *,
    strict: bool = False,
    variant: Variant = PLAIN,
) -> FitDocuments:
    """Compile documents for a fit, as :func:`compile_documents` does.

    :raises InvalidDocuments: the documents have errors.
    :raises Problem: 400, 403.
    """
    options = _options(service, caller, sources, namespace, strict=strict, variant=variant)
    with _turn(service, caller) as interrupt:
        found = compile_for_fit(replace(options, interrupt=interrupt), options.namespace or service.namespace)
    reject_platform(found.compilation.documents)
    reject_other_clusters(found.compilation, options.cluster)
    require_document_access(caller, "get", found.compilation.documents, jobs="plans")
    return found


def _options(
    service: Service,
    caller: Caller,
    sources: Sequence[Source],
    namespace: str | None,
    *,
    strict: bool,
    variant: Variant,
    are_here: bool = False,
) -> DocumentOptions:
    """Return the options of a compilation, with the platform and the cluster of the service.

    :raises InvalidOptions: the documents have a placement, and the name of this cluster is unknown.
    :raises Problem: 400.
    """
    _require_few(len(sources))
    return DocumentOptions(
        sources,
        platform=service.platform_source,
        namespace=home_of(service, caller, "\n".join(source.text for source in sources), namespace),
        strict=strict,
        cluster=None if are_here else cluster_for(service, sources),
        variant=variant,
        are_here=are_here,
    )


@contextmanager
def _turn(service: Service, caller: Caller) -> Iterator[Callable[[], None]]:
    """Hold the compile lock of a caller. Yield a function that checks the time limit at each step of the compilation.

    :raises Problem: 429, or 413 when the time limit is exceeded.
    """
    limit = service.settings.compile_limit
    try:
        with service.compile_locks.of(caller.name):
            yield processor_limit(limit)
    except CompiledTooLong:
        raise Problem(
            413,
            say("these documents need more than {limit} s of CPU time to compile", limit=f"{limit:g}"),
            hint=say("send fewer or shorter documents at a time"),
        ) from None
    except StillCompiling:
        raise Problem(
            429, say("other documents of this token are still being compiled; try again in a moment")
        ) from None


def home_of(service: Service, caller: Caller, text: str, namespace: str | None) -> str:
    """Return the namespace of the jobs of a text that name none.

    :param namespace: the namespace of the request; None if not given.
    :raises Problem: 400, also for too many documents.
    """
    _require_few(sum(line.startswith("---") for line in text.split("\n")))
    namespace = namespace or caller.home or service.namespace
    if not is_dns_label(namespace):
        raise Problem(
            400, say("`{namespace}` is not a legal namespace name", namespace=namespace), error="InvalidOptions"
        )
    return namespace


def _require_few(documents: int) -> None:
    if documents > MOST_DOCUMENTS:
        raise Problem(400, say("more than {most} documents", most=MOST_DOCUMENTS), error="TooManyDocuments")

"""The rights that the documents of a request need."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.role_views import pod_documents
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.pool_document import PoolDocument
from gpuctl.language.quota_document import QuotaDocument
from gpuctl.language.sentences import say
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import Key
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action, Decision
from gpuctl_server.http.http_problems import Problem, refused_documents


def qualified_title(document: Document) -> str:
    """Return the kind, the name and, for a job, the namespace of a document, as in messages and the audit."""
    title = f"{document.kind}/{document.name}"
    return f"{title} in {document.namespace}" if document.is_workload else title


def reject_platform(documents: list[Document]) -> None:
    """Reject a document of kind platform.

    :raises Problem: 400.
    """
    message = say("a document of kind platform is rejected: the service uses the platform it was started with")
    found = [
        document.diagnostic(Severity.ERROR, "BadRequest", message, ("kind",))
        for document in documents
        if document.kind == "platform"
    ]
    if found:
        raise refused_documents(400, message, found)


def require_document_access(caller: Caller, action: Action, documents: list[Document], *, jobs: str = "jobs") -> None:
    """Check that the caller may do something with the objects of documents.

    :param jobs: the resource to check for jobs: ``plans`` if nothing is written.
    :raises Problem: 403.
    """
    refused = [
        _refusal(caller, part, access, decision)
        for document in documents
        for part, access in _access_requests(action, document, jobs)
        if not (decision := caller.may(access)).allowed
    ]
    if refused:
        raise refused_documents(403, refused[0].message, refused)


def require_namespaces(caller: Caller, session: Session, documents: list[Document]) -> None:
    """Check that the namespaces of jobs exist, or that the caller may create them.

    :raises Problem: 403.
    """
    for namespace in {document.namespace for document in documents if isinstance(document.model, Workload)}:
        decision = caller.may(AccessRequest("create", "namespaces", namespace))
        if not decision.allowed and not _is_there(session, namespace):
            raise Problem(
                403,
                say(
                    "the namespace {namespace} does not exist, and {reason}",
                    namespace=namespace,
                    reason=decision.message,
                ),
            )


def _access_requests(action: Action, document: Document, jobs: str) -> Iterator[tuple[Document, AccessRequest]]:
    """Yield what a document needs, each with the document, or the first role, that needs it."""
    model = document.model
    if isinstance(model, Workload):
        parts: dict[str, Document] = {}
        for view, part in pod_documents(document, model):
            parts.setdefault(part.resources.pool, view)
        for pool, view in parts.items():
            yield view, AccessRequest(action, jobs, document.namespace, pool)
    elif isinstance(model, PoolDocument):
        yield document, AccessRequest(action, "pools", pool=model.header.name)
    elif isinstance(model, QuotaDocument):
        for name in model.entries:
            yield document, AccessRequest(action, "quotas", name)


def _refusal(caller: Caller, part: Document, access: AccessRequest, decision: Decision) -> Diagnostic:
    """Return a refusal as a diagnostic at the namespace or the pool that the caller may not use."""
    path: tuple[str, ...] = (part.kind, "name")
    if part.is_workload:
        is_pool = caller.may(access._replace(pool=None)).allowed
        path = ("resources", "pool") if is_pool else ("job", "namespace")
    return part.diagnostic(Severity.ERROR, "Forbidden", decision.message, path)


def _is_there(session: Session, namespace: str) -> bool:
    """Return True if a namespace exists, or if the service may not read it. Then the write itself fails."""
    try:
        return session.get(Key("Namespace", "", namespace)) is not None
    except ApiError as error:
        if not error.lacks_permission:
            raise
        return True

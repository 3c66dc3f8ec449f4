"""Documents that somebody sends: compiled with the service's platform, and held against what the sender may."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from gpuctl.api.change_models import ChangesBody, DocumentsBody, FilesBody
from gpuctl.api.document_answers import diagnostics_answer
from gpuctl.apply.run.history_writer import ApplyOrigin
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.frontend.document import Document
from gpuctl.frontend.source import Source
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.names import is_dns_label
from gpuctl.language.pool_document import PoolDocument
from gpuctl.language.quota_document import QuotaDocument
from gpuctl.language.workload import Workload
from gpuctl.objects.api_resources import WORKLOADS, Key, key_of
from gpuctl.objects.ownership_metadata import is_controlled, is_ours
from gpuctl.usecases.applying import DocumentRequest, request_for
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions
from gpuctl.usecases.compiling import worth_telling
from gpuctl.usecases.fit_documents import FitDocuments, compile_for_fit
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.pod_safety import PodTerms, ServiceTerms
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.compile_limits import CompiledTooLong, StillCompiling, processor_limit
from gpuctl_server.content_negotiation import read_body, sends_yaml
from gpuctl_server.http_problems import Problem, forbidden
from gpuctl_server.job_lookups import require_access
from gpuctl_server.node_lookups import pool_filter
from gpuctl_server.own_cluster import cluster_for, refuse_elsewhere
from gpuctl_server.redaction import visible_job_filter
from gpuctl_server.service_context import Service

NAME = "yamlContent"
"""What diagnostics call the text: the field that it comes in."""
MOST_DOCUMENTS = 100
Body = TypeVar("Body", bound=BaseModel)


@dataclass(frozen=True)
class Submission:
    """Documents that compile, with what is asked of the cluster by them."""

    text: str
    wanted: DocumentRequest

    @property
    def documents(self) -> list[Document]:
        """They, in the order written."""
        return self.wanted.compilation.documents

    @property
    def warnings(self) -> list[dict[str, object]]:
        """What is to be said of them though they are in order."""
        return list(diagnostics_answer(worth_telling(self.wanted.compilation))["diagnostics"])

    def main(self, document: Document) -> Key | None:
        """What runs a document's job; None of other kinds of documents."""
        lowered = self.wanted.compilation.lowered
        return next(
            (key_of(i.object) for i in lowered if i.document is document and i.object["kind"] in WORKLOADS), None
        )

    @property
    def mains(self) -> list[Key]:
        """What runs the jobs."""
        return [key for key in map(self.main, self.documents) if key is not None]

    @property
    def titles(self) -> list[str]:
        """The documents by name."""
        return [title_of(document) for document in self.documents]


def body_of(model: type[BaseModel], documents: str) -> dict[str, Any]:
    """What the OpenAPI document says of a body that is read here: fields of JSON, or documents as YAML.

    :param documents: what the YAML is.
    """
    schema = model.model_json_schema()
    parts = schema.pop("$defs", {})

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(item) for item in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).rpartition("/")[2]
        return whole(parts[name]) if name else {key: whole(item) for key, item in value.items()}

    content = {
        "application/json": {"schema": whole(schema)},
        "application/yaml": {"schema": {"type": "string", "description": documents}},
    }
    return {"requestBody": {"required": True, "content": content}}


def json_body_of(model: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI document says of a body that :func:`parsed` reads."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


async def parsed(model: type[Body], request: Request) -> Body:
    """A body of JSON, or the same as YAML.

    :raises RequestValidationError: it is none, or not of this form.
    :raises InvalidBody: it is no JSON, or no YAML.
    """
    return validated(model, await read_body(request))


def validated(model: type[Body], value: object) -> Body:
    """A value that was read already.

    :raises RequestValidationError: it is not of this form.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> RequestValidationError:
    found = [{**item, "loc": ("body", *item["loc"])} for item in error.errors(include_url=False)]
    return RequestValidationError(found)


async def changes_of(request: Request) -> ChangesBody:
    """Return the documents of a change, as :func:`files_of`."""
    if not sends_yaml(request):
        return await parsed(ChangesBody, request)
    return ChangesBody(yamlContent=document_text(await request.body()))


def parsed_body(model: type[Body]) -> Callable[[Request], Coroutine[Any, Any, Body]]:
    """Return a dependency that parses the JSON body of a request as a model.

    A route names it after its caller, so that a body is read only if the caller has the right.
    """

    async def read(request: Request) -> Body:
        return await parsed(model, request)

    # A reader of the signature sees the model, not the type variable.
    read.__annotations__["return"] = model
    return read


async def documents_of(request: Request) -> DocumentsBody:
    """The documents of a request: a body of YAML is they themselves.

    :raises RequestValidationError: the body is something else.
    :raises Problem: 400.
    """
    if not sends_yaml(request):
        return await parsed(DocumentsBody, request)
    return DocumentsBody(yamlContent=document_text(await request.body()), dryRun=False)


async def files_of(request: Request) -> FilesBody:
    """Return the documents of a request. A body of YAML is one text of documents.

    :raises RequestValidationError: the body has another form.
    :raises Problem: 400.
    """
    if not sends_yaml(request):
        return await parsed(FilesBody, request)
    return FilesBody(yamlContent=document_text(await request.body()))


def sources_of(body: FilesBody) -> list[Source]:
    """Return the texts of a request with the names that diagnostics use."""
    files = [Source(item.name, item.text, direct=not item.in_directory) for item in body.files]
    return [Source(NAME, body.yamlContent), *files] if body.yamlContent or not files else files


def document_text(body: bytes) -> str:
    """A body that is documents.

    :raises Problem: 400.
    """
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        raise Problem(400, "the body is no UTF-8 text", error="InvalidDocuments") from None


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
    are_here: bool = False,
) -> Submission:
    """Compile documents as whoever sends them means them. Nothing is asked of the cluster.

    :param sources: texts with names of their own, beside ``text``; ``strict`` makes errors of their warnings.
    :param namespace: of jobs that name none; default: the sender's.
    :param are_here: they were applied to this cluster before: their placement is not asked.
    :raises InvalidDocuments: there are errors in them.
    :raises InvalidOptions: they belong on clusters by name, and that of this one is not known.
    :raises Problem: 400, 403.
    """
    given = [*([Source(NAME, text)] if text or not sources else ()), *sources]
    _see_that_few(len(given))
    namespace = home_of(service, caller, "\n".join(source.text for source in given), namespace)
    cluster = None if are_here else cluster_for(service, given)
    options = DocumentOptions(
        given,
        platform=service.platform_source,
        namespace=namespace,
        strict=strict,
        cluster=cluster,
        are_here=are_here,
    )
    with _turn(service, caller) as interrupt:
        options = replace(options, interrupt=interrupt)
        wanted = request_for(session, options, planning or PlanOptions(), RunCallbacks())
    refuse_elsewhere(wanted.compilation, cluster)
    wanted = replace(
        wanted, request=replace(wanted.request, sees=visible_job_filter(caller)), origin=ApplyOrigin(who=caller.name)
    )
    refuse_platform(wanted.compilation.documents)
    submission = Submission(text, wanted)
    if caller.is_confined:
        _confine_pods(service, caller, submission)
        _confine_services(service, caller, submission)
        _confine_nodes(service, caller, submission)
        _refuse_taken_names(service, caller, submission)
    return submission


def compile_to_fit(
    service: Service, caller: Caller, sources: Sequence[Source], namespace: str | None, *, strict: bool = False
) -> FitDocuments:
    """Compile documents that are asked about, as :func:`compile_documents`.

    :raises InvalidDocuments: there are errors in them.
    :raises Problem: 400, 403.
    """
    _see_that_few(len(sources))
    cluster = cluster_for(service, sources)
    home = home_of(service, caller, "\n".join(source.text for source in sources), namespace)
    with _turn(service, caller) as interrupt:
        found = compile_for_fit(
            sources,
            platform=service.platform_source,
            namespace=home,
            strict=strict,
            cluster_name=cluster,
            interrupt=interrupt,
        )
    refuse_platform(found.compilation.documents)
    refuse_elsewhere(found.compilation, cluster)
    require_document_access(caller, "get", found.compilation.documents, jobs="plans")
    return found


@contextmanager
def _turn(service: Service, caller: Caller) -> Iterator[Callable[[], None]]:
    """Wait until no other documents of a caller are compiled; yield what each step of the compile has to call.

    :raises Problem: 429, or 413 after the time that a compile may take.
    """
    limit = service.settings.compile_limit
    try:
        with service.compile_locks.of(caller.name):
            yield processor_limit(limit)
    except CompiledTooLong:
        raise Problem(
            413,
            f"these documents take more than {limit:g} s of processor time to compile",
            hint="send fewer or shorter documents at a time",
        ) from None
    except StillCompiling:
        raise Problem(429, "other documents of this token are still compiled; try again in a moment") from None


def _confine_pods(service: Service, caller: Caller, submission: Submission) -> None:
    """See that no pod may do what its sender may not.

    :raises Problem: 403, with all that is too much.
    """
    settings = service.settings
    terms = PodTerms(settings.pod_security, settings.host_paths, settings.service_accounts)
    found = {
        title_of(document): terms.breaches(
            item.object for item in submission.wanted.compilation.lowered if item.document is document
        )
        for document in submission.documents
    }
    details = [{"document": title, "message": text} for title, texts in found.items() for text in texts]
    if details:
        first = f"{details[0]['document']}: {details[0]['message']}"
        more = f", and {len(details) - 1} more" if len(details) > 1 else ""
        raise Problem(
            403,
            f"{caller.name} may not create such pods: Pod Security {settings.pod_security}, and the service accounts "
            f"that are free to use, do not allow {first}{more}",
            error="PodSecurity",
            details=details,
            hint="pvc or nfs in `storage.workdirs` take the place of paths of the host; what else jobs may have is set "
            "where the service is started (pod_security, host_paths, service_accounts)",
        )


def _confine_services(service: Service, caller: Caller, submission: Submission) -> None:
    """Check that no Service is reachable in another way than limited tokens may choose.

    :raises Problem: 403.
    """
    settings = service.settings
    terms = ServiceTerms(settings.service_types, settings.fixed_node_ports)
    found = terms.breaches(item.object for item in submission.wanted.compilation.lowered)
    if found:
        raise Problem(
            403,
            f"{caller.name} may not create {', '.join(found)}",
            error="ServiceNotAllowed",
            details=[{"message": text} for text in found],
            hint="the settings `service_types` and `fixed_node_ports` say what tokens with limits may have",
        )


def _confine_nodes(service: Service, caller: Caller, submission: Submission) -> None:
    """See that a pool takes no nodes out of pools that are not its sender's, whether or not there are such nodes.

    :raises Problem: 403.
    """
    named = [name for item in submission.documents if isinstance(item.model, PoolDocument) for name in item.model.nodes]
    if not named:
        # To count the nodes' GPUs the cluster may be asked for DeviceClasses.
        return
    takes, there = pool_filter(caller, "update", "pools"), service.fleet.now().nodes
    for name in named:
        if name not in there or not takes(there[name].pool):
            raise forbidden(f"{caller.name} may not put node {name} into a pool: it is in none of this token's pools")


def _refuse_taken_names(service: Service, caller: Caller, submission: Submission) -> None:
    """Refuse a job that would have the name of a hidden job of another kind: the API server would accept both.

    :raises Problem: 409.
    """
    visibility, kept = service.visibility(caller), dict(service.mirror.kinds())
    for main in (key for key in submission.mains if caller.sees(key.namespace)):
        for other in (main._replace(kind=kind) for kind in WORKLOADS if kind in kept and kind != main.kind):
            found = service.mirror.find(other)
            if found is not None and is_ours(found) and not is_controlled(found) and not visibility.sees(found):
                raise Problem(
                    409,
                    f"a job of another kind has the name {main.name} in {main.namespace} already",
                    error="AlreadyExists",
                    hint="rename one; nothing was changed by this request",
                )


def home_of(service: Service, caller: Caller, text: str, namespace: str | None) -> str:
    """The namespace of those jobs of a text that name none.

    :param namespace: as far as it was said.
    :raises Problem: 400, also where these are too many documents.
    """
    _see_that_few(sum(line.startswith("---") for line in text.split("\n")))
    namespace = namespace or caller.home or service.namespace
    if not is_dns_label(namespace):
        raise Problem(400, f"`{namespace}` is not a legal namespace name", error="InvalidOptions")
    return namespace


def _see_that_few(documents: int) -> None:
    if documents > MOST_DOCUMENTS:
        raise Problem(400, f"these are more than {MOST_DOCUMENTS} documents", error="TooManyDocuments")


def refuse_platform(documents: list[Document]) -> None:
    """See that nobody brings a platform.

    :raises Problem: 400.
    """
    if any(document.kind == "platform" for document in documents):
        raise Problem(400, "a document of kind platform is refused: the platform is set where the service is started")


def require_document_access(caller: Caller, action: Action, documents: list[Document], *, jobs: str = "jobs") -> None:
    """See that somebody may do this with what documents are about.

    :param jobs: the resource that stands for jobs, which is ``plans`` where nothing is written.
    :raises Problem: 403.
    """
    for document in documents:
        for access in _wishes(action, document, jobs):
            require_access(caller, access)


def require_namespaces(caller: Caller, session: Session, documents: list[Document]) -> None:
    """See that jobs have a namespace: one that a document names is created, but not by everybody.

    :raises Problem: 403.
    """
    for namespace in {document.namespace for document in documents if isinstance(document.model, Workload)}:
        decision = caller.may(AccessRequest("create", "namespaces", namespace))
        if not decision.allowed and not _is_there(session, namespace):
            raise Problem(403, f"there is no namespace {namespace}, and {decision.message}")


def _is_there(session: Session, namespace: str) -> bool:
    """Whether there is a namespace, as far as that may be known; if not, the writes themselves will tell."""
    try:
        return session.get(Key("Namespace", "", namespace)) is not None
    except ApiError as error:
        if not error.lacks_permission:
            raise
        return True


def title_of(document: Document) -> str:
    """A document as messages and the audit name it."""
    model = document.model
    if isinstance(model, Workload):
        return f"{document.kind}/{model.job.name} in {document.namespace}"
    return f"{document.kind}/{name_of(document)}"


def name_of(document: Document) -> str:
    """The name that a document gives to what it is about."""
    model = document.model
    if isinstance(model, Workload):
        return model.job.name
    return model.header.name if isinstance(model, PoolDocument | QuotaDocument) else ""


def _wishes(action: Action, document: Document, jobs: str) -> Iterator[AccessRequest]:
    model = document.model
    if isinstance(model, Workload):
        yield AccessRequest(action, jobs, document.namespace, model.resources.pool)
    elif isinstance(model, PoolDocument):
        yield AccessRequest(action, "pools", pool=model.header.name)
    elif isinstance(model, QuotaDocument):
        for name in model.entries:
            yield AccessRequest(action, "quotas", name)

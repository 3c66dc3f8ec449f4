"""Common parts of routes: route classes, dependencies, parameters and answers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Annotated, Any, ParamSpec, Protocol, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from gpuctl.acts.node_labels import NodeChangeReport
from gpuctl.api.base_models import DryRunBody
from gpuctl.api.change_models import ConfirmedBody, NamesBody
from gpuctl.api.node_label_answers import BatchReport, NodeBatch
from gpuctl.apply.plan.plan_options import Strategy
from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action, Rights
from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.audit import INTERRUPTED, AuditFailed, AuditTrail, audit, audit_problem
from gpuctl_server.change_request import ChangeRequest, Confirmation
from gpuctl_server.content_negotiation import JSON, wants_yaml
from gpuctl_server.http_problems import Problem, Route
from gpuctl_server.job_lookups import REVIEWS, check_rights, require_access
from gpuctl_server.mirror.shared_lists import READ_ONLY_AGE
from gpuctl_server.request_bodies import body_of, optional_body, parsed_body
from gpuctl_server.routes.query_parameters import reject_unknown_parameters
from gpuctl_server.service_context import Service
from gpuctl_server.time_parameters import InvalidTime, parse_time

BASE = "/api/v1"
LARGEST_PAGE = 1000
Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")


class CachedRoute(Route):
    """A route that answers from memory while :meth:`Service.cache_version` and the rights are unchanged.

    For a repeated request, parsing the parameters would take most of the time.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def remembering(request: Request) -> Response:
            service: Service = request.app.state.service
            rights = _known_rights(service, request)
            if rights is None or wants_yaml(request):
                return await handle(request)
            question = (rights, request.scope["path"], request.scope["query_string"])
            version = service.cache_version()
            body = service.response_cache.find(question, version)
            if body is not None:
                return Response(body, media_type=JSON)
            response = await handle(request)
            if response.status_code == 200 and not hasattr(request.state, "error"):
                service.response_cache.keep(question, version, bytes(response.body))
            return response

        return remembering


def _known_rights(service: Service, request: Request) -> Rights | None:
    """Return the rights of a valid token if they are known without a request to the API server, else None."""
    if not isinstance(service.authenticator, ServiceTokenFile):
        return None
    token = bearer(request.headers.get("authorization", ""))
    caller = service.authenticator.caller(token) if token else None
    return None if caller is None else caller.rights


def cached_router() -> APIRouter:
    """Return a router whose routes answer from memory."""
    return APIRouter(prefix=BASE, route_class=CachedRoute)


def api_router(base: str = BASE) -> APIRouter:
    """Return a router with the error form of the service."""
    return APIRouter(prefix=base, route_class=Route)


class WriteRoute(Route):
    """A route that writes. The result of each request is added to the audit."""

    is_write = True

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def noted(request: Request) -> Response:
            result = INTERRUPTED
            try:
                response = await handle(request)
                result = getattr(request.state, "error", str(response.status_code))
                return response
            finally:
                if not getattr(request.state, "preview", False) or result != "200":
                    caller = getattr(request.state, "caller", None)
                    trail: AuditTrail | None = getattr(request.state, "touched", None)
                    objects = trail or list(map(str, request.path_params.values()))
                    name = "" if caller is None else caller.name
                    audit(name, _action(request), objects, result, "" if trail is None else trail.write)

        return noted


def from_memory(function: Callable[Parameters, Item]) -> Callable[Parameters, Coroutine[Any, Any, Item]]:
    """Run a route in the threads for reads from memory, so that requests to a slow API server cannot block it."""

    @functools.wraps(function)
    async def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Item:
        service = named["service"]
        assert isinstance(service, Service)
        limiter = service.reads
        return await anyio.to_thread.run_sync(functools.partial(function, *arguments, **named), limiter=limiter)

    # The annotations refer to names in the module of the route. Some versions of FastAPI do not look there.
    run.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return run


async def run_waiting(service: Service, function: Callable[..., Item], *arguments: Any) -> Item:
    """Run a function that waits for jobs, in its own thread. The number of these threads is limited.

    :raises Problem: 429 at the limit.
    """
    if service.waits.available_tokens < 1:
        raise Problem(
            429,
            say(
                "{number} requests wait for jobs, which is the limit; try again in a moment",
                number=int(service.waits.total_tokens),
            ),
        )
    return await anyio.to_thread.run_sync(function, *arguments, limiter=service.waits)


def write_router() -> APIRouter:
    """Return a router whose routes write."""
    return APIRouter(prefix=BASE, route_class=WriteRoute)


def _action(request: Request) -> str:
    return f"{request.method} {request.scope['route'].path_format}"


# Dependencies are coroutines: FastAPI runs others in threads, which would cost more than the dependencies do.


async def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


ServiceOf = Annotated[Service, Depends(service_of)]
DryRun = Annotated[
    bool,
    Query(alias="dryRun", description="Check everything and return what would be done. Nothing is written."),
]
Confirm = Annotated[bool, Query(description="Confirm all questions of the plan: running work may be ended.")]


async def caller_of(request: Request) -> Caller:
    """Return the caller of the request, as a dependency.

    :raises Problem: 401.
    """
    caller = await caller_with(request.app.state.service, bearer(request.headers.get("authorization", "")))
    request.state.caller = caller
    return caller


async def caller_with(service: Service, token: str) -> Caller:
    """Return the caller of a token like :func:`caller_of_token`, in a thread if the token is checked by requests."""
    if not token or isinstance(service.authenticator, ServiceTokenFile):
        # Only checks if the token file has changed, so that no thread is needed.
        return caller_of_token(service, token)
    return await anyio.to_thread.run_sync(caller_of_token, service, token, limiter=REVIEWS)


def caller_of_token(service: Service, token: str) -> Caller:
    """Return the caller of a token.

    :raises Problem: 401.
    """
    caller = service.authenticator.caller(token) if token else None
    if caller is None:
        raise Problem(401, say("the token is missing, invalid or expired"))
    return caller


def bearer(header: str) -> str:
    """Return the token of an Authorization header; "" without one."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def any_caller(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """Return a caller with a valid token, as a dependency. Reject unknown query parameters."""
    reject_unknown_parameters(request)
    return caller


def allowed(action: Action, resource: str) -> Callable[[Request, Caller], Awaitable[Caller]]:
    """Return a dependency like :func:`any_caller` that also requires a right in at least one namespace and pool. It is
    evaluated before the body is read.
    """

    async def check(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        await check_rights(caller, lambda: require_access(caller, AccessRequest(action, resource)))
        reject_unknown_parameters(request)
        return caller

    return check


class ChangeBody(Protocol):
    """The body of a change."""

    @property
    def dry_run(self) -> bool:
        """True if the body asks for a dry run."""


def change_of(
    action: Action, resource: str, body_of: Callable[[Request], Awaitable[ChangeBody]], *, confirms: bool = True
) -> Callable[..., Awaitable[ChangeRequest]]:
    """Return a dependency like :func:`allowed` for routes that write: the change that the request asks for. The query
    or the body may ask for a dry run, which is only audited if it fails.

    :param body_of: dependency that reads the body.
    :param confirms: the route has a parameter that confirms all questions.
    """
    check = Depends(allowed(action, resource))
    read = Depends(body_of)

    async def ask(
        request: Request, service: ServiceOf, caller: Caller = check, body: Any = read, dry_run: DryRun = False
    ) -> ChangeRequest:
        return _change(request, service, caller, body, dry_run=dry_run)

    async def ask_confirmed(
        request: Request,
        service: ServiceOf,
        caller: Caller = check,
        body: Any = read,
        confirm: Confirm = False,
        dry_run: DryRun = False,
    ) -> ChangeRequest:
        return _change(request, service, caller, body, dry_run=dry_run, confirm=confirm)

    return ask_confirmed if confirms else ask


def _change(
    request: Request, service: Service, caller: Caller, body: ChangeBody, *, dry_run: bool, confirm: bool = False
) -> ChangeRequest:
    """Return the change that a request asks for.

    :raises AuditFailed: the request is a change, and the audit cannot be written (503).
    """
    is_dry = dry_run or body.dry_run
    request.state.preview = is_dry
    problem = None if is_dry else audit_problem()
    if problem is not None:
        raise AuditFailed(problem)
    request.state.touched = AuditTrail(caller.name, _action(request), preview=is_dry)
    confirmed = body.confirmed if isinstance(body, ConfirmedBody) else None
    return ChangeRequest(service, caller, request.state.touched, Confirmation(confirm, confirmed), is_dry)


def names_in(text: str) -> frozenset[str]:
    """Return the names that are separated by commas."""
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


def page_of(items: Sequence[Item], page: int, size: int) -> Sequence[Item]:
    """Return the items of a page; the first page is 1."""
    return items[(page - 1) * size : page * size]


def time_of(field: str, text: str) -> datetime | None:
    """Parse a time parameter. Return None if it is empty.

    :raises Problem: 400.
    """
    try:
        return parse_time(text) if text else None
    except InvalidTime as error:
        raise Problem(400, f"{field}: {error}", error="InvalidRequest") from None


def dry_run_response(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the additional answer of a creation for the OpenAPI document: 200 after a dry run."""
    return {200: {"model": model, "description": "Validated: dryRun was true."}}


def creation_response(value: BaseModel, location: str | None, *, is_checked: bool) -> JSONResponse:
    """Return the answer of a creation: 201 with the path of the new object, or 200 after a dry run."""
    headers = {} if location is None or is_checked else {"Location": f"{BASE}{location}"}
    return JSONResponse(value.model_dump(exclude_unset=True, by_alias=True), 200 if is_checked else 201, headers)


def node_changes(change: ChangeRequest, report: NodeChangeReport, done: NodeBatch) -> dict[str, Any]:
    """Return the answer about changed nodes.

    :param done: what was done with them, such as ``labelled``.
    """
    return BatchReport.of(report, done, dry_run=change.dry_run).as_json()


Checkpoint = Annotated[
    bool,
    Query(description="Let the job save its progress before its pods end. If that fails, no pod is ended: 409."),
]
ListAge = Annotated[
    float,
    Query(
        alias="maxAge",
        ge=0,
        le=READ_ONLY_AGE,
        description="Maximum age of the nodes and of the pods of other jobs that the answer is computed from, seconds. "
        "Default: they are read now.",
    ),
]
Profile = Annotated[
    str | None, Query(max_length=63, description="Profile to merge into the documents that have profiles.")
]
Queue = Annotated[
    bool, Query(description="Create a job even if a quota is exhausted. It starts when the quota has room.")
]
Failed = Annotated[
    bool, Query(description="Run only failed trainings; of arrays, only the indexes that have not succeeded.")
]
Nodes = Annotated[int, Query(ge=1, le=10000, description="The number of nodes, within the range of the document.")]
Force = Annotated[bool, Query(description="End the pods without their grace period.")]
ServiceStrategy = Annotated[
    Strategy | None,
    Query(
        description="Rollout strategy of a changed service. Default: that of the running service, else of the platform."
    ),
]
NoProbe = Annotated[
    bool, Query(alias="noProbe", description="Report the rejection of a trial pod as a note instead of an error.")
]
KeepLabels = Annotated[bool, Query(alias="keepLabels", description="Keep the labels of a pool on its nodes.")]
Timeout = Annotated[
    float,
    Query(
        gt=0, le=1e9, description="Maximum wait for deletions and for quotas, seconds. The service waits at most 600."
    ),
]
names_of = parsed_body(NamesBody)
only_dry_run = optional_body(DryRunBody)
only_confirmed = optional_body(ConfirmedBody)
Names = Annotated[NamesBody, Depends(names_of)]
NAMES = body_of(NamesBody, "The same fields, as YAML.")
KindFilter = Annotated[
    str, Query(max_length=253, description="Only jobs of this kind: training, inference, notebook or compute.")
]
PoolFilter = Annotated[str, Query(max_length=253, description="Only jobs in this pool.")]
NamespaceFilter = Annotated[str, Query(max_length=253, description="Only jobs in this namespace.")]
NamespaceOfJob = Annotated[
    str, Query(max_length=253, description="Namespace of the job; required if the name exists in several.")
]
Page = Annotated[int, Query(ge=1, le=2**31, description="Page number, from 1.")]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=LARGEST_PAGE, description="Items per page.")]


def paged(items: Sequence[Item], page: int, size: int, value: Callable[[Item], dict[str, Any]]) -> dict[str, Any]:
    """Return a page of a list: ``total`` counts the items of all pages, ``items`` are those of this page."""
    return {"total": len(items), "items": [value(item) for item in page_of(items, page, size)]}

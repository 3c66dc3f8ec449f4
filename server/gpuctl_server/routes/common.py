"""What routes have in common: who asks, what is asked of lists, and how an answer is written."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import Annotated, Any, ParamSpec, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import JSONResponse, Response

from gpuctl.api.change_models import ConfirmedBody, NamesBody
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.usecases.change_options import LONGEST_BY_SERVICE, Strategy
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action, Rights
from gpuctl_server.access.tokens import ServiceTokenFile
from gpuctl_server.audit import INTERRUPTED, AuditFailed, AuditTrail, audit, audit_problem
from gpuctl_server.content_negotiation import JSON, wants_yaml
from gpuctl_server.http_problems import Problem, Route
from gpuctl_server.job_lookups import REVIEWS, decided, require_access
from gpuctl_server.routes.query_parameters import refuse_unknown_parameters
from gpuctl_server.service_context import Service
from gpuctl_server.submissions import body_of, parsed, parsed_body
from gpuctl_server.timestamps import InvalidTime, parse_time

BASE = "/api/v1"
LARGEST_PAGE = 1000
Item = TypeVar("Item")
Parameters = ParamSpec("Parameters")


class RememberedRoute(Route):
    """A route that answers from memory while :meth:`Service.cache_version` and the rights are unchanged.

    Of a request that is repeated most of the time goes to reading its parameters.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def remembering(request: Request) -> Response:
            service: Service = request.app.state.service
            rights = _rights_at_once(service, request)
            if rights is None or wants_yaml(request):
                return await handle(request)
            question = (rights, request.scope["path"], request.scope["query_string"])
            version = service.cache_version()
            body = service.response_cache.find(question, version)
            if body is not None:
                return Response(body, media_type=JSON)
            response = await handle(request)
            if response.status_code == 200:
                service.response_cache.keep(question, version, bytes(response.body))
            return response

        return remembering


def _rights_at_once(service: Service, request: Request) -> Rights | None:
    """The rights of whoever asks, where nobody has to be asked for them, and the token is good."""
    if not isinstance(service.authenticator, ServiceTokenFile):
        return None
    token = bearer(request.headers.get("authorization", ""))
    caller = service.authenticator.caller(token) if token else None
    return None if caller is None else caller.rights


def remembering_router() -> APIRouter:
    """A router of what is answered out of memory."""
    return APIRouter(prefix=BASE, route_class=RememberedRoute)


def api_router(base: str = BASE) -> APIRouter:
    """A router whose errors have the service's form."""
    return APIRouter(prefix=base, route_class=Route)


class WriteRoute(Route):
    """A route that changes something: the audit has a line for the result of each request."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def noted(request: Request) -> Response:
            result = INTERRUPTED
            try:
                response = await handle(request)
                result = f"{response.status_code} {getattr(request.state, 'error', '')}".strip()
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
    """Have a route that asks nothing of the cluster answered while all threads wait for that."""

    @functools.wraps(function)
    async def run(*arguments: Parameters.args, **named: Parameters.kwargs) -> Item:
        service = named["service"]
        assert isinstance(service, Service)
        limiter = service.reads
        return await anyio.to_thread.run_sync(functools.partial(function, *arguments, **named), limiter=limiter)

    # Names in annotations are those of the route's module, where not every FastAPI looks.
    run.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return run


async def run_waiting(service: Service, function: Callable[..., Item], *arguments: Any) -> Item:
    """What a function that waits for jobs returns. Only so many may wait at a time, each in a thread of its own.

    :raises Problem: 429, all places are taken.
    """
    if service.waits.available_tokens < 1:
        raise Problem(429, f"{int(service.waits.total_tokens)} requests wait for jobs already; try again in a moment")
    return await anyio.to_thread.run_sync(function, *arguments, limiter=service.waits)


def write_router() -> APIRouter:
    """A router of what changes something."""
    return APIRouter(prefix=BASE, route_class=WriteRoute)


def _action(request: Request) -> str:
    return f"{request.method} {request.scope['route'].path_format}"


def touched_by(request: Request, *, preview: bool = False) -> AuditTrail:
    """Return the audit's trail of a request, which takes the names of its objects. A preview has a line if it fails.

    :raises Problem: 503 for a change while the audit cannot be written.
    """
    request.state.preview = preview
    problem = None if preview else audit_problem()
    if problem is not None:
        raise AuditFailed(problem)
    trail = AuditTrail(request.state.caller.name, _action(request), preview=preview)
    request.state.touched = trail
    return trail


# Dependencies are coroutines: FastAPI gives each that is none a thread, which costs more than they do.


async def service_of(request: Request) -> Service:
    """The service that a request is for."""
    service: Service = request.app.state.service
    return service


async def caller_of(request: Request) -> Caller:
    """Who asks.

    :raises Problem: 401.
    """
    token = bearer(request.headers.get("authorization", ""))
    service: Service = request.app.state.service
    if not token or isinstance(service.authenticator, ServiceTokenFile):
        # Whether its file has changed is the one thing that is asked.
        caller = caller_with(service, token)
    else:
        caller = await anyio.to_thread.run_sync(caller_with, service, token, limiter=REVIEWS)
    request.state.caller = caller
    return caller


def caller_with(service: Service, token: str) -> Caller:
    """Whose token it is; "" is nobody's.

    :raises Problem: 401.
    """
    caller = service.authenticator.caller(token) if token else None
    if caller is None:
        raise Problem(401, "the token is missing, wrong, or no longer valid")
    return caller


def bearer(header: str) -> str:
    """The token of an Authorization header, "" where there is none."""
    scheme, _, token = header.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


async def any_caller(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
    """A dependency: a caller with a valid token, whose request has no query parameter that the path does not have."""
    refuse_unknown_parameters(request)
    return caller


def allowed(action: Action, resource: str) -> Callable[[Request, Caller], Awaitable[Caller]]:
    """A dependency: as :func:`any_caller`, and the caller may do this at least somewhere. It comes before the body is
    read."""

    async def check(request: Request, caller: Annotated[Caller, Depends(caller_of)]) -> Caller:
        await decided(caller, lambda: require_access(caller, AccessRequest(action, resource)))
        refuse_unknown_parameters(request)
        return caller

    return check


def page_of(items: Sequence[Item], page: int, size: int) -> Sequence[Item]:
    """The items of a page, from 1."""
    return items[(page - 1) * size : page * size]


def time_of(field: str, text: str) -> datetime | None:
    """The time that a parameter says; None where it says none.

    :raises Problem: 400.
    """
    try:
        return parse_time(text) if text else None
    except InvalidTime as error:
        raise Problem(400, f"{field}: {error}", error="InvalidRequest") from None


DryRun = Annotated[
    bool,
    Query(alias="dryRun", description="Check everything and return what would be done; nothing is written."),
]


def bounded_run(timeout: float, **options: bool) -> RunOptions:
    """Return the options of a run that takes no longer than the service allows."""
    return RunOptions(min(timeout, LONGEST_BY_SERVICE), **options)


class DryRunBody(BaseModel):
    """The body of a write that needs none."""

    model_config = ConfigDict(extra="forbid", strict=True)

    dryRun: bool = False  # noqa: N815 - as bodies have it


async def dry_run_of(request: Request, dry_run: DryRun = False) -> bool:
    """A dependency of writes that need no body: whether the query, or a body all the same, asks for a dry run.

    :raises RequestValidationError: the body says anything else.
    :raises InvalidBody: the body is neither JSON nor YAML.
    """
    if not (await request.body()).strip():
        return dry_run
    return (await parsed(DryRunBody, request)).dryRun or dry_run


async def confirmed_of(request: Request, dry_run: DryRun = False) -> ConfirmedBody:
    """A dependency of plans that need no body: as :func:`dry_run_of`, with what the user has confirmed."""
    body = ConfirmedBody()
    if (await request.body()).strip():
        body = await parsed(ConfirmedBody, request)
    return body.model_copy(update={"dryRun": body.dryRun or dry_run})


def checked(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """The further answer of a creation in the OpenAPI document: 200 after a dry run."""
    return {200: {"model": model, "description": "Validated: dryRun was true."}}


def made(value: BaseModel, location: str | None, *, is_checked: bool) -> JSONResponse:
    """The answer of a creation: 201 with the path of what was created, or 200 where it was only checked."""
    headers = {} if location is None or is_checked else {"Location": f"{BASE}{location}"}
    return JSONResponse(value.model_dump(exclude_unset=True, by_alias=True), 200 if is_checked else 201, headers)


Checkpoint = Annotated[
    bool, Query(description="Let the job save its progress before it ends. If that fails, nothing is ended: 409.")
]
Queue = Annotated[bool, Query(description="Create a job also where a quota is full: it starts when there is room.")]
Force = Annotated[bool, Query(description="End the pods without their grace period.")]
ServiceStrategy = Annotated[Strategy | None, Query(description="How a changed service is changed.")]
NoProbe = Annotated[
    bool, Query(alias="noProbe", description="Make it a note, not an error, when a trial pod is refused.")
]
KeepLabels = Annotated[bool, Query(alias="keepLabels", description="Leave the labels of a pool on its nodes.")]
Timeout = Annotated[
    float, Query(gt=0, le=1e9, description="Seconds for deletions and late quotas; the service waits at most 600.")
]
Names = Annotated[NamesBody, Depends(parsed_body(NamesBody))]
NAMES = body_of(NamesBody, "The same fields.")
OnlyDryRun = Annotated[bool, Depends(dry_run_of)]
Confirmed = Annotated[ConfirmedBody, Depends(confirmed_of)]
Confirm = Annotated[bool, Query(description="What a plan asks is confirmed: running work may end.")]
ServiceOf = Annotated[Service, Depends(service_of)]
Page = Annotated[int, Query(ge=1, le=2**31, description="Which page, from 1.")]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=LARGEST_PAGE, description="Items of a page.")]


def paged(items: Sequence[Item], page: int, size: int, value: Callable[[Item], dict[str, Any]]) -> dict[str, Any]:
    """A page of a list: ``total`` of all pages, ``items`` of this one."""
    return {"total": len(items), "items": [value(item) for item in page_of(items, page, size)]}

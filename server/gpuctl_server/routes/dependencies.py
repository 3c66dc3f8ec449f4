"""Dependencies of routes: the service, the caller with the required rights, and the change that a request asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

import anyio.to_thread
from fastapi import Depends, Query, Request

from gpuctl.api.base_models import DryRunBody
from gpuctl.api.change_models import ConfirmedBody, NamesBody
from gpuctl.language.sentences import say
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest, Action
from gpuctl_server.access.tokens import ServiceTokenFile, bearer
from gpuctl_server.audit import AuditFailed, AuditTrail, audit_problem
from gpuctl_server.changes.change_request import ChangeRequest, Confirmation
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.request_bodies import json_body_of, parsed_body
from gpuctl_server.lookups.job_lookups import REVIEWS, check_rights, require_access
from gpuctl_server.routes.routers import action_of
from gpuctl_server.routes.unknown_parameters import reject_unknown_parameters
from gpuctl_server.service_context import Service

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


async def _confirm(confirm: Confirm = False) -> bool:
    return confirm


async def _no_confirm() -> bool:
    return False


async def _dry_run(dry_run: DryRun = False) -> bool:
    return dry_run


def change_of(
    action: Action, resource: str, body_of: Callable[[Request], Awaitable[ChangeBody]], *, confirms: bool = True
) -> Callable[..., Awaitable[ChangeRequest]]:
    """Return a dependency like :func:`allowed` for routes that write: the change that the request asks for. The query
    or the body may ask for a dry run, which is only audited if it fails.

    :param body_of: dependency that reads the body.
    :param confirms: the route has a parameter that confirms all questions.
    """

    # Defaults: FastAPI could not resolve an annotation that refers to the arguments of this function.
    check, read = Depends(allowed(action, resource)), Depends(body_of)
    confirmation = Depends(_confirm if confirms else _no_confirm)

    async def ask(
        request: Request,
        service: ServiceOf,
        caller: Caller = check,
        body: Any = read,
        confirm: bool = confirmation,
        dry_run: bool = Depends(_dry_run),
    ) -> ChangeRequest:
        is_dry = dry_run or body.dry_run
        request.state.preview = is_dry
        problem = None if is_dry else audit_problem()
        if problem is not None:
            raise AuditFailed(problem)
        request.state.touched = AuditTrail(caller.name, action_of(request), preview=is_dry)
        confirmed = body.confirmed if isinstance(body, ConfirmedBody) else None
        return ChangeRequest(service, caller, request.state.touched, Confirmation(confirm, confirmed), is_dry)

    return ask


names_of = parsed_body(NamesBody)
only_dry_run = parsed_body(DryRunBody, is_optional=True)
only_confirmed = parsed_body(ConfirmedBody, is_optional=True)
Names = Annotated[NamesBody, Depends(names_of)]
NAMES = json_body_of(NamesBody)

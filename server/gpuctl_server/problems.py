"""Errors as answers: ``{"error": name, "message": text, "details": [...]}``, whatever went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from gpuctl.answers.failures import meaning_of
from gpuctl.apply.plan.plan import Plan
from gpuctl.language.masking import masked, redact
from gpuctl_server.negotiation import NotReadable, as_yaml, read_yaml, sends_yaml, wants_yaml
from gpuctl_server.request_log import LOG, request_id

_WORDS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    409: "Conflict",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    429: "TooManyRequests",
    503: "ServiceUnavailable",
}


_COMMAND_LINE = "/command-line/"
"""In the paths of the command line, which asks as a client."""


class Problem(Exception):
    """An answer that is no success: HTTP status, the name that programs compare, a sentence, and details."""

    def __init__(
        self, status: int, message: str, *, error: str = "", details: Sequence[Any] = (), hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error or _WORDS.get(status, "Error")
        self.message = message
        self.details = list(details)
        self.hint = hint


def forbidden(message: str) -> Problem:
    """403."""
    return Problem(403, message)


def not_found(message: str, error: str = "NotFound") -> Problem:
    """404."""
    return Problem(404, message, error=error)


def answer(problem: Problem) -> Response:
    """A problem as a response."""
    value: dict[str, Any] = {"error": problem.error, "message": problem.message, "details": problem.details}
    if problem.hint:
        value["hint"] = problem.hint
    headers = {"WWW-Authenticate": 'Bearer realm="gpuctl"'} if problem.status == 401 else {}
    if problem.status in (429, 503):
        headers["Retry-After"] = "1"
    return JSONResponse(masked(value), problem.status, headers)


def problem_of(error: BaseException) -> Problem | None:
    """What an error of gpuctl means to whoever asked; None for what is none of ours."""
    from gpuctl.answers.document_answers import diagnostics_answer

    meaning = meaning_of(error)
    if meaning is None:
        return None
    diagnostics = getattr(error, "diagnostics", None)
    details = diagnostics_answer(diagnostics)["diagnostics"] if diagnostics else _stakes(error)
    message = getattr(error, "message", None) or str(error)
    return Problem(meaning.status, message, error=meaning.name, details=details, hint=getattr(error, "hint", None))


def problem_for(error: Exception, path: str) -> Problem:
    """What any error means to whoever asked for a path, in their words; the log has more of a bug of ours."""
    problem = error if isinstance(error, Problem) else problem_of(error)
    if problem is None:
        return unexpected(error, path)
    from gpuctl.answers.advice import by_service, for_rest, reworded

    words = by_service if _COMMAND_LINE in path else for_rest
    problem.message = words(problem.message)
    problem.hint = None if problem.hint is None else words(problem.hint)
    problem.details = reworded(problem.details, words)
    return problem


def unexpected(error: BaseException, path: str) -> Problem:
    """A bug of ours: the log has what happened, the answer where to find it."""
    LOG.error("internal error", exc_info=error, extra={"path": path})
    text = f"the service failed; its log has more under the request id {request_id()}"
    return Problem(500, text, error="InternalError")


def _stakes(error: BaseException) -> list[dict[str, str]]:
    """What stands against a plan that was refused, or what has to be confirmed of it."""
    plan = getattr(error, "plan", None)
    return [{"message": redact(text)} for text in plan.obstacles or plan.questions] if isinstance(plan, Plan) else []


class Route(APIRoute):
    """A route whose errors, whatever they are, become answers in this form."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def careful(request: Request) -> Response:
            response = await answered(request)
            return as_yaml(response) if wants_yaml(request) else response

        async def answered(request: Request) -> Response:
            try:
                if self.body_field is not None and sends_yaml(request):
                    await _translate(request)
                return await handle(request)
            except NotReadable as error:
                return answer(Problem(400, str(error)))
            except RequestValidationError as error:
                return answer(invalid_query(error))
            except HTTPException as error:
                return answer(Problem(error.status_code, str(error.detail)))
            except Exception as error:
                return answer(problem_for(error, request.url.path))

        return careful


async def _translate(request: Request) -> None:
    """Give a YAML body to a route that takes JSON."""
    value = read_yaml(await request.body())
    try:
        request._body = json.dumps(value).encode()
    except (TypeError, ValueError):
        raise NotReadable("the body has values that JSON has not, such as times: quote them") from None
    request.scope["headers"] = [
        (name, b"application/json" if name == b"content-type" else item) for name, item in request.scope["headers"]
    ]
    request._headers = Headers(scope=request.scope)


def install(app: FastAPI) -> None:
    """Have also that answered in this form which reaches no route."""

    def lost(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        text = "there is nothing at this path" if error.status_code == 404 else str(error.detail)
        return answer(Problem(error.status_code, text))

    app.add_exception_handler(HTTPException, lost)


def invalid_query(error: RequestValidationError | ValidationError) -> Problem:
    """400: what has a wrong form, field by field."""
    details = [{"field": _place(item["loc"]), "message": item["msg"]} for item in error.errors()]
    first = f"{details[0]['field']}: {details[0]['message']}" if details else "the request is invalid"
    return Problem(400, first, error="InvalidRequest", details=details)


def _place(location: Sequence[Any]) -> str:
    where, *path = location
    return ".".join(map(str, path)) or str(where)

"""Errors as answers: ``{"error": name, "message": text, "details": [...]}``, for every kind of error."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope

from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.error_meanings import meaning_of
from gpuctl.apply.plan.plan import Plan
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.language.masking import masked, redact
from gpuctl.language.sentences import Template, clauses, say
from gpuctl.usecases.service.service_client import UNKNOWN_PATH
from gpuctl_server.audit import AuditFailed
from gpuctl_server.http.body_parsing import InvalidBody
from gpuctl_server.http.content_negotiation import REFUSAL, as_yaml, wants_refusal, wants_yaml
from gpuctl_server.http.merged_answers import merge_hidden
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


_REFUSALS = frozenset({400, 403, 404, 409})
"""Statuses of requests that the service has understood and refuses, without a failure."""
_USAGE = "/api/v1/gpu-aggregation/"
"""Prefix of the usage paths, whose answers and errors have a different form."""
_KINDS = {
    400: "Invalid request parameters",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    429: "Too many requests",
    503: "Service unavailable",
}


class Problem(Exception):
    """An error answer: HTTP status, the name that programs compare, a sentence, and details.

    ``more`` has further fields of the answer, such as the plan that was rejected.
    """

    def __init__(
        self, status: int, message: str, *, error: str = "", details: Sequence[Any] = (), hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error = error or _WORDS.get(status, "Error")
        self.message = message
        self.details = list(details)
        self.hint = hint
        self.more: dict[str, Any] = {}


class UnknownPath(Problem):
    """404 for a path that the service does not have. A header distinguishes it from a 404 for a missing object."""

    def __init__(self, hint: str | None = None) -> None:
        super().__init__(404, say("this path does not exist"), hint=hint)


def forbidden(message: str) -> Problem:
    """Return a 403."""
    return Problem(403, message)


def refused_documents(
    status: int, message: str, diagnostics: Iterable[Diagnostic], *, error: str = "", hint: str | None = None
) -> Problem:
    """Return a problem with documents. Its details are diagnostics at the fields that it is about."""
    return Problem(status, message, error=error, details=_diagnostics(diagnostics), hint=hint)


def not_found(message: str, error: str = "NotFound") -> Problem:
    """Return a 404."""
    return Problem(404, message, error=error)


def answer(problem: Problem, path: str = "", *, as_refusal: bool = False) -> Response:
    """Return the response for a problem, in the form of the path.

    :param as_refusal: answer a refusal with status 200.
    """
    value = usage_form(problem) if path.startswith(_USAGE) else _usual(problem)
    if as_refusal and problem.status in _REFUSALS:
        refusal = {"refusal": {"status": problem.status, **value}}
        return JSONResponse(masked(merge_hidden(refusal)), headers={"Preference-Applied": REFUSAL})
    headers = {"WWW-Authenticate": 'Bearer realm="gpuctl"'} if problem.status == 401 else {}
    if problem.status in (429, 503):
        headers["Retry-After"] = "1"
    if isinstance(problem, UnknownPath):
        headers[UNKNOWN_PATH] = "true"
    return JSONResponse(masked(merge_hidden(value)), problem.status, headers)


_OF_A_FIELD = {"field", "message"}


def _usual(problem: Problem) -> dict[str, Any]:
    value: dict[str, Any] = {"error": problem.error, "message": problem.message, "details": problem.details}
    return value | ({"hint": problem.hint} if problem.hint else {}) | problem.more


def usage_form(problem: Problem) -> dict[str, Any]:
    """Return a problem in the form of the usage paths."""
    # The first detail is part of the message.
    others = [f"{item['field']} {item['message']}" for item in problem.details[1:] if set(item) >= _OF_A_FIELD]
    text = clauses(problem.message, *others, problem.hint or "")
    kind = _KINDS.get(problem.status, "Internal server error" if problem.status >= 500 else "Invalid request")
    # 503 has several causes, which clients treat differently.
    reason = {"reason": problem.error} if problem.status == 503 and problem.error != _WORDS[503] else {}
    return {"code": problem.status, "message": kind, "error": text, **reason}


def problem_of(error: BaseException) -> Problem | None:
    """Return the problem for an error of gpuctl; None for any other error."""
    if isinstance(error, AuditFailed):
        return Problem(503, say("nothing is changed: the audit cannot be written: {error}", error=error))
    meaning = meaning_of(error)
    if meaning is None:
        return None
    details = _diagnostics(getattr(error, "diagnostics", None) or ()) or _stakes(error)
    message = getattr(error, "message", None) or str(error)
    return Problem(meaning.status, message, error=meaning.name, details=details, hint=getattr(error, "hint", None))


def problem_for(error: Exception, path: str) -> Problem:
    """Return the problem for any error of a request to a path. Unexpected errors are logged with their traceback."""
    problem = error if isinstance(error, Problem) else problem_of(error)
    if problem is None:
        return unexpected(error, path)
    if isinstance(error, ConnectionFailed):
        # The address of the API server is not for users: only the log has it.
        LOG.warning("the cluster cannot be reached", extra={"path": path, "problem": error.detail})
    return problem


def unexpected(error: BaseException, path: str) -> Problem:
    """Log an unexpected error, and return a 500 that names the request id in the log."""
    LOG.error("internal error", exc_info=error, extra={"path": path})
    text = say(
        "internal error; its cause is in the log of the service, under the request id {request}", request=request_id()
    )
    return Problem(500, text, error="InternalError")


def _diagnostics(found: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    return [DocumentWarning.of(item).as_json() for item in found]


def _stakes(error: BaseException) -> list[dict[str, str]]:
    """Return the obstacles of a rejected plan, or its questions."""
    plan = getattr(error, "plan", None)
    return [{"message": redact(text)} for text in plan.obstacles or plan.questions] if isinstance(plan, Plan) else []


class Route(APIRoute):
    """A route that turns every error into an answer, in the format that the client prefers."""

    is_write: ClassVar[bool] = False

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def careful(request: Request) -> Response:
            response = await answered(request)
            return as_yaml(response) if wants_yaml(request) else response

        async def answered(request: Request) -> Response:
            def told(problem: Problem) -> Response:
                request.state.error = f"{problem.status} {problem.error}"
                # A write keeps its status unless it is known to be a dry run.
                previews = getattr(request.state, "preview", not self.is_write)
                return answer(problem, request.url.path, as_refusal=previews and wants_refusal(request))

            try:
                return await handle(request)
            except InvalidBody as error:
                return told(Problem(400, str(error), error="InvalidRequest"))
            except RequestValidationError as error:
                return told(invalid_query(error))
            except HTTPException as error:
                return told(Problem(error.status_code, str(error.detail)))
            except Exception as error:
                return told(problem_for(error, request.url.path))

        return careful


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Install the error form for requests that match no route."""

    def lost(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        is_unknown = error.status_code == 404
        if error.status_code == 405:
            methods = sorted(_methods(routes, request.scope))
            message = say("the path has no method {method}, but {methods}", method=request.method, methods=methods)
            response = answer(Problem(405, message), request.url.path)
            response.headers["Allow"] = ", ".join(methods)
            return response
        problem = UnknownPath(say("see /api/v1/docs")) if is_unknown else Problem(error.status_code, str(error.detail))
        return answer(problem, request.url.path)

    app.add_exception_handler(HTTPException, lost)


def _methods(routes: Iterable[BaseRoute], scope: Scope) -> set[str]:
    """Return the methods of a path. Each method is a route of its own."""
    return {
        method
        for route in routes
        if isinstance(route, APIRoute) and route.matches(scope)[0] != Match.NONE
        for method in route.methods or ()
        for method in ((method, "HEAD") if method == "GET" else (method,))
    }


_FIELDS = {
    "query": Template("the query parameter {name} {problem}"),
    "path": Template("the part of the path {name} {problem}"),
    "body": Template("the field {name} {problem}"),
}
_SAID = {
    "missing": Template("is required"),
    "extra_forbidden": Template("is unknown"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), Template("must be a whole number")),
    **dict.fromkeys(("float_parsing", "float_type", "finite_number"), Template("must be a number")),
    **dict.fromkeys(("bool_parsing", "bool_type"), Template("must be `true` or `false`")),
    "string_type": Template("must be text"),
    "list_type": Template("must be a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), Template("must be an object")),
    **dict.fromkeys(("literal_error", "enum"), Template("must be one of {expected}")),
    "greater_than": Template("must be greater than {gt}"),
    "greater_than_equal": Template("must be at least {ge}"),
    "less_than": Template("must be less than {lt}"),
    "less_than_equal": Template("must be at most {le}"),
    "string_too_short": Template("must have at least {min_length:character}"),
    "string_too_long": Template("must have at most {max_length:character}"),
    "too_short": Template("must have at least {min_length:item}"),
    "too_long": Template("must have at most {max_length:item}"),
    "string_pattern_mismatch": Template("does not match the pattern `{pattern}`"),
}
"""Replacements for pydantic's messages, with the values of its errors."""


def invalid_query(error: RequestValidationError | ValidationError) -> Problem:
    """Return a 400 with the invalid fields."""
    found = error.errors()
    details = [{"field": _place(item["loc"]), "message": _said(item)} for item in found]
    first = say(_form(found[0]["loc"]), name=details[0]["field"], problem=details[0]["message"]) if found else ""
    return Problem(400, first or say("the request is invalid"), error="InvalidRequest", details=details)


def _said(item: Mapping[str, Any]) -> str:
    if item["type"] in _SAID:
        values = item.get("ctx", {})
        if "expected" in values:
            # Pydantic's list is a text: 'a', 'b' or 'c'.
            values = {"expected": [f"`{literal}`" for literal in re.findall(r"'([^']*)'", values["expected"])]}
        return say(_SAID[item["type"]], **{name: _plain(value) for name, value in values.items()})
    if item["type"] == "value_error":
        return say("is invalid: {error}", error=item["ctx"]["error"])
    text: str = item["msg"]
    return say("is invalid: {error}", error=f"{text[:1].lower()}{text[1:]}")


def _plain(value: object) -> object:
    """Return a bound without a needless fraction: 1.0 is 1."""
    return f"{value:g}" if isinstance(value, float) else value


def _form(location: Sequence[Any]) -> str:
    where = location[0] if len(location) > 1 else None
    return _FIELDS.get(str(where), Template("the {name} {problem}"))


def _place(location: Sequence[Any]) -> str:
    where, *path = location
    return ".".join(map(str, path)) or str(where)

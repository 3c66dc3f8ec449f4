"""Rights and answers of requests about usage.

Answers are ``{"code", "message", "data"}``, errors ``{"code", "message", "error"}``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.responses import Response

from gpuctl.api.usage_models import UsageProblem
from gpuctl_server.access.caller import Caller
from gpuctl_server.http.content_negotiation import JSON
from gpuctl_server.http.http_problems import Problem, Route, usage_form
from gpuctl_server.http.openapi_document import ALWAYS, PROBLEMS, example_of
from gpuctl_server.lookups.usage_lookups import require_all_pools, usage_answer
from gpuctl_server.routes.dependencies import allowed
from gpuctl_server.routes.query_parameters import names_in
from gpuctl_server.routes.routers import BASE
from gpuctl_server.routes.usage_parameters import HourlyQuery
from gpuctl_server.service_context import Service
from gpuctl_usage.answers.hourly_answers import HoursQuery, RowsOrPage
from gpuctl_usage.answers.rows_as_csv import as_csv
from gpuctl_usage.store.database import Database

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {
        "model": UsageProblem,
        "description": PROBLEMS[status],
        "content": {"application/json": {"example": usage_form(Problem(status, example_of(status)["message"]))}},
    }
    for status in (*(status for status in ALWAYS if status != 431), 404)
}
Reads = Annotated[Caller, Depends(allowed("get", "metrics"))]


async def _of_all_pools(caller: Reads) -> Caller:
    require_all_pools(caller)
    return caller


ReadsUsage = Annotated[Caller, Depends(_of_all_pools)]


def usage_router() -> APIRouter:
    """Return a router for paths below ``/gpu-aggregation``."""
    return APIRouter(prefix=f"{BASE}/gpu-aggregation", route_class=Route, responses=_PROBLEMS)


def usage_success(value: Any, note: str = "") -> Response:
    """Return an answer; ``note`` replaces the message `success`."""
    # For thousands of rows, the module `json` would need ten times as long to write the numbers.
    return Response(orjson.dumps({"code": 200, "message": note or "success", "data": value}), media_type=JSON)


def usage_rows(
    service: Service,
    caller: Caller,
    query: HourlyQuery,
    row: type[BaseModel],
    ask: Callable[[Database, HoursQuery], RowsOrPage],
) -> Response:
    """Return rows as JSON or CSV."""
    hours = query.hours
    found = usage_answer(
        service, caller, hours.cluster, lambda database, cluster: ask(database, replace(hours, cluster=cluster))
    )
    if not query.as_csv:
        return usage_success(found)
    rows = found if isinstance(found, list) else found["data"]
    return Response(as_csv(list(row.model_fields), rows), media_type="text/csv; charset=utf-8")


def rows_response(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the description of an answer that is JSON or CSV."""
    return {200: {"model": model, "content": {"text/csv": {"schema": {"type": "string"}}}}}


def json_response(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the description of an answer."""
    return {200: {"model": model}}


def limited_query(query: HourlyQuery, seen: frozenset[str] | None, excluded: str = "") -> HourlyQuery:
    """Return a query limited to the visible namespaces, without the excluded ones."""
    return query._replace(hours=replace(query.hours, namespaces=seen, excluded=names_in(excluded)))

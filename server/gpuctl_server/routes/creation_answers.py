"""Answers of routes that create something."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from starlette.responses import JSONResponse

from gpuctl_server.routes.routers import BASE


def dry_run_response(model: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """Return the additional answer of a creation for the OpenAPI document: 200 after a dry run."""
    return {200: {"model": model, "description": "Validated: dryRun was true."}}


def creation_response(value: BaseModel, location: str | None, *, is_checked: bool) -> JSONResponse:
    """Return the answer of a creation: 201 with the path of the new object, or 200 after a dry run."""
    headers = {} if location is None or is_checked else {"Location": f"{BASE}{location}"}
    return JSONResponse(value.model_dump(exclude_unset=True, by_alias=True), 200 if is_checked else 201, headers)

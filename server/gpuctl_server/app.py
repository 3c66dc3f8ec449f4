"""The ASGI application: routes, middleware and the OpenAPI document."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Lifespan

from gpuctl.release import __version__
from gpuctl_server.http import http_problems
from gpuctl_server.http.openapi_document import as_3_0, table_of_problems
from gpuctl_server.http.openapi_operations import described, operation_id
from gpuctl_server.http.request_middleware import RequestMiddleware
from gpuctl_server.routes import (
    audit_routes,
    auth_routes,
    console_routes,
    docs_routes,
    document_change_routes,
    fit_routes,
    gpu_aggregation_routes,
    health_routes,
    job_change_routes,
    job_question_routes,
    job_routes,
    label_routes,
    log_routes,
    metric_routes,
    namespace_routes,
    node_routes,
    pod_routes,
    pool_change_routes,
    pool_routes,
    queue_routes,
    quota_change_routes,
    quota_routes,
    recovery_routes,
    usage_ledger_routes,
)
from gpuctl_server.service_context import Service

DESCRIPTION = """\
Jobs on the GPUs of a Kubernetes cluster. Bodies and answers are JSON; documents may be sent, and answers requested, as
`application/yaml`. Every request needs `Authorization: Bearer TOKEN`. Errors have the form
`{{"error": name, "message": text, "details": [...]}}`, with these statuses:

{table}

`error` is for programs, `message` and `hint` are for users. Answers with 429 and 503 have `Retry-After`, those with 405
have `Allow`.

With the header `Prefer: refusal=answer`, a read or dry run that is refused with 400, 403, 404 or 409 is answered with
200 and `{{"refusal": {{"status": 409, "error": name, ...}}}}`: a browser does not report it as a failed request."""
ROUTERS: tuple[APIRouter, ...] = (
    job_routes.router,
    pod_routes.router,
    job_question_routes.router,
    document_change_routes.router,
    document_change_routes.previews,
    job_change_routes.router,
    recovery_routes.router,
    recovery_routes.previews,
    log_routes.router,
    metric_routes.router,
    pool_routes.router,
    # Before the node routes: `/nodes/labels` would match `/nodes/{nodeName}`.
    label_routes.router,
    label_routes.writes,
    node_routes.router,
    quota_routes.router,
    queue_routes.router,
    pool_change_routes.router,
    quota_change_routes.router,
    namespace_routes.router,
    fit_routes.router,
    auth_routes.router,
    audit_routes.router,
    gpu_aggregation_routes.router,
    usage_ledger_routes.router,
    docs_routes.router,
    health_routes.router,
    console_routes.router,
)


def create_app(service: Service) -> FastAPI:
    """Return the application of a service. The service starts and stops with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = bare_app(lifespan)
    app.state.service = service
    http_problems.install(app, [route for router in ROUTERS for route in router.routes])
    if service.settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.cors,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key"),
        )
    app.add_middleware(RequestMiddleware, settings=service.settings, metrics=service.metrics, sessions=service.sessions)
    return app


def bare_app(lifespan: Lifespan[FastAPI] | None = None) -> Application:
    """Return an application without a service, for its OpenAPI document."""
    app = Application(
        title="gpuctl",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
        generate_unique_id_function=operation_id,
    )
    for router in ROUTERS:
        app.include_router(router)
    return app


class Application(FastAPI):
    """A FastAPI application whose OpenAPI document has version 3.0, which most tools support."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = described(as_3_0(super().openapi()))
            self.openapi_schema["info"]["description"] = DESCRIPTION.format(table=table_of_problems())
            self.openapi_schema["info"]["license"] = {"name": "MIT", "url": "https://opensource.org/license/mit"}
        return self.openapi_schema

"""The application: routes, and what stands before all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Lifespan

from gpuctl.release import __version__
from gpuctl_server import problems
from gpuctl_server.gate import Gate
from gpuctl_server.openapi import as_3_0, table_of_problems
from gpuctl_server.operations import described, operation_id
from gpuctl_server.routes import (
    audit_log,
    auth,
    docs,
    document_changes,
    fit,
    gpu_aggregation,
    health,
    job_changes,
    job_questions,
    jobs,
    labels,
    logs,
    metrics,
    namespaces,
    nodes,
    pods,
    pool_changes,
    pools,
    quota_changes,
    quotas,
)
from gpuctl_server.service import Service

DESCRIPTION = """\
Jobs on the GPUs of a Kubernetes cluster. Bodies and answers are JSON, or YAML as `application/yaml`. Every request
needs `Authorization: Bearer TOKEN`. Errors are
`{{"error": name, "message": text, "details": [...]}}`, with these statuses:

{table}

Programs compare `error`; `message` and `hint` are for people. 429 and 503 come with `Retry-After`. A method that a path
does not have is answered with 405 and `Allow`."""
ROUTERS: tuple[APIRouter, ...] = (
    jobs.router,
    pods.router,
    job_questions.router,
    document_changes.router,
    document_changes.previews,
    job_changes.router,
    job_changes.previews,
    logs.router,
    metrics.router,
    pools.router,
    # Labels have paths that would be names of nodes.
    labels.router,
    labels.writes,
    nodes.router,
    quotas.router,
    pool_changes.router,
    quota_changes.router,
    namespaces.router,
    fit.router,
    auth.router,
    audit_log.router,
    gpu_aggregation.router,
    docs.router,
    health.router,
)


def create_app(service: Service) -> FastAPI:
    """The application of a service, which starts and ends with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = bare_app(lifespan)
    app.state.service = service
    problems.install(app, [route for router in ROUTERS for route in router.routes])
    if service.settings.cors:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.settings.cors,
            allow_methods=("GET", "POST", "PUT", "DELETE"),
            allow_headers=("Authorization", "Content-Type", "Idempotency-Key"),
        )
    app.add_middleware(Gate, settings=service.settings, measures=service.measures)
    return app


def bare_app(lifespan: Lifespan[FastAPI] | None = None) -> Application:
    """The routes of an application, without a service: its document can be had of it, and nothing else."""
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
    """Documents itself in the version that most tools know."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document."""
        if self.openapi_schema is None:
            self.openapi_schema = described(as_3_0(super().openapi()))
            self.openapi_schema["info"]["description"] = DESCRIPTION.format(table=table_of_problems())
            self.openapi_schema["info"]["license"] = {"name": "MIT", "url": "https://opensource.org/license/mit"}
        return self.openapi_schema

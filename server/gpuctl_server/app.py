"""The application: routes, and what stands before all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from gpuctl.release import __version__
from gpuctl_server import problems
from gpuctl_server.gate import Gate
from gpuctl_server.routes import auth, fit, health, job_questions, jobs, namespaces
from gpuctl_server.service import Service

BASE = "/api/v1"
ROUTERS: tuple[APIRouter, ...] = (
    jobs.router,
    job_questions.router,
    fit.router,
    namespaces.router,
    auth.router,
)


def create_app(service: Service) -> FastAPI:
    """The application of a service, which starts and ends with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        service.stop()

    app = FastAPI(
        title="gpuctl",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    problems.install(app)
    app.include_router(health.router)
    for router in ROUTERS:
        app.include_router(router, prefix=BASE)
    app.add_middleware(Gate, settings=service.settings)
    return app

"""``/jobs``, reads: the list of jobs and single jobs, from memory, without requests to the API server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import anyio.to_thread
from fastapi import Depends, Query
from starlette.responses import Response

from gpuctl.api.job_detail_answers import JobDescription, JobMetrics, job_description
from gpuctl.api.job_list_answers import JobPage, job_item
from gpuctl.reading.jobs.job_facts import read_facts
from gpuctl.reading.jobs.job_rows import JobFilter, JobTableRow
from gpuctl.reading.jobs.schedule_status import run_times
from gpuctl.reading.jobs.status import PHASES, WORDS, Status
from gpuctl_server.access.caller import Caller
from gpuctl_server.access.rights import AccessRequest
from gpuctl_server.http.content_negotiation import JSON
from gpuctl_server.limits.response_cache import encode
from gpuctl_server.lookups.job_lookups import (
    board_of,
    check_rights,
    find_job,
    require_access,
    require_visible_namespace,
    visible_jobs,
)
from gpuctl_server.lookups.job_metrics import job_metrics
from gpuctl_server.lookups.node_lookups import gpu_type_of
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import (
    JobId,
    KindFilter,
    NamespaceFilter,
    NamespaceOfJob,
    Page,
    PageSize,
    PoolFilter,
    page_of,
    unknown_value,
)
from gpuctl_server.routes.routers import cached_router
from gpuctl_server.service_context import Service

router = cached_router()
Reads = Annotated[Caller, Depends(allowed("get", "jobs"))]
StatusFilter = Annotated[
    str, Query(max_length=253, description="Only jobs with this phase or status word, case-insensitive.")
]
Sort = Literal["newest", "oldest", "gpu"]


@router.get("/jobs", response_model=JobPage)
async def list_of_jobs(
    service: ServiceOf,
    caller: Reads,
    kind: KindFilter = "",
    pool: PoolFilter = "",
    status: StatusFilter = "",
    namespace: NamespaceFilter = "",
    name: Annotated[
        str, Query(max_length=253, description="Only jobs with this id or name, or with a pod of this name.")
    ] = "",
    sort: Annotated[Sort, Query(description="Order of the jobs; `gpu`: those with the most GPUs first.")] = "newest",
    page: Page = 1,
    pageSize: PageSize = 20,  # noqa: N803 - as the query has it
) -> Response:
    """List the visible jobs."""
    await check_rights(
        caller, lambda: require_access(caller, AccessRequest("get", "jobs", namespace or None, pool or None))
    )
    board = board_of(service)
    seen = await visible_jobs(caller, board)
    if seen.namespaces == frozenset() and not namespace:
        await require_visible_namespace(service, caller)
    _check_status(status, (item.row for item in board.jobs if seen.takes(item)))
    question = ("jobs", seen, kind, pool, status, namespace, name, sort, page, pageSize)
    version = service.cache_version()
    body = service.response_cache.find(question, version)
    if body is None:
        wanted = JobFilter(pool, kind, status)
        found = [
            item
            for item in (board.called(name) if name else board.jobs)
            if seen.takes(item) and namespace in ("", item.row.identity.namespace) and wanted.matches(item.row)
        ]
        if sort == "oldest":
            found.reverse()
        elif sort == "gpu":
            found.sort(key=lambda item: -item.row.gpu)
        items = [
            job_item(
                item.id,
                item.row_for_request(service.keys, service.clock_ahead),
                service.progress.of(item),
                gpu_type_of(service, item),
            )
            for item in page_of(found, page, pageSize)
        ]
        body = encode(JobPage(total=len(found), items=items).as_json())
        service.response_cache.keep(question, version, body)
    return Response(body, media_type=JSON)


def _check_status(status: str, rows: Iterable[JobTableRow]) -> None:
    """Check the filter by status. A status word of Kubernetes is valid if a job has it.

    :raises Problem: 400.
    """
    known = any(Status(word, "").matches(status) for word in (*PHASES, *WORDS))
    if status and not known and not any(row.state.matches(status) for row in rows):
        raise unknown_value("status", status, PHASES)


@router.get("/jobs/{jobId}", response_model=JobDescription)
async def description_of_job(
    service: ServiceOf,
    caller: Reads,
    job: JobId,
    namespace: NamespaceOfJob = None,
) -> Response:
    """Return a job, with its document and its pods."""
    item = await check_rights(caller, lambda: find_job(service, caller, "get", "jobs", job, namespace))
    metrics = await _metrics(service, item)
    question = ("job", item.id)
    # Everything else that the answer is made from. A change of any of it makes another stamp.
    gpu_type = gpu_type_of(service, item)
    next_run = None if item.schedule is None else run_times(item.schedule, service.server_time()).next
    state = item.row_for_request(service.keys, service.clock_ahead).state
    changes = service.mirror.changes_of("Service", "HorizontalPodAutoscaler")
    stamp = (item, changes, metrics, gpu_type, next_run, state)
    body = service.response_cache.find(question, stamp)
    if body is None:
        body = await anyio.to_thread.run_sync(_described, service, item, metrics, gpu_type, limiter=service.reads)
        service.response_cache.keep(question, stamp, body)
    return Response(body, media_type=JSON)


async def _metrics(service: Service, item: ListedJob) -> JobMetrics:
    """Return the current metrics of a job; null where not measured."""
    if service.prometheus is None:
        return job_metrics(service, item)
    return await anyio.to_thread.run_sync(job_metrics, service, item, limiter=service.reads)


def _described(service: Service, item: ListedJob, metrics: JobMetrics, gpu_type: str | None) -> bytes:
    # The right to see the job was checked before.
    with service.read_context(None) as reader:
        facts = read_facts(reader.scope, item.job, reader.keys, reader.settings)
    return encode(job_description(item.id, facts, metrics, gpu_type).as_json())

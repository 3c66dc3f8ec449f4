"""``/jobs``: which there are, and all about one."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query

from gpuctl.reading.job_rows import JobFilter
from gpuctl_server.access.caller import Caller
from gpuctl_server.job_values import JobPage, job_item
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.routes.common import Page, PageSize, ServiceOf, allowed, api_router, paged

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "jobs"))]
Filter = Annotated[str, Query(max_length=253)]


@router.get("/jobs", response_model=JobPage)
async def list_of_jobs(
    service: ServiceOf,
    caller: Reads,
    kind: Filter = "",
    pool: Filter = "",
    status: Filter = "",
    namespace: Filter = "",
    page: Page = 1,
    pageSize: PageSize = 20,  # noqa: N803 - as the query has it
) -> dict[str, Any]:
    """The jobs that may be seen, the newest first."""
    wanted = JobFilter(pool, kind, status)

    def takes(item: ListedJob) -> bool:
        where = item.row.identity.namespace
        return caller.sees(where) and namespace in ("", where) and wanted.takes(item.row)

    return paged([item for item in service.board.now().jobs if takes(item)], page, pageSize, job_item)

"""``/jobs/{jobId}/metrics``: what is measured of a job, over time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Query
from starlette.responses import JSONResponse

from gpuctl_server.access.caller import Caller
from gpuctl_server.job_lookups import find_job
from gpuctl_server.job_metrics import MetricPoint, metrics_over_time
from gpuctl_server.routes.common import ServiceOf, allowed, api_router, time_of

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "metrics"))]
JobId = Annotated[
    str, Path(alias="jobId", max_length=253, description="A job's id, its name, or the name of one of its pods.")
]
_METRIC = (
    "Of this metric alone: gpuUtilization (percent), memoryUsage (GiB of a GPU), throughput, or another that is set."
)
_EXAMPLE = {
    "gpuUtilization": [{"timestamp": "2024-06-01T10:05:00Z", "value": 75.2}],
    "memoryUsage": [{"timestamp": "2024-06-01T10:05:00Z", "value": 65}],
}
_SERIES: dict[int | str, dict[str, Any]] = {200: {"content": {"application/json": {"example": _EXAMPLE}}}}


@router.get("/jobs/{jobId}/metrics", response_model=dict[str, list[MetricPoint]], responses=_SERIES)
def metrics(
    service: ServiceOf,
    caller: Reads,
    job: JobId,
    metric: Annotated[str, Query(max_length=63, description=_METRIC)] = "",
    start: Annotated[
        str, Query(alias="startTime", max_length=64, description="From when on, RFC 3339. Default: the job's start.")
    ] = "",
    end: Annotated[str, Query(alias="endTime", max_length=64, description="Until when. Default: now.")] = "",
    namespace: Annotated[str | None, Query(max_length=63, description="Where the job has to be.")] = None,
) -> Any:
    """What is measured of a job over time, at most 500 points of each metric."""
    item = find_job(service, caller, "get", "metrics", job, namespace)
    first, last = time_of("startTime", start), time_of("endTime", end)
    return JSONResponse(metrics_over_time(service, item, [metric] if metric else [], first, last))

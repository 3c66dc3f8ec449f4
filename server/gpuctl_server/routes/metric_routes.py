"""``/jobs/{jobId}/metrics``: the metrics of a job over time."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Query
from starlette.responses import JSONResponse

from gpuctl.api.job_detail_answers import MetricPoint
from gpuctl_server.access.caller import Caller
from gpuctl_server.lookups.job_lookups import find_job
from gpuctl_server.lookups.job_metrics import metrics_over_time
from gpuctl_server.routes.dependencies import ServiceOf, allowed
from gpuctl_server.routes.query_parameters import JobId, NamespaceOfJob, time_of
from gpuctl_server.routes.routers import api_router

router = api_router()
Reads = Annotated[Caller, Depends(allowed("get", "metrics"))]
_METRIC = (
    "Only this metric: gpuUtilization (percent), memoryUsage (GiB per GPU), throughput, or another of the settings."
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
        str, Query(alias="startTime", max_length=64, description="Start, RFC 3339. Default: the start of the job.")
    ] = "",
    end: Annotated[str, Query(alias="endTime", max_length=64, description="End, RFC 3339. Default: now.")] = "",
    namespace: NamespaceOfJob = None,
) -> Any:
    """Return the metrics of a job over time, at most 500 points each."""
    item = find_job(service, caller, "get", "metrics", job, namespace)
    first, last = time_of("startTime", start), time_of("endTime", end)
    return JSONResponse(metrics_over_time(service, item, [metric] if metric else [], first, last))

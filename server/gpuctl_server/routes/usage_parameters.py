"""Parameters that all requests about usage have in common: cluster, time range, step, paging, format."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import Depends, Query

from gpuctl.api.base_models import LEGAL_NAMESPACE
from gpuctl.language.sentences import clauses, say
from gpuctl.objects.durations import DAY, HOUR
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.routes.dependencies import ServiceOf
from gpuctl_server.routes.query_parameters import LARGEST_PAGE, time_of
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.query_scope import Cursor, Paging
from gpuctl_usage.answers.steps import StepUnit

_MOST_HOURS = 10 * 366 * 24
_FIRST, _LAST = (
    moment.replace(microsecond=0, tzinfo=timezone.utc).timestamp() for moment in (datetime.min, datetime.max)
)
Cluster = Annotated[
    str,
    Query(
        max_length=300,
        description="Name of a cluster. Default: the cluster of this service. Other clusters are only for callers who "
        "see all namespaces and pools.",
    ),
]
Page = Annotated[
    int | None, Query(ge=1, le=2**31, description="Page number, from 1. Without it, the answer has no pages.")
]
PageSize = Annotated[int | None, Query(ge=1, le=LARGEST_PAGE, description="Rows per page. Default: 20.")]
Namespace = Annotated[
    str, Query(max_length=63, description="Namespace. Default: all visible namespaces."), LEGAL_NAMESPACE
]
Since = Annotated[
    str, Query(max_length=64, description="Start, inclusive, RFC 3339. Default: 24 hours before the end.")
]
Until = Annotated[str, Query(max_length=64, description="End, exclusive, RFC 3339. Default: now.")]
Dimension = Annotated[Literal["label", "annotation"], Query(description="Kind of the dimension.")]
Key = Annotated[
    str, Query(min_length=1, max_length=317, description="Key of the label or annotation.", examples=["team"])
]
Excluded = Annotated[
    str,
    Query(
        max_length=8192,
        description="Namespaces to leave out, separated by commas.",
        examples=["ml-inference,ml-test"],
    ),
]
Idle = Annotated[
    bool,
    Query(
        description="Include rows of zero for those that held GPUs within the retention period, but not in this step.",
    ),
]
OrderBy = Annotated[
    Literal["time", "utilization", "allocated_gpu_count"], Query(description="Sort key; unknown values are last.")
]
OrderDirection = Annotated[Literal["asc", "desc"], Query(description="Ascending or descending.")]


class HourlyQuery(NamedTuple):
    """The common parameters of a request.

    :param as_csv: return rows as CSV.
    """

    hours: HoursQuery
    as_csv: bool


def paging_of(page: int | None, size: int | None) -> Paging | None:
    """Return the requested page; None without one."""
    return Paging(page or 1, size or 20) if page is not None or size is not None else None


def seconds_of(field: str, text: str, default: float) -> float:
    """Parse a time parameter, seconds since 1970. Return ``default`` if it is empty.

    :raises Problem: 400.
    """
    found = time_of(field, text)
    return default if found is None else found.timestamp()


def hours_between(cluster: str, start: float, end: float, paging: Paging | Cursor | None, **more: Any) -> HoursQuery:
    """Return the selection of hours of a time range, within the years 1 to 9999.

    :raises Problem: 400 if the range is empty.
    """
    # A default of one may be beyond: a day before the other, or many hours after it.
    start, end = max(start, _FIRST), min(end, _LAST)
    if start >= end:
        raise Problem(400, say("start_time must be before end_time"), error="InvalidRequest")
    return HoursQuery(cluster, start, end, paging=paging, **more)


def hours_up_to(now: float, cluster: str, start_time: str, end_time: str, paging: Paging | None = None) -> HoursQuery:
    """Return the selection of hours up to a time, by default until now, and of the 24 hours before it.

    :param now: by the clock of the API server, as the times of the records.
    :raises Problem: 400.
    """
    end = seconds_of("end_time", end_time, now)
    return hours_between(cluster, seconds_of("start_time", start_time, end - DAY), end, paging)


def _times(now: float, start_time: str, end_time: str, hours: int | None) -> tuple[float, float]:
    missing = [name for name, text in (("start_time", start_time), ("end_time", end_time)) if not text]
    if hours is None and missing:
        wanted = clauses(*(say("{name} is required", name=name) for name in missing))
        raise Problem(400, say("the query parameter {wanted}", wanted=wanted), error="InvalidRequest")
    if hours is not None and not missing:
        raise Problem(400, say("hours: leave start_time or end_time out"), error="InvalidRequest")
    length = (hours or 0) * HOUR
    if start_time:
        start = seconds_of("start_time", start_time, 0)
        return start, seconds_of("end_time", end_time, start + length)
    end = seconds_of("end_time", end_time, (now // HOUR + 1) * HOUR)
    return end - length, end


def _hourly_query(
    service: ServiceOf,
    cluster: Cluster = "",
    start_time: Annotated[
        str,
        Query(
            max_length=64,
            description="Start, inclusive, RFC 3339. Required without `hours`.",
            examples=["2025-11-05T00:00:00Z"],
        ),
    ] = "",
    end_time: Annotated[
        str,
        Query(
            max_length=64,
            description="End, exclusive, RFC 3339. Required without `hours`.",
            examples=["2025-11-06T00:00:00Z"],
        ),
    ] = "",
    hours: Annotated[
        int | None,
        Query(
            ge=1,
            le=_MOST_HOURS,
            description="Number of hours: from start_time, or up to end_time, or up to and including the current hour.",
        ),
    ] = None,
    step: Annotated[
        Literal["hour", "day", "week", "month", "total"],
        Query(
            description="Length of the step of a row. Weeks begin on Monday; `total` is one row for the whole range."
        ),
    ] = "hour",
    tz: Annotated[
        str,
        Query(
            max_length=64,
            description="Time zone of days, weeks and months. Default: UTC.",
            examples=["Asia/Shanghai"],
        ),
    ] = "",
    page: Page = None,
    page_size: PageSize = None,
    cursor: Annotated[
        str | None,
        Query(
            max_length=8192,
            description="Instead of `page`: empty for the first rows, then the `next_cursor` of the previous answer. "
            "New rows do not shift the others.",
        ),
    ] = None,
    format: Annotated[Literal["json", "csv"], Query(description="`csv`: rows only, with a header.")] = "json",
) -> HourlyQuery:
    start, end = _times(service.server_time(), start_time, end_time, hours)
    paging: Paging | Cursor | None = paging_of(page, page_size)
    if cursor is not None:
        if page is not None:
            raise Problem(400, say("cursor: leave page out"), error="InvalidRequest")
        paging = Cursor(cursor, page_size or 20)
    return HourlyQuery(hours_between(cluster, start, end, paging, step=StepUnit(step), tz=tz), format == "csv")


HourlyQueryParameters = Annotated[HourlyQuery, Depends(_hourly_query)]

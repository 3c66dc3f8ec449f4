"""Metrics of jobs from Prometheus: series, and current values."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from datetime import datetime
from fractions import Fraction
from typing import Any

from gpuctl.api.job_detail_answers import JobMetrics
from gpuctl.api.json_values import rounded
from gpuctl.language.sentences import say
from gpuctl.objects.quantities import format_number
from gpuctl.objects.timestamps import format_timestamp
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.time_parameters import parse_time
from gpuctl_server.metric_queries import DEFAULTS, NO_SERIES, MetricQuery
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.service_context import Service
from gpuctl_usage.prometheus import Prometheus, PrometheusProblem, Series

MOST_POINTS = 500
_SHORTEST_STEP = 15
_PATIENCE = 15.0
"""Time limit for the series of a job, seconds."""
_SOON = 2.0
"""Time limit for current values that are only a part of an answer, seconds."""
_IN_DETAIL = ("gpuUtilization", "memoryUsage", "networkLatency", "throughput")


def metric_queries(service: Service) -> Mapping[str, MetricQuery]:
    """Return the queries: the defaults, with those of the settings."""
    return {**DEFAULTS, **service.settings.metrics}


def metrics_over_time(
    service: Service, item: ListedJob, names: Collection[str], start: datetime | None, end: datetime | None
) -> dict[str, list[dict[str, Any]]]:
    """Return the series of a job, at most :data:`MOST_POINTS` points each.

    :param names: the metrics; empty: all that have a query.
    :param start: None: the start of the job. ``end``: None: now.
    :raises Problem: 400 for an unknown metric or an invalid time range; 503 without Prometheus.
    """
    queries = metric_queries(service)
    known = [name for name in queries if name not in NO_SERIES]
    if unknown := [name for name in names if name not in known]:
        raise _invalid(say("metric: `{name}` is unknown; known are {known}", name=unknown[0][:80], known=sorted(known)))
    wanted = names or [name for name in known if queries[name].query]
    first, last = _range(item, start, end, int(service.server_time()))
    prometheus = service.prometheus
    if prometheus is None:
        raise Problem(
            503, say("metrics come from Prometheus: set `prometheus` (GPUCTL_SERVER_PROMETHEUS) to its address")
        )
    step = max(_SHORTEST_STEP, math.ceil((last - first) / (MOST_POINTS - 1)))
    deadline = time.monotonic() + _PATIENCE
    values = _names(item)
    found = {}
    for name in wanted:
        try:
            found[name] = _points(_over_time(prometheus, queries[name], values, (first, last, step), deadline))
        except PrometheusProblem as error:
            raise Problem(503, f"{name}: {error}") from None
    return found


def job_metrics(service: Service, item: ListedJob) -> JobMetrics:
    """Return current metrics of a job, within a time limit. They may be some seconds old."""
    prometheus = service.prometheus
    if prometheus is None or item.row.state.phase != "running":
        return JobMetrics()
    queries, values = metric_queries(service), _names(item)
    deadline = time.monotonic() + _SOON
    now = {name: _now(prometheus, queries[name], values, deadline) for name in (*_IN_DETAIL, "memoryTotal")}
    return JobMetrics(
        gpu_utilization=rounded(now["gpuUtilization"]),
        memory_usage=memory_text(now["memoryUsage"], now["memoryTotal"]),
        network_latency=_formatted(queries["networkLatency"], now["networkLatency"]),
        throughput=_formatted(queries["throughput"], now["throughput"]),
    )


def memory_text(used: float | None, total: float | None) -> str | None:
    """Return GPU memory in GiB, as the product specification formats it: ``72Gi/80Gi``."""
    if used is None:
        return None
    return f"{used:.0f}Gi" + ("" if total is None else f"/{total:.0f}Gi")


def _names(item: ListedJob) -> dict[str, str | list[str]]:
    pods = [str(pod["metadata"]["name"]) for pod in item.job.pods]
    return {"namespace": item.row.identity.namespace, "job": item.row.identity.name, "pods": pods, "nodes": []}


def _range(item: ListedJob, start: datetime | None, end: datetime | None, now: int) -> tuple[int, int]:
    last = now if end is None else int(end.timestamp())
    begun = item.row.started_at or item.row.created_at
    first = int(start.timestamp()) if start is not None else int(parse_time(begun).timestamp()) if begun else last
    if first > last:
        if start is not None:
            raise _invalid(
                say(
                    "startTime {first} is after endTime {last}",
                    first=format_timestamp(first),
                    last=format_timestamp(last),
                )
            )
        # The end of the range is before the start of the job.
        first = last
    # There are no values of the future.
    return first, max(first, min(last, now))


def _over_time(
    prometheus: Prometheus,
    query: MetricQuery,
    values: Mapping[str, str | list[str]],
    times: tuple[int, int, int],
    deadline: float,
) -> list[Series]:
    if not query.query or not values["pods"]:
        return []
    found = prometheus.query_range(query.filled(values), *times, max(0.1, deadline - time.monotonic()))
    if len(found) > 1:
        raise PrometheusProblem(
            say("its query returns {number} series; it must return one, as with avg(...)", number=len(found))
        )
    return found


def _points(found: list[Series]) -> list[dict[str, Any]]:
    return [
        {"timestamp": format_timestamp(sample.time), "value": rounded(sample.value)}
        for series in found
        for sample in series.samples
    ]


def _now(
    prometheus: Prometheus, query: MetricQuery, values: Mapping[str, str | list[str]], deadline: float
) -> float | None:
    left = deadline - time.monotonic()
    if not query.query or not values["pods"] or left <= 0:
        return None
    try:
        found = prometheus.query(query.filled(values), left)
    except PrometheusProblem:
        return None
    return found[0].samples[-1].value if len(found) == 1 and found[0].samples else None


def _formatted(query: MetricQuery, value: float | None) -> str | None:
    return None if value is None else query.text.replace("{value}", format_number(Fraction(value)))


def _invalid(message: str) -> Problem:
    return Problem(400, message, error="InvalidRequest")

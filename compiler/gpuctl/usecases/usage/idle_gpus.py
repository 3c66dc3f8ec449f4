"""Workloads that hold idle GPUs, and how to free them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.settings import Settings
from gpuctl.reading.jobs.job_objects import read_jobs_without_pods
from gpuctl.reading.jobs.pausable_jobs import pausable_jobs
from gpuctl.reading.usage.gpu_time import GpuHolder, answered_number, answered_text
from gpuctl.reading.usage.usage_records import IdleGpuReport, IdleHolder, UsageRange
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.usage.usage_backends import UsageBackend


def idle_gpus(backend: UsageBackend, asked: UsageRange, below: float, settings: Settings) -> IdleGpuReport:
    """Return the workloads that hold idle GPUs now, those with the most idle GPU time first.

    :param below: utilization under which an hour counts as idle, percent.
    :param settings: settings of the platform, for its prices; a service uses its own.
    :raises ClusterError: the query failed.
    """
    value = backend.waste(asked, below, settings)
    try:
        return IdleGpuReport(
            cluster=answered_text(value["cluster"]),
            start=answered_text(value["start_time"]),
            end=answered_text(value["end_time"]),
            known_until=answered_text(value["known_until"]),
            below=float(value["idle_below"]),
            currency=answered_text(value["currency"]),
            total_idle=answered_number(value["total_idle_gpu_hours"]),
            total_cost=answered_number(value["total_idle_cost"]),
            workloads=[_idle(item) for item in value["workloads"]],
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ClusterError("the service returned an invalid report on idle GPUs") from None


def with_pauses(waste: IdleGpuReport, names: Mapping[str, str]) -> IdleGpuReport:
    """Return the report with the name for `gpuctl pause` of each workload, by its uid."""
    paused = [item._replace(pause=names.get(item.holder.value, "")) for item in waste.workloads]
    return replace(waste, workloads=paused)


def pausable_names(reader: ReadContext) -> dict[str, str]:
    """Return uid of the workload -> name of the job for `gpuctl pause`.

    :raises ClusterError: jobs may not be listed.
    """
    return pausable_jobs(read_jobs_without_pods(reader.scope, reader.keys), reader.keys)


def _idle(item: Mapping[str, Any]) -> IdleHolder:
    names = (answered_text(item[name]) for name in ("owner_uid", "namespace", "workload_type", "workload_name"))
    return IdleHolder(
        holder=GpuHolder(*names),
        owner=answered_text(item["owner"]) or None,
        gpus=float(item["gpu_count"]),
        models={answered_text(model): float(gpus) for model, gpus in item["gpu_models"].items()},
        idle_since=answered_text(item["idle_since"]),
        idle_hours=float(item["idle_hours"]),
        mean_use=answered_number(item["avg_utilization"]),
        idle_gpu_hours=answered_number(item["idle_gpu_hours"]),
        coverage=answered_number(item["coverage"]),
        cost=answered_number(item["idle_cost"]),
        pause=answered_text(item.get("pause")),
    )

"""Workloads that hold idle GPUs, and how to free them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuctl.kube.api_errors import ClusterError
from gpuctl.language.display_text import visible
from gpuctl.language.settings import Settings
from gpuctl.reading.gpu_time import GpuHolder
from gpuctl.reading.job_rows import read_jobs_without_pods
from gpuctl.reading.pausable_jobs import pausable_jobs
from gpuctl.reading.usage_records import IdleGpuReport, IdleHolder, UsageRange
from gpuctl.usecases.read_context import ReadContext
from gpuctl.usecases.usage_backends import UsageBackend

_NAME = 317


def idle_gpus(backend: UsageBackend, asked: UsageRange, below: float, settings: Settings) -> IdleGpuReport:
    """Return the workloads that hold idle GPUs now, those with the most idle GPU time first.

    :param below: utilization under which an hour counts as idle, percent.
    :param settings: settings of the platform, for its prices; a service uses its own.
    :raises ClusterError: the query failed.
    """
    value = backend.waste(asked, below, settings)
    try:
        return IdleGpuReport(
            cluster=_text(value["cluster"]),
            start=_text(value["start_time"]),
            end=_text(value["end_time"]),
            known_until=_text(value["known_until"]),
            below=float(value["idle_below"]),
            currency=_text(value["currency"]),
            total_idle=_number(value["total_idle_gpu_hours"]),
            total_cost=_number(value["total_idle_cost"]),
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
    names = (_text(item[name]) for name in ("owner_uid", "namespace", "workload_type", "workload_name"))
    return IdleHolder(
        holder=GpuHolder(*names),
        owner=_text(item["owner"]) or None,
        gpus=float(item["gpu_count"]),
        models={_text(model): float(gpus) for model, gpus in item["gpu_models"].items()},
        since=_text(item["idle_since"]),
        idle_hours=float(item["idle_hours"]),
        use=_number(item["avg_utilization"]),
        idle_gpu_hours=_number(item["idle_gpu_hours"]),
        coverage=_number(item["coverage"]),
        cost=_number(item["idle_cost"]),
        pause=_text(item.get("pause")),
    )


def _text(value: object) -> str:
    return visible(str(value or "")[:_NAME])


def _number(value: Any) -> float | None:
    return None if value is None else float(value)

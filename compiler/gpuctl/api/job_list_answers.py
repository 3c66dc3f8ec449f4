"""Lists of jobs and pods: ``get jobs`` and ``get pods``, ``GET /jobs`` and ``GET /pods``."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import Field

from gpuctl.api.base_models import SharedModel
from gpuctl.reading.jobs.job_rows import JobTableRow


class JobFields(SharedModel):
    """Fields of a job in lists and details. The values are attributes of :class:`JobTableRow`."""

    job_id: str = Field(description="Id of the job.", examples=["qwen2-7b-sft-4k2p9"])
    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    status: str = Field(examples=["Running"])
    reason: str | None = Field(None, description="Details of the status; null without any.", examples=[None])
    pool: str | None = Field(None, examples=["training-pool"])
    applied_by: str | None = Field(
        None, description="The user who applied the job last; null if unknown.", examples=["anna"]
    )
    created_at: str | None = Field(None, examples=["2024-06-01T10:00:00Z"])
    started_at: str | None = Field(None, examples=["2024-06-01T10:05:00Z"])


class ListedFields(JobFields):
    """Fields of a job in all lists."""

    gpu: int = Field(
        description="GPUs of the pod, or of all pods of the job. A MIG slice, a time slice and a share of a card count "
        "as one each.",
        examples=[4],
    )
    gpu_type: str | None = Field(None, examples=["a100-80g"])


class JobRow(ListedFields):
    """A pod of a job, or a job. ``ready`` counts the containers of a pod, or the pods of a job."""

    pod: str | None = Field(
        None, description="Name of the pod; null in the row of a job.", examples=["qwen2-7b-sft-x7k2p"]
    )
    phase: str = Field(examples=["running"])
    ready: str = Field(examples=["1/1"])
    node: str | None = Field(None, examples=["node-1"])
    ip: str | None = Field(None, examples=["10.0.0.7"])
    priority: str | None = Field(None, examples=["high"])


class SweepRow(JobRow):
    """A job of a sweep."""

    sweep_values: dict[str, str] = Field(description="Value of each parameter.", examples=[{"lr": "1e-5", "seed": "1"}])


class SweepRows(SharedModel):
    """``gpuctl get jobs --sweep NAME -o json``."""

    sweep: str
    items: list[SweepRow]
    total: int


class JobRows(SharedModel):
    """``gpuctl get jobs -o json``."""

    items: list[JobRow]
    total: int


class ListedPod(JobRow):
    """An item of ``GET /pods``: a pod; with ``pod`` null, a job without pods or the missing pods of a job."""

    object_name: str | None = Field(
        None,
        description="Name of the job's main object: with a hash if a GitOps controller applies the job.",
        examples=["qwen2-7b-sft"],
    )
    uid: str | None = Field(
        None,
        description="The uid of the job's main object, or of its oldest pod if the object is gone and its pods do not "
        "name it.",
        examples=["4f0b7a52-6a54-4a7e-9d5b-6b0a8c0c1d2e"],
    )
    sweep_values: dict[str, str] | None = Field(
        None,
        description="Of a training in a sweep, its value of each parameter; else null.",
        examples=[{"lr": "1e-5", "seed": "1"}],
    )


class PodPage(SharedModel):
    """``GET /pods``. ``total`` counts all pages, ``items`` are those of this page."""

    total: int = Field(examples=[42])
    items: list[ListedPod]
    statuses: list[str] = Field(
        [],
        description="Status words of all pods and jobs that match the parameters other than `kind`, `pool` and "
        "`status`.",
        examples=[["Running", "Unschedulable"]],
    )
    notes: list[str] = Field([], description="Notes about objects that could not be read.", examples=[[]])


class GpusOfJobs(SharedModel):
    """``GET /gpu-use``: GPUs that jobs hold and wait for."""

    allocated: int = Field(
        description="GPUs of the jobs' pods that are on nodes. A card that pods share counts once if nodes can be "
        "read.",
        examples=[24],
    )
    total: int | None = Field(
        None, description="GPUs of all nodes; null for a single namespace, or if nodes may not be read.", examples=[32]
    )
    waiting: int = Field(description="GPUs that jobs wait for.", examples=[8])
    notes: list[str] = Field([], description="Notes about objects that could not be read.", examples=[[]])


class JobItem(ListedFields):
    """An item of ``GET /jobs``."""

    status: str = Field(description="Phase of the job.", examples=["running"])
    status_word: str = Field(
        description="The status that `gpuctl get jobs` shows, such as Queued of a pending job.", examples=["Running"]
    )
    progress: int | None = Field(
        None, description="Progress from the training's log, percent; null if the log has none.", examples=[65]
    )
    object_name: str = Field(
        description="Name of its main object: with a hash if a GitOps controller applies the job.",
        examples=["qwen2-7b-sft"],
    )


class JobPage(SharedModel):
    """``GET /jobs``. ``total`` counts all pages, ``items`` are those of this page."""

    total: int = Field(examples=[42])
    items: list[JobItem]


def job_rows(rows: Iterable[JobTableRow]) -> JobRows:
    """Return a list of rows in the form of ``-o json``."""
    items = list(map(JobRow.model_validate, rows))
    return JobRows(items=items, total=len(items))


def sweep_rows(sweep: str, rows: Iterable[JobTableRow]) -> SweepRows:
    """Return the jobs of a sweep in the form of ``-o json``."""
    items = [SweepRow.taken_from(row, sweep_values=dict(row.sweep_values or {})) for row in rows]
    return SweepRows(sweep=sweep, items=items, total=len(items))


def job_item(job_id: str, row: JobTableRow, progress: int | None, gpu_type: str | None) -> JobItem:
    """Return the row of a job in the form of ``GET /jobs``.

    :param progress: percent.
    """
    return JobItem.taken_from(
        row, job_id=job_id, status=row.phase, status_word=row.status, progress=progress, gpu_type=gpu_type
    )

"""JSON of ``fit``: whether the pods of each job fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.document_answers import DocumentWarning
from gpuctl.capacity.fit.shortage import pods_differ
from gpuctl.capacity.fit.suggestions import FieldChange, JobName, Suggestion
from gpuctl.capacity.fit.verdicts import LACKING, STARTS, Fit, Opening, with_unit_names


class FitVictim(ApiModel):
    """A pod that would be evicted. Pods that the caller may not see are merged into one."""

    namespace: str = Field(examples=["team-b"])
    name: str = Field(examples=["llama3-pretrain-8c4fn"])
    job: str = Field(examples=["llama3-pretrain"])
    node: str | None = Field(description="null if several pods on different nodes are merged.", examples=["node-1"])
    priority: int | None = Field(description="null if several pods are merged.", examples=[1000])
    likelihood: float | None = Field(
        description="1 if this pod is evicted in any case; null if another pod may be evicted instead.",
        examples=[1.0],
    )


class FitEnding(ApiModel):
    """A job that ends."""

    namespace: str = Field(examples=["team-b"])
    job: str = Field(examples=["Job/llama3-pretrain"])
    ends_by: str | None = Field(
        description="The latest time by which it has left its nodes; null if several jobs are merged.",
        examples=["2026-01-01T14:05:00Z"],
    )


class FitOpening(ApiModel):
    """The time at which a job will fit that does not fit now."""

    by: str = Field(description="The latest time, by the clock of the API server.", examples=["2026-01-01T14:05:00Z"])
    taken_at: str = Field(description="The time at which the cluster was read.", examples=["2026-01-01T10:45:00Z"])
    after: list[FitEnding] = Field(description="The jobs that have to end before, in the order in which they end.")


class FitSuggestion(ApiModel):
    """A change of a document with which its job fits now, without evicting other pods."""

    kind: str = Field(
        description="less memory, less cpu, fewer GPUs, another GPU type, another pool, more nodes of fewer GPUs, or "
        "fewer nodes.",
        examples=["fewer GPUs"],
    )
    changes: list[dict[str, Any]] = Field(
        description="The edits: `path`, `from` and `to`, with `file`, `line` and `column` of the present value.",
        examples=[
            [{"path": "resources.gpu", "from": 8, "to": 4, "file": "yamlContent", "line": 9, "column": 8}],
        ],
    )


class FitJob(ApiModel):
    """The result for a job. Names of amounts contain their units: `cpuCores`, `memoryBytes`, `nvidia.com/gpu`."""

    name: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    verdict: str = Field(description="fits, preempts, fits-when-empty, never or unknown.", examples=["fits"])
    victims: list[FitVictim]
    victims_certain: bool = Field(description="True if exactly these pods are evicted.", examples=[True])
    certain: bool = Field(
        description="True if no choice of the scheduler changes the verdict, the pods or the victims.", examples=[True]
    )
    likelihood: float | None = Field(
        description="1 if no other order of pods changes the verdict; null if unknown.",
        examples=[1.0],
    )
    pods: int = Field(examples=[2])
    starting_pods: int = Field(examples=[2])
    held_by_starting_pods: dict[str, int | float] = Field(
        description="Resources held by those pods of the job that can start, while its other pods do not fit.",
        examples=[{"nvidia.com/gpu": 24}],
    )
    need: dict[str, Any] = Field(
        description="Resources of all pods; those of one pod are in `perPod`, unless the pods of roles differ.",
        examples=[{"nvidia.com/gpu": 8, "cpuCores": 16, "perPod": {"nvidia.com/gpu": 4, "cpuCores": 8}}],
    )
    free: dict[str, int | float] = Field(examples=[{"nvidia.com/gpu": 16, "cpuCores": 96.5}])
    largest_node: dict[str, Any] | None = Field(
        description="The node with the most free resources: `name`, and the free amounts.",
        examples=[{"name": "node-2", "nvidia.com/gpu": 8}],
    )
    held_by: list[dict[str, Any]] = Field(
        description="The holders of the scarce resource: `namespace`, `job`, `priority`, `pods`, and the amounts.",
        examples=[[{"namespace": "team-b", "job": "wide", "priority": 0, "pods": 2, "nvidia.com/gpu": 8}]],
    )
    reason: str = Field(examples=["both pods find room"])
    admitted: bool | None = Field(
        description="True if its Kueue queue admits it now; null without a queue, or if that is unknown.",
        examples=[None],
    )
    opening: FitOpening | None = Field(description="When the job will fit; null if unknown.")
    smallest_change: str | None = Field(examples=[None])
    suggestions: list[FitSuggestion] = Field(
        [], description="With `suggest`, for a job that does not fit: the smallest change of each kind."
    )


class FitJobs(ApiModel):
    """``gpuctl fit -o json``: the jobs in the order in which they are placed."""

    jobs: list[FitJob]

    @property
    def fits(self) -> bool | None:
        """True if every job fits, possibly by evicting others; None if this is unknown for one."""
        verdicts = {job.verdict for job in self.jobs}
        if verdicts & LACKING:
            return False
        return None if verdicts - STARTS else True


class FitFailure(FitJobs):
    """``gpuctl fit -o json`` after a failure."""

    error: str


class FitAnswer(FitJobs):
    """The result of ``gpuctl fit``, with notes and diagnostics."""

    notes: list[str] = Field(description="Aspects that the answer does not take into account.", examples=[[]])
    warnings: list[DocumentWarning] = Field([], description="Diagnostics of the documents.")
    messages: list[str] = Field([], description="Messages about the request itself.", examples=[[]])


class FitPage(FitAnswer):
    """``GET /fit``. ``total`` counts the jobs of all pages, ``jobs`` are those of this page."""

    total: int = Field(examples=[1])


def fit_jobs(fits: Iterable[Fit], suggestions: Mapping[JobName, Sequence[Suggestion]] | None = None) -> FitJobs:
    """Return the result for jobs.

    :param suggestions: changes with which jobs would fit; None if they were not requested.
    """
    return FitJobs(jobs=[fit_job(item, suggestions) for item in fits])


def fit_job(answer: Fit, suggestions: Mapping[JobName, Sequence[Suggestion]] | None = None) -> FitJob:
    """Return the result for one job."""
    demand, found, opening = answer.demand, answer.balance, answer.opening
    victims = [
        FitVictim.taken_from(
            victim.pod, job=victim.pod.owner, node=victim.node, likelihood=1.0 if answer.certain else None
        )
        for victim in answer.victims
    ]
    held = [
        {
            "namespace": holder.namespace,
            "job": holder.owner,
            "priority": holder.priority,
            "pods": holder.pods,
            **with_unit_names({found.scarce: holder.amount}),
        }
        for holder in found.held_by
    ]
    suggested = {}
    if suggestions is not None:
        changes = suggestions.get((demand.namespace, demand.name), ())
        suggested["suggestions"] = [
            FitSuggestion(kind=item.kind, changes=list(map(_field_change, item.changes))) for item in changes
        ]
    each = {} if pods_differ(demand, found) else {"perPod": with_unit_names(found.per_pod)}
    return FitJob.taken_from(
        answer,
        omitted=() if suggested else ("suggestions",),
        name=demand.name,
        namespace=demand.namespace,
        kind=demand.kind,
        victims=victims,
        victims_certain=answer.certain,
        pods=demand.pods,
        starting_pods=answer.starts,
        held_by_starting_pods=with_unit_names(answer.held),
        need=with_unit_names(found.need) | each,
        free=with_unit_names(found.free),
        largest_node=None if found.largest is None else {"name": found.largest[0], **with_unit_names(found.largest[1])},
        held_by=held,
        opening=None if opening is None else _opening(opening),
        smallest_change=answer.change,
        **suggested,
    )


def _field_change(change: FieldChange) -> dict[str, Any]:
    span = change.span
    where = {"file": span.file, "line": span.line, "column": span.column}
    return {"path": change.path, "from": change.old, "to": change.new, **where}


def _opening(opening: Opening) -> FitOpening:
    after = [FitEnding(namespace=item.namespace, job=item.job, ends_by=item.at) for item in opening.after]
    return FitOpening(by=opening.at, taken_at=opening.now, after=after)

"""The cause that keeps a job from running, as JSON: ``why``, ``GET /jobs/{jobId}/why``, a part of ``describe job``."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from gpuctl.api.base_models import SharedModel
from gpuctl.language.masking import masked
from gpuctl.reading.why.explanation import WELL, Explanation


class WhyEvidence(SharedModel):
    """Evidence of a cause. The source is event, condition, status, log, spec or quota."""

    source: str = Field(examples=["event"])
    object: str = Field(examples=["pod/qwen2-7b-sft-x7k2p"])
    text: str = Field(examples=["0/6 nodes are available: 6 Insufficient nvidia.com/gpu."])
    time: str | None = Field(None, description="Time of the evidence, RFC 3339.", examples=["2024-06-01T10:00:05Z"])


class OtherCause(SharedModel):
    """A further cause."""

    cause: str = Field(examples=["image-not-found"])
    message: str = Field(examples=["the image app:v9 cannot be pulled"])
    pod: str | None = Field(None, examples=["qwen2-7b-sft-x7k2p"])
    fix: str | None = Field(None, examples=["correct environment.image"])


class JobCause(SharedModel):
    """The cause to solve first, its evidence, and the causes that were ruled out."""

    job: str = Field(examples=["qwen2-7b-sft"])
    namespace: str = Field(examples=["team-a"])
    kind: str = Field(examples=["training"])
    cause: str = Field(examples=["gpu-shortage"])
    message: str = Field(examples=["8 GPUs are asked for, and 2 of training-pool are free"])
    pod: str | None = Field(None, examples=["qwen2-7b-sft-x7k2p"])
    numbers: dict[str, Any] = Field(
        {}, description="The numbers behind the cause; each cause has its own.", examples=[{"free": 2}]
    )
    ruled_out: list[str] = Field([], examples=[["the quota of team-a has room"]])
    fix: str | None = Field(None, examples=["ask for 2 GPUs, or wait"])
    evidence: list[WhyEvidence] = Field([])
    also: list[OtherCause] = Field([])

    @property
    def is_well(self) -> bool:
        """Return True if there is nothing to solve."""
        return self.cause in WELL

    def as_json(self) -> dict[str, Any]:
        """Return the answer without credentials. Fixes are not masked: a masked command cannot be copied."""
        value = super().as_json()
        shown: dict[str, Any] = masked(value)
        also = [{**item, "fix": raw["fix"]} for item, raw in zip(shown["also"], value["also"], strict=True)]
        return {**shown, "fix": value["fix"], "also": also}


class WhyAnswer(JobCause):
    """A cause, with notes about objects that could not be read."""

    notes: list[str] = Field([], description="Notes about objects that could not be read.", examples=[[]])


def job_cause(answer: Explanation) -> JobCause:
    """Return an answer in the form of ``describe job``."""
    return JobCause.taken_from(answer.finding, **_fields(answer))


def why_answer(answer: Explanation) -> WhyAnswer:
    """Return an answer in the form of ``why``."""
    return WhyAnswer.taken_from(answer.finding, **_fields(answer), notes=list(answer.notes))


def _fields(answer: Explanation) -> dict[str, Any]:
    """Return the fields that are no attributes of the finding."""
    found, identity = answer.finding, answer.job.identity
    return {
        "job": identity.name,
        "namespace": identity.namespace,
        "kind": identity.kind,
        "numbers": dict(found.numbers),
        "ruled_out": answer.ruled_out,
        "evidence": [
            WhyEvidence(source=item.kind, object=item.about, text=item.text, time=item.at) for item in found.sources
        ],
        "also": list(map(OtherCause.taken_from, answer.also)),
    }

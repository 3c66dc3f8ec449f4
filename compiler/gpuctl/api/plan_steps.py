"""A step of a plan or a recovery as JSON, and back.

A field that a :class:`~gpuctl.apply.plan.plan.Step` and a model have under one name needs no conversion here.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_args

from pydantic import Field, model_validator

from gpuctl.api.base_models import ApiModel
from gpuctl.api.json_values import change_values
from gpuctl.apply.plan.plan import Action, EvictedJob, Result, Step, Wait
from gpuctl.apply.plan.step_diff import masked_change
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.gitops.value_change import ValueChange
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import RESOURCES, Key, Object


class Dependent(ApiModel):
    """An object that is deleted with another one."""

    kind: str = Field(examples=["Pod"])
    name: str = Field(examples=["qwen2-7b-sft-x7k2p"])


class PlanVictim(ApiModel):
    """A job whose pods would be evicted. For a job that the caller may not see, only priority and runtime are set."""

    namespace: str | None = Field(examples=["team-b"])
    job: str | None = Field(examples=["llama3-pretrain"])
    priority: int = Field(examples=[1000])
    pods: list[str] = Field(examples=[["llama3-pretrain-8c4fn"]])
    runtime: str | None = Field(description="How long its pods have been running.", examples=["3h12m"])
    owner: str | None = Field(description="The owner: its label `team`, `creator` or `project`.", examples=["anna"])


class PlanWait(ApiModel):
    """A reason why the pods of a job wait, or may wait."""

    cause: str = Field(description="`quota`, `queue` or `room`.", examples=["quota"])
    message: str = Field(
        examples=["quota gpu-quota in team-a: asks 8 nvidia.com/gpu, 3 free; held by training/sft (5)"]
    )
    likelihood: float | None = Field(
        description="1 if they wait in any case; null if that depends on the order in which pods are created.",
        examples=[1.0],
    )


class StepFields(ApiModel):
    """A step in the form of ``-o json``."""

    action: str = Field(description="create, update, replace, delete, unchanged and others.", examples=["replace"])
    api_version: str = Field(examples=["batch/v1"])
    kind: str = Field(examples=["Job"])
    namespace: str | None = Field(examples=["team-a"])
    name: str = Field(examples=["qwen2-7b-sft"])
    reason: str | None = Field(examples=["spec.template cannot be changed"])
    changes: list[dict[str, Any]] = Field(
        description="The fields that change, each with `path`, `from` and `to`.",
        examples=[[{"path": "spec.template.spec.containers[0].image", "from": "app:v1", "to": "app:v2"}]],
    )
    document_changes: list[dict[str, Any]] = Field(
        [],
        description="The fields of the job's document that change, each with `path`, `from` and `to`.",
        examples=[[{"path": "environment.image", "from": "app:v1", "to": "app:v2"}]],
    )
    verdict: str | None = Field(
        description="The verdict of `fit` on its pods; null if it was not checked.", examples=["fits"]
    )
    victims: list[PlanVictim] = Field(description="Jobs whose pods its pods would evict.")
    waits: list[PlanWait] = Field(description="Reasons why its pods would wait.", examples=[[]])
    lost: list[dict[str, Any]] = Field(
        description="Fields of other managers that are overwritten: as in `changes`, with `manager`.",
        examples=[[{"path": "spec.parallelism", "from": 4, "to": 2, "manager": "kubectl-edit"}]],
    )
    dependents: list[Dependent] = Field(description="Objects that garbage collection deletes with it.")
    unseen: list[str] = Field(
        description="Kinds that may not be listed, so that dependents of them are unknown.", examples=[[]]
    )
    running: str | None = Field(
        description="How long the work that the step ends has been running; null if it ends none.",
        examples=["running for 3h"],
    )
    finished: str | None = Field(
        description="When the training finished that runs again or is pruned; null for other steps.",
        examples=["finished 21d ago (Complete): runs again; its pods and logs are deleted"],
    )
    applied_by: str | None = Field(
        description="The user who last applied the job that ends or runs again; null if the caller or unknown.",
        examples=["anna"],
    )
    checkpoint: str | None = Field(
        description="How running work saves its progress before it ends; null if nothing runs or has a checkpoint.",
        examples=["python save.py (at most 2m)"],
    )
    result: str = Field(description="`planned` until the step was executed.", examples=["planned"])
    error: str | None = Field(examples=[None])

    @model_validator(mode="after")
    def _check_values(self) -> StepFields:
        """Reject the values of a newer service that this version does not know."""
        if self.kind not in RESOURCES or self.action not in get_args(Action) or self.result not in get_args(Result):
            raise ValueError(f"{self.action} {self.kind}: {self.result}")
        return self


class PlanStep(StepFields):
    """The change of an object. Credentials are masked."""

    title: str = Field(
        "", description='The job, pool or quota that the object belongs to; "" without any.', examples=["training/sft"]
    )
    shared: bool = Field(False, description="True if several jobs share the object, such as a namespace.")
    expired: bool = Field(False, description="True if the object does not exist because its ttl has expired.")
    before: dict[str, Any] | None = Field(
        None, description="The object before, with `show=objects`; null if it does not exist.", examples=[None]
    )
    after: dict[str, Any] | None = Field(
        None, description="The object afterwards, with `show=objects`; null if it does not exist.", examples=[None]
    )


_COMMON = frozenset(field.name for field in fields(Step)) & frozenset(PlanStep.model_fields)


def step_value(step: Step) -> dict[str, Any]:
    """Return the fields of a step, masked, without its objects."""
    return {
        **{name: getattr(step, name) for name in _COMMON},
        "api_version": step.key.resource.api_version,
        "kind": step.key.kind,
        "namespace": step.key.namespace or None,
        "name": step.key.name,
        "reason": step.reason or None,
        "changes": change_values(map(_masked, step.changes)),
        "document_changes": change_values(step.document_changes),
        "victims": list(map(_victim_value, step.victims)),
        "waits": [item._asdict() for item in step.waits],
        "lost": [
            {**value, "manager": field.manager}
            for value, field in zip(change_values(map(_masked, step.lost)), step.lost, strict=True)
        ],
        "dependents": [{"kind": key.kind, "name": key.name} for key in step.dependents],
        "error": None if step.error is None else redact(step.error),
    }


def step_of(value: StepFields, before: Object | None = None, after: Object | None = None) -> Step:
    """Return the step of its fields. It has only the objects to show, before and after."""
    namespace = value.namespace or ""
    return Step(
        **{
            **{name: getattr(value, name) for name in _COMMON & value.model_fields_set},
            "key": Key(value.kind, namespace, value.name),
            "reason": value.reason or "",
            "changes": [FieldOutcome(*_change_of(item)) for item in value.changes],
            "document_changes": [ValueChange(*_change_of(item)) for item in value.document_changes],
            "victims": list(map(_victim_of, value.victims)),
            "waits": [Wait(item.cause, item.message, item.likelihood) for item in value.waits],
            "lost": [FieldOutcome(*_change_of(item), (item["manager"],)) for item in value.lost],
            "dependents": [Key(item.kind, namespace, item.name) for item in value.dependents],
            "shown": (before, after),
        }
    )


def _masked(change: FieldOutcome) -> tuple[str, Any, Any]:
    shown = masked_change(change)
    return shown.path, shown.old, shown.new


def _change_of(value: dict[str, Any]) -> tuple[str, Any, Any]:
    return value["path"], value.get("from"), value.get("to")


def _victim_value(job: EvictedJob) -> dict[str, Any]:
    """Return an evicted job; for one that the caller may not see, only its priority and runtime."""
    value = {**job._asdict(), "pods": list(job.pods)}
    if not value.pop("seen"):
        value |= {"namespace": None, "job": None, "owner": None}
    return value


def _victim_of(value: PlanVictim) -> EvictedJob:
    seen = value.job is not None
    return EvictedJob(
        value.namespace or "", value.job or "", value.priority, tuple(value.pods), value.runtime, value.owner, seen
    )

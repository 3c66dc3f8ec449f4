"""Plans of ``apply``, ``create``, ``delete``, ``diff`` and other commands, before and after they are carried out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.document_answers import DocumentWarning
from gpuctl.api.json_values import change_values
from gpuctl.apply.plan.plan import WRITING, EvictedJob, Plan, Step
from gpuctl.apply.plan.step_diff import before_and_after, masked_change
from gpuctl.apply.run.recovery import Recovery, RecoveryOutcome
from gpuctl.apply.run.recovery_plan import RecoveryProblem
from gpuctl.apply.state.compare import FieldOutcome
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records

FAILED = frozenset({"failed", "restored", "rolled-back"})
"""Results of steps that failed or were undone."""
SIGNALLED = 128


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


class PlanFields(ApiModel):
    """Fields of every plan."""

    steps: list[StepFields]
    summary: dict[str, int] = Field(
        description="Action -> number of objects.", examples=[{"replace": 1, "unchanged": 2}]
    )
    notes: list[str] = Field(examples=[["the job starts anew"]])


class PlannedSet(ApiModel):
    """The set of the documents of a plan; null without one."""

    set: str | None


class PlanOutput(PlanFields, PlannedSet):
    """``apply -o json`` and similar output. ``error``: why nothing, or not everything, was done."""

    recovery: list[StepFields] = Field([])
    error: str | None = None


class PlanAnswer(PlanFields):
    """A plan: the action on each object. ``questions`` need confirmation, ``errors`` prevent the plan."""

    steps: list[PlanStep]  # type: ignore[assignment]
    questions: list[str] = Field(examples=[["training/qwen2-7b-sft runs: it is ended, and starts again"]])
    errors: list[str] = Field(examples=[[]])
    set: str | None = Field(
        None, description="The name of the set of the documents; null without one.", examples=[None]
    )
    recovery: list[PlanStep] = Field([], description="Steps that first complete or undo an interrupted run.")
    courtesies: list[str] = Field(
        [],
        description="Running work that the request names and ends. It needs no confirmation unless the request has "
        "`confirmed`.",
        examples=[[]],
    )
    tracked: list[str] = Field([], description="The part of `errors` about objects of Argo CD or Flux.", examples=[[]])
    lacking: list[str] = Field([], description="The part of `errors` about missing rights.", examples=[[]])
    finished: list[int] = Field(
        [], description="Indexes of the finished steps, in the order in which they finished.", examples=[[0]]
    )
    carried_out: bool = Field(False, description="The plan was carried out; `result` of each step has its outcome.")
    outage: bool = Field(False, description="True if steps failed because of an outage of the cluster.")
    interrupted: int = Field(0, description="The signal that stopped the run; 0 without any.", examples=[0])
    unfinished: bool = Field(False, description="A journal remains: `POST /recoveries` finishes the run.")
    messages: list[str] = Field([], description="Messages of the run.", examples=[[]])
    warnings: list[DocumentWarning] = Field([], description="Diagnostics of the documents.")


class RecoveryStep(StepFields):
    """A step of a recovery."""

    object: dict[str, Any] | None = Field(None, description="The whole object that is created.", examples=[None])
    if_refused: dict[str, Any] | None = Field(
        None, description="The object to create if `object` is rejected.", examples=[None]
    )


class RecoveredObject(ApiModel):
    """The recovery of an object after an interrupted run."""

    kind: str = Field(examples=["Job"])
    api_version: str = Field(examples=["batch/v1"])
    namespace: str = Field(examples=["team-a"])
    name: str = Field(examples=["qwen2-7b-sft"])
    outcome: str = Field(examples=["restored"])
    message: str = Field(examples=["job.batch/qwen2-7b-sft is created again"])


class ProblemFields(ApiModel):
    """An object that could not be recovered, and the reason, in the form of ``-o json``."""

    namespace: str | None = Field(examples=["team-a"])
    message: str = Field(examples=["the journal of a run cannot be read"])
    hint: str | None = Field(examples=[None])


class RecoveryFailure(ProblemFields):
    """An object that could not be recovered, and the reason."""

    refused: bool = Field(True, description="True if gpuctl decided so; false after a failure of the cluster.")


class RecoveryFields(ApiModel):
    """Fields of every response about interrupted runs."""

    planned: list[RecoveryStep] = Field(
        description="Steps like those of a plan. A step that creates an object also has `object`, and `ifRefused`, "
        "which is tried if `object` is refused.",
    )
    recovered: list[RecoveredObject]
    problems: list[ProblemFields]


class RecoveryOutput(RecoveryFields):
    """``recover -o json``. ``error``: why nothing was done."""

    error: str | None = None


class Recoveries(RecoveryFields):
    """Interrupted runs: the planned steps, the recovered objects, and the failures."""

    problems: list[RecoveryFailure]  # type: ignore[assignment]
    questions: list[str] = Field(examples=[["job.batch/qwen2-7b-sft in team-a is created again"]])
    journals: int = Field(0, description="Number of interrupted runs.", examples=[1])
    working: dict[str, str] = Field(
        {}, description="Namespace -> user whose run may still be active in it.", examples=[{"team-a": "anna"}]
    )


def plan_value(plan: Plan, *, error: str | None = None) -> dict[str, Any]:
    """Return a plan in the form of ``-o json``, masked. ``error``: why nothing, or not everything, was done."""
    return PlanOutput(**output_fields(plan, error=error)).as_json()


def output_fields(plan: Plan, *, error: str | None) -> dict[str, Any]:
    """Return the fields of :class:`PlanOutput`, masked."""
    value = {**_fields(plan, step_value), "set": plan.set_name}
    if plan.recovery:
        value["recovery"] = [step_value(step) for step in plan.recovery]
    return value if error is None else {**value, "error": error}


def answer_value(plan: Plan, keys: Records | None = None) -> dict[str, Any]:
    """Return the fields of :class:`PlanAnswer`, masked.

    :param keys: the annotation and label keys of gpuctl to remove from the objects before and after; None: omit the
    objects.
    """

    def shown(step: Step) -> dict[str, Any]:
        value = {**step_value(step), "title": step.title, "shared": step.shared, "expired": step.expired}
        if keys is not None and step.action in WRITING:
            value["before"], value["after"] = before_and_after(step, keys)
        return value

    return {
        **_fields(plan, shown),
        "questions": [redact(text) for text in plan.questions],
        "errors": [redact(text) for text in plan.obstacles],
        "set": plan.set_name,
        "recovery": [shown(step) for step in plan.recovery],
        "courtesies": [redact(text) for text in plan.courtesies],
        "tracked": [redact(text) for text in plan.tracked],
        "lacking": [redact(text) for text in plan.lacking],
        "outage": plan.outage,
        "interrupted": plan.interrupted,
        "unfinished": plan.unfinished,
    }


def _fields(plan: Plan, value_of: Callable[[Step], dict[str, Any]]) -> dict[str, Any]:
    return {
        "steps": [value_of(step) for step in plan.steps],
        "summary": plan.summary,
        "notes": [redact(note) for note in plan.notes],
    }


def step_value(step: Step) -> dict[str, Any]:
    """Return one step of a plan, masked."""
    return {
        "action": step.action,
        "apiVersion": step.key.resource.api_version,
        "kind": step.key.kind,
        "namespace": step.key.namespace or None,
        "name": step.key.name,
        "reason": step.reason or None,
        "changes": [_change(masked_change(change)) for change in step.changes],
        "documentChanges": change_values(step.document_changes),
        "verdict": step.verdict,
        "victims": [_victim(job) for job in step.victims],
        "waits": [item._asdict() for item in step.waits],
        "lost": [_lost(field) for field in step.lost],
        "dependents": [{"kind": key.kind, "name": key.name} for key in step.dependents],
        "unseen": step.unseen,
        "running": step.running,
        "finished": step.finished,
        "appliedBy": step.applied_by,
        "checkpoint": step.checkpoint,
        "result": step.result,
        "error": None if step.error is None else redact(step.error),
    }


def recovery_fields(
    steps: Iterable[Step], fallbacks: Mapping[Key, Object], result: Recovery, keys: Records
) -> dict[str, Any]:
    """Return the planned recovery, with the objects that it creates, its results and its failures.

    :param fallbacks: objects that are created if the server refuses the new ones.
    """
    return {
        "planned": [_planned(step, keys, fallbacks.get(step.key)) for step in steps],
        "recovered": [_recovered(item) for item in result.results],
        "problems": [_problem(problem) for problem in result.problems],
    }


def _change(change: FieldOutcome) -> dict[str, Any]:
    return {"path": change.path, "from": change.old, "to": change.new}


def _victim(job: EvictedJob) -> dict[str, Any]:
    """Return an evicted job; for one that the caller may not see, only its priority and runtime."""
    value = {**job._asdict(), "pods": list(job.pods)}
    if not value.pop("seen"):
        value |= {"namespace": None, "job": None, "owner": None}
    return value


def _lost(field: FieldOutcome) -> dict[str, Any]:
    return {**_change(masked_change(field)), "manager": field.manager}


def _planned(step: Step, keys: Records, old: Object | None) -> dict[str, Any]:
    """Return a step of a recovery with the object that it creates, and the fallback if that is refused."""
    value = step_value(step)
    if step.action == "create":
        value["object"] = before_and_after(step, keys)[1]
        if old is not None:
            value["ifRefused"] = before_and_after(Step("create", step.key, desired=old), keys)[1]
    return value


def _recovered(item: RecoveryOutcome) -> dict[str, Any]:
    return {
        "kind": item.key.kind,
        "apiVersion": item.key.resource.api_version,
        "namespace": item.key.namespace,
        "name": item.key.name,
        "outcome": item.outcome,
        "message": item.message,
    }


def _problem(problem: RecoveryProblem) -> dict[str, Any]:
    message = redact(problem.message)
    return {"namespace": problem.namespace, "message": message, "hint": problem.hint, "refused": problem.refused}


def preview_code(plan: Plan) -> int:
    """Return the exit code of a plan that was not carried out: 0, 1 if it has obstacles, 3 if a right is missing."""
    return 1 if plan.errors or plan.tracked else 3 if plan.lacking else 0


def difference_code(plan: Plan) -> int:
    """Return the exit code of a comparison: 0 no differences, 1 differences, 2 undetermined."""
    if plan.errors:
        return 2
    return 1 if plan.writes or plan.recovery else 0


def result_code(plan: Plan) -> int:
    """Return the exit code of a plan that was carried out: 0, 1 if not completely, 3 if the cluster failed.

    After an interrupt it is that of a shell: 130 after Ctrl-C, 143 after SIGTERM.
    """
    if any(step.result in FAILED for step in plan.steps):
        return 3 if plan.outage else 1
    if plan.interrupted:
        return SIGNALLED + plan.interrupted
    return 1 if any(step.result == "not-run" for step in plan.steps) else 0


def recovery_code(result: Recovery) -> int:
    """Return the exit code of a recovery: 0, 1 if something was not recovered, 3 if the cluster failed."""
    if any(not problem.refused for problem in result.problems):
        return 3
    return 1 if result.failed or result.problems else 0

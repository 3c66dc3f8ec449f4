"""A plan of ``apply``, ``create``, ``delete``, ``diff`` and others, before it is carried out and afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic import Field

from gpuctl.api.base_models import ApiModel
from gpuctl.api.document_answers import DocumentWarning
from gpuctl.apply.plan.overwritten_foreign_fields import LostField
from gpuctl.apply.plan.plan import WRITING, EvictedJob, Plan, Step
from gpuctl.apply.plan.step_diff import before_and_after, masked_change
from gpuctl.apply.run.recovery import Recovery, RecoveryOutcome
from gpuctl.apply.run.recovery_plan import RecoveryProblem
from gpuctl.apply.state.compare import Change
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records

FAILED = frozenset({"failed", "restored", "rolled-back"})
"""Results of steps that did not bring about what was wanted."""
SIGNALLED = 128


class Dependent(ApiModel):
    """An object that goes with another."""

    kind: str = Field(examples=["Pod"])
    name: str = Field(examples=["qwen2-7b-sft-x7k2p"])


class PlanVictim(ApiModel):
    """A job whose pods would be evicted; of one that may not be seen only how important it is and how long it runs."""

    namespace: str | None = Field(examples=["team-b"])
    job: str | None = Field(examples=["llama3-pretrain"])
    priority: int = Field(examples=[1000])
    pods: list[str] = Field(examples=[["llama3-pretrain-8c4fn"]])
    runtime: str | None = Field(description="For how long they run.", examples=["3h12m"])
    owner: str | None = Field(description="Whose it is: its label `team`, `creator` or `project`.", examples=["anna"])


class PlanWait(ApiModel):
    """A reason for which the pods of a job wait, or may wait."""

    cause: str = Field(description="`quota`, `queue` or `room`.", examples=["quota"])
    message: str = Field(
        examples=["quota gpu-quota in team-a: asks 8 nvidia.com/gpu, 3 free; held by training/sft (5)"]
    )
    likelihood: float | None = Field(
        description="1 if they wait in any case; null if that depends on the order in which pods come.",
        examples=[1.0],
    )


class StepFields(ApiModel):
    """A step as ``-o json`` prints it."""

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
    verdict: str | None = Field(
        description="The verdict of `fit` on its pods; null if it was not asked.", examples=["fits"]
    )
    victims: list[PlanVictim] = Field(description="Whose pods its own would evict.")
    waits: list[PlanWait] = Field(description="The reasons for which its pods would wait.", examples=[[]])
    lost: list[dict[str, Any]] = Field(
        description="Fields of other managers that are overwritten: as in `changes`, with `manager`.",
        examples=[[{"path": "spec.parallelism", "from": 4, "to": 2, "manager": "kubectl-edit"}]],
    )
    dependents: list[Dependent] = Field(description="Objects that garbage collection deletes with it.")
    unseen: list[str] = Field(description="Kinds that may not be looked through for dependents.", examples=[[]])
    running: str | None = Field(
        description="How long the work that ends has been running; null if no work ends.", examples=["running for 3h"]
    )
    finished: str | None = Field(
        description="When the training that runs again, or is pruned, finished; null for all others.",
        examples=["finished 21d ago (Complete): runs again; its pods and logs are deleted"],
    )
    applied_by: str | None = Field(
        description="Who applied the job last that ends or runs again; null if that is the caller, or unknown.",
        examples=["anna"],
    )
    checkpoint: str | None = Field(
        description="How running work saves its progress before it ends; null if nothing runs or has a checkpoint.",
        examples=["python save.py (at most 2m)"],
    )
    result: str = Field(description="`planned`, until it is carried out.", examples=["planned"])
    error: str | None = Field(examples=[None])


class PlanStep(StepFields):
    """The change of an object. Credentials are masked."""

    title: str = Field(
        "", description='The job, pool or quota that the object belongs to; "" without any.', examples=["training/sft"]
    )
    shared: bool = Field(False, description="Several jobs share the object, such as a namespace.")
    expired: bool = Field(False, description="The object does not exist because its ttl has removed it.")
    before: dict[str, Any] | None = Field(
        None, description="The object before, with `show=objects`; null if it does not exist.", examples=[None]
    )
    after: dict[str, Any] | None = Field(
        None, description="The object afterwards, with `show=objects`; null if it does not exist.", examples=[None]
    )


class PlanFields(ApiModel):
    """The fields of every plan."""

    steps: list[StepFields]
    summary: dict[str, int] = Field(description="Action -> objects.", examples=[{"replace": 1, "unchanged": 2}])
    notes: list[str] = Field(examples=[["the job starts anew"]])


class PlanOutput(PlanFields):
    """``apply -o json`` and the like; ``error`` says why nothing, or not everything, was done."""

    set: str | None
    recovery: list[StepFields] = Field([])
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the answer as JSON has it. Fields that were not set are left out."""
        value = super().as_json()
        return {
            name: value[name] for name in ("set", "steps", "summary", "notes", "recovery", "error") if name in value
        }


class PlanAnswer(PlanFields):
    """A plan: what is done to each object. ``questions`` have to be confirmed, ``errors`` stand against it."""

    steps: list[PlanStep]  # type: ignore[assignment]
    questions: list[str] = Field(examples=[["training/qwen2-7b-sft runs: it is ended, and starts again"]])
    errors: list[str] = Field(examples=[[]])
    set: str | None = Field(None, description="The set that the documents are, if they are one.", examples=[None])
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
    carried_out: bool = Field(False, description="The plan was carried out; `result` of each step says how it went.")
    outage: bool = Field(False, description="Steps failed because the cluster failed, or did not allow them.")
    interrupted: int = Field(0, description="The signal that stopped the run; 0 without any.", examples=[0])
    unfinished: bool = Field(False, description="A journal remains: `POST /recoveries` finishes what was begun.")
    messages: list[str] = Field([], description="Messages of the run.", examples=[[]])
    warnings: list[DocumentWarning] = Field([], description="Diagnostics of the documents.")


class RecoveryStep(StepFields):
    """A step of a recovery."""

    object: dict[str, Any] | None = Field(None, description="The object that is created, whole.", examples=[None])
    if_refused: dict[str, Any] | None = Field(
        None, description="The object that is created if `object` is refused.", examples=[None]
    )


class RecoveredObject(ApiModel):
    """The recovery of an object that a killed run left."""

    kind: str = Field(examples=["Job"])
    api_version: str = Field(examples=["batch/v1"])
    namespace: str = Field(examples=["team-a"])
    name: str = Field(examples=["qwen2-7b-sft"])
    outcome: str = Field(examples=["restored"])
    message: str = Field(examples=["job.batch/qwen2-7b-sft is created again"])


class ProblemFields(ApiModel):
    """An object that could not be recovered, with the reason, as ``-o json`` prints it."""

    namespace: str | None = Field(examples=["team-a"])
    message: str = Field(examples=["the journal of a run cannot be read"])
    hint: str | None = Field(examples=[None])


class RecoveryFailure(ProblemFields):
    """An object that could not be recovered, with the reason."""

    refused: bool = Field(True, description="By a decision; false after a failure of the cluster.")


class RecoveryFields(ApiModel):
    """The fields of every answer about interrupted runs."""

    planned: list[RecoveryStep] = Field(
        description="Steps as those of a plan; of what is created also `object`, and `ifRefused` what is tried then.",
    )
    recovered: list[RecoveredObject]
    problems: list[ProblemFields]


class RecoveryOutput(RecoveryFields):
    """``recover -o json``; ``error`` says why nothing was done."""

    error: str | None = None


class Recoveries(RecoveryFields):
    """Interrupted runs: what will be recovered, what was, and what could not be."""

    problems: list[RecoveryFailure]  # type: ignore[assignment]
    questions: list[str] = Field(examples=[["job.batch/qwen2-7b-sft in team-a is created again"]])
    journals: int = Field(0, description="Interrupted runs.", examples=[1])
    working: dict[str, str] = Field(
        {}, description="Namespace -> who may still be applying in it.", examples=[{"team-a": "anna"}]
    )


def plan_value(plan: Plan, *, error: str | None = None) -> dict[str, Any]:
    """Return a plan as ``-o json`` prints it, masked; ``error`` says why nothing, or not everything, was done."""
    value = {**_fields(plan, step_value), "set": plan.set_name}
    if plan.recovery:
        value["recovery"] = [step_value(step) for step in plan.recovery]
    if error is not None:
        value["error"] = error
    return PlanOutput(**value).as_json()


def answer_value(plan: Plan, keys: Records | None = None) -> dict[str, Any]:
    """Return the fields of :class:`PlanAnswer`, masked.

    :param keys: show the objects before and after, without these records; None: do not show them.
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
    """One step of a plan, masked."""
    return {
        "action": step.action,
        "apiVersion": step.key.resource.api_version,
        "kind": step.key.kind,
        "namespace": step.key.namespace or None,
        "name": step.key.name,
        "reason": step.reason or None,
        "changes": [_change(masked_change(change)) for change in step.changes],
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
    """Return what is to be recovered, with the whole objects that are created; what was, and what could not be.

    :param fallbacks: what is created instead where the server refuses it.
    """
    return {
        "planned": [_planned(step, keys, fallbacks.get(step.key)) for step in steps],
        "recovered": [_recovered(item) for item in result.results],
        "problems": [_problem(problem) for problem in result.problems],
    }


def _change(change: Change) -> dict[str, Any]:
    return {"path": change.path, "from": change.old, "to": change.new}


def _victim(job: EvictedJob) -> dict[str, Any]:
    """An evicted job; of those that the caller may not see, only how important they are and how long they run."""
    value = {**job._asdict(), "pods": list(job.pods)}
    if not value.pop("seen"):
        value |= {"namespace": None, "job": None, "owner": None}
    return value


def _lost(field: LostField) -> dict[str, Any]:
    return {**_change(masked_change(Change(field.path, field.value, field.new))), "manager": field.manager}


def _planned(step: Step, keys: Records, old: Object | None) -> dict[str, Any]:
    """A step of a recovery; with the object that it creates, and with the one if that is refused."""
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
    """The exit code of a plan that was only looked at: 0, 1 when it could not be carried out, 3 for lack of a right."""
    return 1 if plan.errors or plan.tracked else 3 if plan.lacking else 0


def difference_code(plan: Plan) -> int:
    """The exit code of a comparison: 0 no difference, 1 there is one, 2 it could not be determined."""
    if plan.errors:
        return 2
    return 1 if plan.writes or plan.recovery else 0


def result_code(plan: Plan) -> int:
    """The exit code of a plan that was carried out: 0, 1 when not all of it was, 3 when that is the cluster's fault.

    Interrupted it is what a shell says: 130 after Ctrl-C, 143 after SIGTERM.
    """
    if any(step.result in FAILED for step in plan.steps):
        return 3 if plan.outage else 1
    if plan.interrupted:
        return SIGNALLED + plan.interrupted
    return 1 if any(step.result == "not-run" for step in plan.steps) else 0


def recovery_code(result: Recovery) -> int:
    """The exit code of a recovery: 0, 1 when something was left, 3 when that is the cluster's fault."""
    if any(not problem.refused for problem in result.problems):
        return 3
    return 1 if result.failed or result.problems else 0

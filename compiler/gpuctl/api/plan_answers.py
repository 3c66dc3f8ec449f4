"""A plan: of ``apply``, ``create``, ``delete`` and ``diff``, before it is carried out and afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuctl.apply.plan.differences import before_and_after, masked_change
from gpuctl.apply.plan.overwritten_foreign_fields import LostField
from gpuctl.apply.plan.plan import EvictedJob, Plan, Step
from gpuctl.apply.run.recovery import Recovered, Recovery
from gpuctl.apply.run.recovery_plan import RecoveryProblem
from gpuctl.apply.state.compare import Change
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.ownership_metadata import Records

FAILED = frozenset({"failed", "restored", "rolled-back"})
"""Results of steps that did not bring about what was wanted."""
SIGNALLED = 128


def plan_value(plan: Plan, *, error: str | None = None) -> dict[str, Any]:
    """A plan, masked; ``error`` says why nothing, or not everything, was done."""
    value: dict[str, Any] = {
        "set": plan.set_name,
        "steps": [step_value(step) for step in plan.steps],
        "summary": plan.summary,
        "notes": [redact(note) for note in plan.notes],
    }
    if plan.recovery:
        value["recovery"] = [step_value(step) for step in plan.recovery]
    if error is not None:
        value["error"] = error
    return value


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
        "error": step.error,
    }


def recovery_value(
    steps: Iterable[Step],
    fallbacks: Mapping[Key, Object],
    result: Recovery,
    keys: Records,
    *,
    error: str | None = None,
) -> dict[str, Any]:
    """What is to be recovered, with the whole objects that are created; what was, and what could not be.

    :param fallbacks: what is created instead where the server refuses it.
    """
    value: dict[str, Any] = {
        "planned": [_planned(step, keys, fallbacks.get(step.key)) for step in steps],
        "recovered": [_recovered(item) for item in result.results],
        "problems": [_problem(problem) for problem in result.problems],
    }
    if error is not None:
        value["error"] = error
    return value


def _change(change: Change) -> dict[str, Any]:
    return {"path": change.path, "from": change.old, "to": change.new}


def _victim(job: EvictedJob) -> dict[str, Any]:
    """An evicted job; of those that whoever asked may not see, only how important they are and how long they run."""
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


def _recovered(item: Recovered) -> dict[str, Any]:
    return {
        "kind": item.key.kind,
        "apiVersion": item.key.resource.api_version,
        "namespace": item.key.namespace,
        "name": item.key.name,
        "outcome": item.outcome,
        "message": item.message,
    }


def _problem(problem: RecoveryProblem) -> dict[str, str | None]:
    return {"namespace": problem.namespace, "message": problem.message, "hint": problem.hint}


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

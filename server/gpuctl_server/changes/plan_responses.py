"""Results of changes as the REST API returns them."""

from __future__ import annotations

from typing import Any

from gpuctl.api.plan_answers import FAILED, PlanAnswer, answer_value
from gpuctl.apply.plan.plan import Plan
from gpuctl.hints import RecoverHint
from gpuctl.language.masking import redact
from gpuctl.language.sentences import Sentence, Template, clauses, say, verb_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import merge_hidden

VALIDATED = "validated"
"""Status of an object that a dry run has checked."""
_DONE = {
    "created": Template("{object} {be} created"),
    "deleted": Template("{object} {be} deleted"),
    "replaced": Template("{object} {be} replaced"),
    "unchanged": Template("{object} {be} unchanged"),
    "updated": Template("{object} {be} updated"),
}


def done_message(title: str, done: str, *, dry_run: bool = False) -> Sentence:
    """Return the message about an object that was ``created``, ``updated`` and so on, or would be."""
    said = say(_DONE[done], object=title, be=verb_of(dry_run=dry_run))
    return unchanged_message(said) if dry_run else said


def unchanged_message(said: str) -> Sentence:
    """Return a message of a request that changes nothing."""
    return say("{said}; nothing is changed", said=said)


def pool_created(name: str) -> Sentence:
    """Return the message about a pool that was created."""
    return say("pool/{name} is created", name=name)


def plan_answer(plan: Plan, keys: Records | None = None, **more: Any) -> PlanAnswer:
    """Return the answer about a plan.

    :param keys: as in :func:`answer_value`.
    :param more: further fields of the answer.
    """
    return PlanAnswer(**merge_hidden(answer_value(plan, keys)), **more)


def require_all_done(plan: Plan) -> None:
    """Raise an error if a plan was not carried out completely.

    :raises Problem: 503 if the cluster cannot be reached or the service is shutting down, else 409.
    """
    wrong = [step for step in plan.steps if step.result in FAILED]
    left = [step for step in plan.steps if step.result == "not-run"]
    if not wrong and not left:
        return
    away = plan.outage or plan.interrupted
    text = clauses(*(redact(step.error) for step in (*wrong, *left) if step.error))
    if plan.interrupted and not wrong:
        text = text or say("the service is shutting down; this was not started")
    hint = say("{command} finishes the interrupted change", command=RecoverHint()) if plan.unfinished else None
    raise Problem(
        503 if away else 409,
        text or say("not everything was done"),
        error="ServiceUnavailable" if away else "NotApplied",
        details=plan_answer(plan).as_json()["steps"],
        hint=hint,
    )

"""Results of changes as the REST API returns them."""

from __future__ import annotations

import re
from typing import Any

from gpuctl.api.plan_answers import FAILED, PlanAnswer, answer_value
from gpuctl.apply.plan.plan import Plan
from gpuctl.language.masking import redact
from gpuctl.language.sentences import Sentence, Template, clauses, request_translation, say
from gpuctl.objects.ownership_metadata import Records
from gpuctl_server.http_problems import Problem
from gpuctl_server.merged_answers import merge_hidden

VALIDATED = "validated"
"""Status of an object that a dry run has checked."""
_WOULD = (r"(^| )(?:is|stays)(?= )", r"\1would be")


_DONE = {
    "created": Template("{object} is created"),
    "deleted": Template("{object} is deleted"),
    "replaced": Template("{object} is replaced"),
    "unchanged": Template("{object} is unchanged"),
    "updated": Template("{object} is updated"),
}


def done_message(title: str, done: str) -> Sentence:
    """Return the message about an object that was ``created``, ``updated`` and so on."""
    return say(_DONE[done], object=title)


def dry_run_message(said: str) -> str:
    """Return the message of a dry run: ``it is paused`` -> ``it would be paused; nothing is changed``.

    Only English has another form of the verb: a Chinese message begins with the words for a dry run.
    """
    return unchanged_message(said if request_translation() else re.sub(*_WOULD, said, count=1))


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
    hint = say("`POST /recoveries` finishes the interrupted change") if plan.unfinished else None
    raise Problem(
        503 if away else 409,
        text or say("not everything was done"),
        error="ServiceUnavailable" if away else "NotApplied",
        details=plan_answer(plan).as_json()["steps"],
        hint=hint,
    )

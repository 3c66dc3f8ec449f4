"""Execution of plans for requests. Errors include the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.plan import ConfirmationMissing, Plan, Step
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.hints import CONFIRM_REQUEST
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import WORKLOADS, Key, Object
from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from gpuctl_server.changes.change_request import ChangeRequest
from gpuctl_server.changes.plan_responses import plan_answer, require_all_done
from gpuctl_server.http.http_problems import Problem, problem_of
from gpuctl_server.service_context import Service

LISTED_WITHIN = 2.0
"""Maximum number of seconds until the list of jobs has a change."""


class PlanRun:
    """The execution of a plan for a request, with callbacks that record its progress.

    The audit trail of the request gets a line before anything is written.

    :param messages: first messages of the answer.
    """

    def __init__(self, change: ChangeRequest, messages: Iterable[str] = ()) -> None:
        self._change = change
        self._finished: list[Step] = []
        self._messages = list(messages)

    @property
    def callbacks(self) -> RunCallbacks:
        """The callbacks for a use case."""
        return RunCallbacks(
            confirm=self._confirm,
            on_start=lambda plan: self._change.touched.begin(),
            on_step_done=self._finished.append,
            on_message=self._messages.append,
            should_stop=self._change.service.change_slots.is_ending,
            longest_checkpoint=LONGEST_BY_SERVICE,
        )

    def execute(self, session: Session, act: Callable[[RunCallbacks], Plan], **more: Any) -> PlanAnswer:
        """Make and execute a plan, and wait until the service's own reads have its result.

        :param act: makes and executes the plan.
        :param more: further fields of the answer.
        :raises Problem: 409 or 503, with the plan, if it was not executed completely.
        """
        try:
            plan = act(self.callbacks)
        except ClusterError as error:
            problem, refused = problem_of(error), getattr(error, "plan", None)
            if problem is None or not isinstance(refused, Plan):
                raise
            problem.more["plan"] = self.answer(refused, **more).as_json()
            raise problem from None
        if self._change.dry_run:
            return self.answer(plan, carried_out=False, **more)
        changed = [step.key for step in plan.steps if step.result == "done" and step.key.kind in WORKLOADS]
        await_seen(self._change.service, session, changed)
        answer = self.answer(plan, carried_out=True, **more)
        try:
            require_all_done(plan)
        except Problem as problem:
            problem.more["plan"] = answer.as_json()
            raise
        return answer

    def answer(self, plan: Plan, **more: Any) -> PlanAnswer:
        """Return the answer about a plan and its execution so far."""
        places = {id(step): place for place, step in enumerate(plan.steps)}
        finished = [places[id(step)] for step in self._finished if id(step) in places]
        return plan_answer(plan, finished=finished, messages=self._messages, **more)

    def _confirm(self, plan: Plan) -> bool:
        if not self._change.confirmation.covers(plan):
            asked = say("this must be confirmed: {questions:;}", questions=[*plan.questions, *plan.courtesies])
            error = ConfirmationMissing(asked, plan)
            error.hint = say("{hint}", hint=CONFIRM_REQUEST)
            raise error
        return True


def await_seen(service: Service, session: Session, keys: Iterable[Key]) -> dict[Key, Object | None]:
    """Wait until the mirror and the list of jobs have the current state of objects, so that a client reads its own
    change.

    :returns: the objects, None for those that do not exist; empty if they cannot be read: the change was made, and the
        watches will deliver it.
    """
    wanted = list(keys)
    try:
        found = dict(zip(wanted, session.each(session.get, wanted), strict=True))
    except ClusterError:
        return {}
    written = [obj for obj in found.values() if obj is not None]
    service.wait_until_seen(written, [key for key, obj in found.items() if obj is None])
    version = service.mirror.version
    service.board.wait_for(lambda board: board.version >= version, LISTED_WITHIN)
    return found

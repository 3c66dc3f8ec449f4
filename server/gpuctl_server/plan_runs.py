"""Execution of plans for requests: questions must be confirmed by their texts, and errors include the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from gpuctl.api.plan_answers import PlanAnswer
from gpuctl.apply.plan.confirmations import all_confirmed
from gpuctl.apply.plan.plan import ConfirmationMissing, Plan, Step
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.hints import CONFIRM_REQUEST
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.language.masking import redact
from gpuctl.objects.api_resources import WORKLOADS, Key
from gpuctl.usecases.change_options import LONGEST_BY_SERVICE
from gpuctl_server.audit import AuditTrail
from gpuctl_server.http_problems import Problem, problem_of
from gpuctl_server.plan_responses import plan_answer, require_all_done
from gpuctl_server.service_context import Service

LISTED_WITHIN = 2.0
"""Maximum number of seconds until the list of jobs has a change."""


class Confirmation(NamedTuple):
    """The confirmation of a user: of ``everything``, or of the questions with these ``texts``.

    If ``texts`` is None, ending the work that the request names needs no confirmation.
    """

    everything: bool = False
    texts: Sequence[str] | None = None

    def covers(self, plan: Plan) -> bool:
        """Return True if all questions of a plan are confirmed."""
        asked = plan.questions if self.texts is None else [*plan.questions, *plan.courtesies]
        return self.everything or all_confirmed(map(redact, asked), self.texts or ())


class PlanRun:
    """The execution of a plan for a request, with callbacks that record its progress.

    ``touched`` is the audit trail. It gets a line before anything is written.
    """

    def __init__(
        self, service: Service, touched: AuditTrail | None = None, confirmation: Confirmation | None = None
    ) -> None:
        self._service = service
        self._touched = touched
        self._confirmation = confirmation or Confirmation()
        self._finished: list[Step] = []
        self.messages: list[str] = []

    @property
    def callbacks(self) -> RunCallbacks:
        """The callbacks for a use case."""
        return RunCallbacks(
            confirm=self._confirm,
            on_start=self._begins,
            on_step_done=self._finished.append,
            on_message=self.messages.append,
            should_stop=self._service.change_slots.is_ending,
            longest_checkpoint=LONGEST_BY_SERVICE,
        )

    def execute(
        self, session: Session, act: Callable[[RunCallbacks], Plan], *, dry_run: bool = False, **more: Any
    ) -> PlanAnswer:
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
        if not dry_run:
            written = [step.key for step in plan.steps if step.result == "done" and step.desired is not None]
            await_seen(self._service, session, written)
        answer = self.answer(plan, carried_out=not dry_run, **more)
        if not dry_run:
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
        return plan_answer(plan, finished=finished, messages=self.messages, **more)

    def _begins(self, plan: Plan) -> None:
        if self._touched is not None:
            self._touched.begin()

    def _confirm(self, plan: Plan) -> bool:
        if not self._confirmation.covers(plan):
            error = ConfirmationMissing(
                f"this must be confirmed: {'; '.join([*plan.questions, *plan.courtesies])}", plan
            )
            error.hint = str(CONFIRM_REQUEST)
            raise error
        return True


def await_seen(service: Service, session: Session, keys: Iterable[Key]) -> None:
    """Wait until the mirror and the list of jobs have the workloads that were written."""
    with suppress(ClusterError):
        found = session.each(session.get, [key for key in keys if key.kind in WORKLOADS])
        service.wait_until_seen(obj for obj in found if obj is not None)
        version = service.mirror.version
        service.board.wait_for(lambda board: board.version >= version, LISTED_WITHIN)

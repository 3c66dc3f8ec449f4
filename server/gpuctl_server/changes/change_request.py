"""Requests for changes: who asks, what is confirmed, and the session of the change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.repeated_questions import all_confirmed
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.kube.session import Session
from gpuctl.language.masking import redact
from gpuctl.language.sentences import say
from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from gpuctl_server.access.caller import Caller
from gpuctl_server.audit import AuditTrail
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.merged_answers import hidden_in_chinese
from gpuctl_server.limits.fair_slots import NoFreeSlot
from gpuctl_server.mirror.shared_lists import MaxListAge
from gpuctl_server.service_context import Service


class Confirmation(NamedTuple):
    """A user's confirmation of ``everything``, or of the questions in ``texts``.

    If ``texts`` is None, no confirmation is needed to end the work that the request names.
    """

    everything: bool = False
    texts: Sequence[str] | None = None

    def covers(self, plan: Plan) -> bool:
        """Return True if all questions of a plan are confirmed."""
        asked = plan.questions if self.texts is None else [*plan.questions, *plan.courtesies]
        return self.everything or all_confirmed((hidden_in_chinese(redact(text)) for text in asked), self.texts or ())


@dataclass(frozen=True)
class ChangeRequest:
    """A request for a change.

    ``touched`` is the audit trail, which receives the names of the objects. With ``dry_run`` nothing is written.
    """

    service: Service
    caller: Caller
    touched: AuditTrail
    confirmation: Confirmation
    dry_run: bool

    def run_options(self, timeout: float = RunOptions.timeout, **options: bool) -> RunOptions:
        """Return options of a run, with a timeout within the limit of the service."""
        return RunOptions(min(timeout, LONGEST_BY_SERVICE), **options, dry_run=self.dry_run)

    @contextmanager
    def session(self, max_age: MaxListAge | None = None) -> Iterator[Session]:
        """Open a session for the change, within the limit of concurrent changes. In a dry run, its requests to the API
        server are dry runs.

        :param max_age: maximum age of the lists of all pods and nodes.
        :raises Problem: 429 above the limit, 503 during shutdown.
        """
        slots = self.service.change_slots
        if slots.is_ending():
            raise Problem(503, say("the service is shutting down; nothing was changed"))
        try:
            slots.begin(self.caller.name)
        except NoFreeSlot as full:
            text = (
                say("too many changes of this token are running")
                if full.is_own
                else say("too many changes are running")
            )
            raise Problem(429, say("{text}; nothing was changed, try again in a moment", text=text)) from None
        try:
            with self.service.live_session(self.caller, max_age, dry_run=self.dry_run) as session:
                yield session
        finally:
            slots.done(self.caller.name)

"""Execution of one stage of a plan: sixteen requests at once, and the wait for objects that are being deleted."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.apply.run.deletion_watch import DeletionWatch, deletion_blockers
from gpuctl.apply.run.lease import Leases
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.sequential_create import SequentialCreation
from gpuctl.apply.run.step_stages import JobDeletions
from gpuctl.apply.run.step_writes import StepWrites
from gpuctl.apply.run.terminating_namespaces import find_terminating, terminating_message
from gpuctl.hints import RecoverHint
from gpuctl.kube.api_errors import ClusterError, is_access_refusal, is_outage
from gpuctl.kube.api_requests import PATIENCE
from gpuctl.kube.session import Session
from gpuctl.language.display_text import first_few
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, key_of

_LOOK = 10.0
_WOKEN = ("woken", Key("", "", ""), None)


@dataclass
class RunState:
    """State that the stages of a run share.

    - ``interrupted``: start no new steps, but finish the replacements in progress. ``told``: the user knows.
    - ``gone``: the awaited objects that no longer exist: one that vanishes before its turn causes no second event.
    - ``begun``: ids of the steps that were started.
    """

    session: Session
    plan: Plan
    options: RunOptions
    callbacks: RunCallbacks
    writes: StepWrites
    interrupted: bool = False
    told: bool = False
    leases: Leases | None = None
    deadline: float = float("inf")
    next_look: float = field(default_factory=lambda: time.monotonic() + _LOOK)
    events: queue.Queue[tuple[str, Key, Any]] = field(default_factory=queue.Queue)
    gone: set[Key] = field(default_factory=set)
    begun: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        leaving = [step.live for step in self.plan.steps if step.deletes and step.live is not None]
        self.deletions = DeletionWatch(self.session, leaving, lambda key: self.events.put(("gone", key, None)))

    def is_interrupted(self) -> bool:
        """Return True after a signal, or if the caller asks to stop."""
        if not self.interrupted and self.callbacks.should_stop():
            self.interrupted, self.plan.interrupted = True, signal.SIGTERM
        return self.interrupted

    def interrupt(self, number: int, frame: FrameType | None = None) -> None:
        """Record a signal, so that it cannot come between a delete and its create.

        :raises KeyboardInterrupt: the run is interrupted already.
        """
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted, self.plan.interrupted = True, number


class StageExecution:
    """Steps that may run at the same time, except those that are created in sequence.

    ``_waiting``: the steps whose objects are being deleted. ``_busy``: number of requests under way.
    """

    def __init__(self, run: RunState, steps: list[Step]) -> None:
        self._run = run
        self._steps = steps
        self._by_key = {step.key: step for step in steps}
        lanes = [[self._by_key[key] for key in keys if key in self._by_key] for keys in run.plan.turns]
        self._by_key.update({key_of(step.live): step for step in steps if step.deletes and step.live is not None})
        self._turns = SequentialCreation(run.session, lanes, lambda: run.events.put(_WOKEN))
        self._leaving = JobDeletions(steps)
        self._waiting: dict[Key, Step] = {}
        self._busy = 0

    def execute(self) -> None:
        """Carry out the steps; each gets its ``result`` and ``error``."""
        try:
            self._turns.start()
            # A workload that is interrupted before its turn stays, so its companions must not be deleted before it.
            for step in sorted(self._steps, key=lambda step: step.companion_of is not None):
                if step not in self._turns and not self._leaving.holds(step):
                    self._submit(step, self._take_away if step.deletes else self._bring_about)
            self._begin_due()
            while self._busy or self._waiting or self._turns.left:
                self._next_event()
                self._begin_due()
                if self._run.is_interrupted() and not self._run.told:
                    self._run.told = True
                    self._run.callbacks.on_message(self._interrupted_message())
        finally:
            self._turns.stop()
        self._restore_companions()

    def _interrupted_message(self) -> str:
        if not self._run.plan.is_journalled:
            return say("interrupted: finishing the steps in progress; interrupt again to end at once")
        return say(
            "interrupted: finishing the steps in progress; interrupt again to leave them to {command}",
            command=RecoverHint(),
        )

    def _begin_due(self) -> None:
        for step in self._turns.due(at_once=self._run.is_interrupted()):
            self._submit(step, self._bring_about)
        for step in self._leaving.due():
            self._submit(step, self._take_away)

    def _next_event(self) -> None:
        try:
            kind, key, value = self._run.events.get(timeout=min(0.5, max(0.05, self._run.deadline - time.monotonic())))
        except queue.Empty:
            if self._waiting and time.monotonic() >= self._run.deadline:
                self._give_up()
            elif self._waiting:
                self._tell_waiting()
                self._poll_deletions()
            elif self._turns.awaited:
                names = ", ".join(map(str, self._turns.awaited[:3]))
                self._run.callbacks.on_wait(f"waiting for the pods of {names}; {self._turns.left} more follow")
            return
        if kind == "woken":
            return
        if kind == "gone":
            self._run.gone.add(key)
            waiting = self._waiting.pop(key, None)
            if waiting is not None:
                self._is_gone(waiting)
            return
        step = self._by_key[key]
        self._busy -= 1
        self._handle_result(step, value)
        self._turns.finished(step)

    def _handle_result(self, step: Step, value: Any) -> None:
        """Process the result of a step's task: an error, a deletion, or the final result."""
        if isinstance(value, BaseException):
            self._fail(step, value)
        elif value in ("deleted", "gone"):
            live = key_of(step.live) if step.live is not None else step.key
            if (
                value == "gone"
                or live in self._run.gone
                or (step.action != "replace" and not self._run.options.until_gone)
            ):
                self._is_gone(step)
            else:
                self._waiting[live] = step
        else:
            step.result = value
            self._end(step)

    def _is_gone(self, step: Step) -> None:
        if step.action == "replace":
            self._submit(step, self._run.writes.create_successor)
        else:
            step.result = "done"
            self._end(step)

    def _end(self, step: Step) -> None:
        """Report a step's result, and start or skip the steps of its job's companions."""
        self._run.callbacks.on_step_done(step)
        for other in self._leaving.ended(step):
            other.result, other.error = (
                "not-run",
                say("it stays because {object} was not deleted; run it again", object=step.key),
            )
            self._run.callbacks.on_step_done(other)

    def _submit(self, step: Step, task: Callable[[Step], str]) -> None:
        self._busy += 1
        self._run.begun.add(id(step))
        future = self._run.session.executor.submit(task, step)

        def finished(future: Any) -> None:
            error = future.exception()
            self._run.events.put(("result", step.key, error if error is not None else future.result()))

        future.add_done_callback(finished)

    def _take_away(self, step: Step) -> str:
        """Delete the live object, unless the run is interrupted, out of time, or has lost its lease."""
        lost = self._run.leases.check() if self._run.leases is not None else None
        if lost:
            step.error = lost
            return "not-run"
        if self._run.is_interrupted():
            return "not-run"
        if time.monotonic() >= self._run.deadline:
            step.error = say(
                "not started within the timeout of {timeout} s", timeout=f"{self._run.options.timeout:.0f}"
            )
            return "not-run"
        return self._run.writes.delete_live(step)

    def _bring_about(self, step: Step) -> str:
        """Create or update the object, unless the run is interrupted."""
        return "not-run" if self._run.is_interrupted() else self._run.writes.write_desired(step)

    def _fail(self, step: Step, error: BaseException) -> None:
        step.result = "failed"
        self._run.plan.outage = self._run.plan.outage or is_outage(error)
        if isinstance(error, ClusterError):
            said = _with_hint(error)
            step.error = said if said.startswith(str(step.key)) else f"{step.key}: {said}"
        else:
            # A bug of gpuctl must not prevent the other steps from being finished.
            step.error = say(
                "{object}: internal error: {kind}: {error}", object=step.key, kind=type(error).__name__, error=error
            )
        self._end(step)

    def _poll_deletions(self) -> None:
        """List the awaited objects every 10 seconds: a watch on a broken network receives no events, and one that was
        started before a token expired continues.
        """
        if time.monotonic() > self._run.next_look:
            self._run.next_look = time.monotonic() + _LOOK
            try:
                self._run.deletions.poll()
            except ClusterError as error:
                if is_access_refusal(error):
                    self._give_up(error)
                    return
            self._give_up_leaving()

    def _give_up_leaving(self) -> None:
        """Fail the replacements in terminating namespaces, where nothing can be created."""
        replaced = {key: step for key, step in self._waiting.items() if step.action == "replace"}
        leaving = self._run.writes.leaving
        leaving |= find_terminating(self._run.session, {key.namespace for key in replaced})
        for key, step in replaced.items():
            if key.namespace in leaving:
                del self._waiting[key]
                reason = terminating_message(key.namespace)
                message = say("{object} is not created again: {reason}", object=step.key, reason=reason)
                self._fail(step, ClusterError(message))

    def _tell_waiting(self) -> None:
        self._run.callbacks.on_wait(f"waiting until gone: {first_few(self._waiting)}")

    def _give_up(self, error: ClusterError | None = None) -> None:
        """Fail the steps whose objects still exist after the timeout; continue those whose objects are gone without an
        event.

        :param error: the reason for which the objects can no longer be read.
        """
        there = set(self._waiting)
        if error is None:
            # No time is left to wait for an unreachable server.
            self._run.session.patience = min(self._run.session.patience, PATIENCE)
            try:
                there = self._run.deletions.poll()
            except ClusterError as failure:
                error = failure
        self._run.plan.outage = self._run.plan.outage or (error is not None and is_outage(error))
        for key in list(self._waiting):
            step = self._waiting.pop(key)
            if key not in there:
                self._run.gone.add(key)
                self._is_gone(step)
                continue
            step.result = "failed"
            if error is not None:
                reason = _with_hint(error)
                step.error = say("{object}: whether it is gone is unknown: {reason}", object=key, reason=reason)
            else:
                step.error = say(
                    "{object} still exists after {timeout} s{blockers}",
                    object=key,
                    timeout=f"{self._run.options.timeout:.0f}",
                    blockers=deletion_blockers(self._run.session, key),
                )
            if step.action == "replace":
                step.error += say(
                    "; the new one is created by {command} or the next apply once it is gone", command=RecoverHint()
                )
            self._end(step)

    def _restore_companions(self) -> None:
        """Create companions again whose old workload stays or was restored."""
        mains = {step.key: step for step in self._run.plan.steps}
        for step in self._steps:
            main = mains.get(step.companion_of) if step.companion_of is not None else None
            if main is None or main.result == "done" or step.result != "done" or step.restorable is None:
                continue
            try:
                self._run.writes.create(step.restorable)
            except ClusterError as error:
                step.result, step.error = "failed", f"{step.key}: {error.message}"
            else:
                step.result = "restored"
                step.error = say("{object} was created again with {main}", object=step.key, main=step.companion_of)
                if main.result == "not-run":
                    # An interrupted workload is not a failure; a lost lease is the error to report.
                    step.result, step.error = "not-run", main.error or step.error
            self._run.callbacks.on_step_done(step)


def _with_hint(error: ClusterError) -> str:
    return f"{error.message} ({error.hint})" if error.hint else error.message

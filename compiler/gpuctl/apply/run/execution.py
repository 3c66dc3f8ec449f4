"""Execution of a plan: stage by stage, sixteen requests at once. The journal keeps deleted objects until they are
replaced.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run.deletion_waiter import DeletionWaiter, deletion_blockers
from gpuctl.apply.run.interrupts import ending_signals
from gpuctl.apply.run.journal_entries import CheckpointNote, checkpoints_not_recorded, entries_of
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.lease import NAMESPACE_LEASE, Leases
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.sequential_create import SequentialCreation
from gpuctl.apply.run.step_stages import JobDeletions, stages_of
from gpuctl.apply.run.step_writes import StepWrites, change_of, is_outage, is_unchanged
from gpuctl.apply.run.terminating_namespaces import find_terminating, terminating_message
from gpuctl.hints import RecoverHint
from gpuctl.kube.api_errors import ApiError, Changed, ClusterError
from gpuctl.kube.api_requests import PATIENCE
from gpuctl.kube.kueue import find_workloads
from gpuctl.kube.session import Session
from gpuctl.language.display_text import first_few
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.queueing import was_admitted
from gpuctl.objects.workload_state import restorable

_LOOK = 10.0
_WOKEN = ("woken", Key("", "", ""), None)


@dataclass
class _Stage:
    """Steps that may run at the same time, by the keys of their objects, except those that are created in sequence."""

    by_key: dict[Key, Step]
    turns: SequentialCreation
    leaving: JobDeletions
    waiting: dict[Key, Step] = field(default_factory=dict)
    busy: int = 0


class RunAborted(KeyboardInterrupt):
    """A second interrupt ended a run whose journals are left."""

    @property
    def advice(self) -> str:
        """Return the next step for the user."""
        return say("the journal is kept: {command}, or the next apply, finishes the run", command=RecoverHint())


class Execution:
    """One run of a plan. ``interrupted``: start no new steps, but finish the replacements in progress."""

    def __init__(
        self, session: Session, plan: Plan, keys: Records, options: RunOptions, callbacks: RunCallbacks
    ) -> None:
        self.session = session
        self.plan = plan
        self.keys = keys
        self.options = options
        self.callbacks = callbacks
        self.interrupted = False
        self._told = False
        self._next_look = time.monotonic() + _LOOK
        self._events: queue.Queue[tuple[str, Key, Any]] = queue.Queue()
        self._leases: Leases | None = None
        self._journals: list[Journal] = []
        # For all stages: an object that vanishes before its turn causes no second event.
        self._gone: set[Key] = set()
        self._begun: set[int] = set()
        self._deadline = float("inf")
        self._writes = StepWrites(session, plan, keys, options, callbacks)
        leaving = [step.live for step in plan.steps if step.deletes and step.live is not None]
        self._deletions = DeletionWaiter(session, leaving, self._report_gone)

    def lease_keys(self) -> set[Key]:
        """Return the leases of the namespaces in which no other run may apply until this one ends."""
        namespaces = {step.key.namespace for step in self.plan.steps if step.deletes}
        return {Key("Lease", namespace, NAMESPACE_LEASE) for namespace in namespaces if namespace}

    def run(self, leases: Leases | None = None) -> None:
        """Carry the plan out within the session's time limit; each step gets its ``result`` and ``error``.

        :raises Changed: an object to delete has changed since the plan was made; nothing was done.
        :raises RunAborted: a second interrupt ended the run between two steps, and its journals are left.
        """
        self._leases = leases
        self.session.patience = max(self.session.patience, min(self.options.timeout, 120.0))
        deleting = [step for step in self.plan.steps if step.deletes]
        try:
            with self._interruptible():
                # Restart the timeout: the wait for the lease does not count.
                self.session.count_from_now(self.options.timeout)
                if deleting:
                    self._check_unchanged(deleting, self._deletions.start())
                    self._journals = self._write_journals(deleting)
                    self._writes.is_journalled = bool(self._journals)
                self.session.count_from_now(self.options.timeout)
                self._run_stages()
                self._close_journals()
        except KeyboardInterrupt:
            self._mark_aborted()
            if self.plan.unfinished:
                raise RunAborted from None
            raise
        finally:
            self._deletions.stop()

    def _write_journals(self, deleting: list[Step]) -> list[Journal]:
        """Write the journals. In a terminating namespace nothing can be created again, so its deletions need none.

        :raises Changed: the plan creates an object in a terminating namespace.
        """
        _note_restorable(self.session, deleting, self.keys, self.callbacks.on_message)
        entries = entries_of(self.plan.steps, self.keys)
        try:
            return journals.write(self.session, entries, self.keys)
        except ApiError as error:
            if error.lacks_permission and all(isinstance(entry, CheckpointNote) for entry in entries):
                # None of the objects is created again.
                self.callbacks.on_message(checkpoints_not_recorded({entry.key.namespace for entry in entries}))
                return []
            if not error.lacks_namespace:
                raise
            if any(step.action == "replace" for step in deleting):
                raise Changed(error.message, say("nothing was changed")) from None
        gone = find_terminating(self.session, {entry.key.namespace for entry in entries})
        return journals.write(self.session, [entry for entry in entries if entry.key.namespace not in gone], self.keys)

    def _mark_aborted(self) -> None:
        """Mark the steps in progress as failed with an unknown result."""
        self.plan.unfinished = bool(self._journals)
        for step in self.plan.steps:
            if step.result == "planned" and id(step) in self._begun:
                step.result, step.error = (
                    "failed",
                    say("{object}: interrupted: whether it was carried out is not known", object=step.key),
                )

    def _close_journals(self) -> None:
        """Remove the journals, except those that can still bring back an object of a failed step."""
        failed = {step.key.namespace for step in self.plan.steps if step.result == "failed" and step.is_journalled}
        for journal in self._journals:
            if journal.namespace in failed - self._writes.leaving:
                self.plan.unfinished = True
                continue
            try:
                journals.remove(self.session, journal)
            except ClusterError as error:
                # The plan is done; the next run removes the journal.
                self.plan.outage = self.plan.outage or is_outage(error)
                self.plan.notes.append(
                    say("a journal is left in {namespace}: {error}", namespace=journal.namespace, error=error.message)
                )

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Run the block with signals held back: the first one is only recorded, so that it cannot come between a delete
        and its create.
        """

        def note(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True
            self.plan.interrupted = number

        before = {number: signal.signal(number, note) for number in ending_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _is_interrupted(self) -> bool:
        if not self.interrupted and self.callbacks.should_stop():
            self.interrupted, self.plan.interrupted = True, signal.SIGTERM
        return self.interrupted

    def _check_unchanged(self, deleting: list[Step], now: list[Object]) -> None:
        """Check that the objects to delete have not changed since the plan was made.

        Changes by controllers do not prevent a deletion that the user requested: Kueue may admit the job at any time.
        A replacement is planned again, because it may now end work.

        :raises Changed: one has.
        """
        current = {obj["metadata"]["uid"]: obj for obj in now}
        for step in deleting:
            assert step.live is not None
            obj = current.get(step.live["metadata"]["uid"])
            if obj is None and step.action != "replace" and self.session.get(key_of(step.live)) is None:
                step.action, step.live, step.reason = "skip", None, say("is gone")
            elif obj is None or not is_unchanged(step.live, obj, self.keys, by_users=step.action == "delete"):
                raise Changed(
                    say("{object} {change}", object=key_of(step.live), change=change_of(step.live, obj, self.keys)),
                    say("check it, and run again"),
                )

    def _run_stages(self) -> None:
        """Run the stages in order: shared objects, workloads, autoscalers, then deletions, workloads first."""
        self._deadline = self._writes.deadline = time.monotonic() + self.options.timeout
        writing = [step for step in self.plan.steps if step.action in WRITING]
        for step in self.plan.steps:
            if step.action not in WRITING:
                step.result = "done"
                self.callbacks.on_step_done(step)
        failed = False
        for group in stages_of(writing):
            if failed or self._is_interrupted():
                for step in group:
                    step.result = "not-run"
                    self.callbacks.on_step_done(step)
                continue
            self._run_stage(group)
            failed = any(step.result in ("failed", "restored", "not-run") for step in group)

    def _run_stage(self, steps: list[Step]) -> None:
        stage = self._stage(steps)
        try:
            stage.turns.start()
            # A workload that is interrupted before its turn stays, so its companions must not be deleted before it.
            for step in sorted(steps, key=lambda step: step.companion_of is not None):
                if step not in stage.turns and not stage.leaving.holds(step):
                    self._submit(stage, step, self._take_away if step.deletes else self._bring_about)
            self._begin_due(stage)
            while stage.busy or stage.waiting or stage.turns.left:
                self._next_event(stage)
                self._begin_due(stage)
                if self._is_interrupted() and not self._told:
                    self._told = True
                    self.callbacks.on_message(
                        say(
                            "interrupted: finishing the steps in progress; interrupt again to leave them to {command}",
                            command=RecoverHint(),
                        )
                    )
        finally:
            stage.turns.stop()
        self._restore_companions(steps)

    def _stage(self, steps: list[Step]) -> _Stage:
        by_key = {step.key: step for step in steps}
        lanes = [[by_key[key] for key in keys if key in by_key] for keys in self.plan.turns]
        by_key.update({key_of(step.live): step for step in steps if step.deletes and step.live is not None})
        return _Stage(
            by_key, SequentialCreation(self.session, lanes, lambda: self._events.put(_WOKEN)), JobDeletions(steps)
        )

    def _begin_due(self, stage: _Stage) -> None:
        for step in stage.turns.due(at_once=self._is_interrupted()):
            self._submit(stage, step, self._bring_about)
        for step in stage.leaving.due():
            self._submit(stage, step, self._take_away)

    def _next_event(self, stage: _Stage) -> None:
        try:
            kind, key, value = self._events.get(timeout=min(0.5, max(0.05, self._deadline - time.monotonic())))
        except queue.Empty:
            if stage.waiting and time.monotonic() >= self._deadline:
                self._give_up(stage)
            elif stage.waiting:
                self._tell_waiting(stage)
                self._poll_deletions(stage)
            elif stage.turns.awaited:
                names = ", ".join(map(str, stage.turns.awaited[:3]))
                self.callbacks.on_wait(f"waiting for the pods of {names}; {stage.turns.left} more follow")
            return
        if kind == "woken":
            return
        if kind == "gone":
            self._gone.add(key)
            waiting = stage.waiting.pop(key, None)
            if waiting is not None:
                self._is_gone(stage, waiting)
            return
        step = stage.by_key[key]
        stage.busy -= 1
        self._handle_result(stage, step, value)
        stage.turns.finished(step)

    def _handle_result(self, stage: _Stage, step: Step, value: Any) -> None:
        """Process the result of a step's task: an error, a deletion, or the final result."""
        if isinstance(value, BaseException):
            self._fail(stage, step, value)
        elif value in ("deleted", "gone"):
            live = key_of(step.live) if step.live is not None else step.key
            if value == "gone" or live in self._gone or (step.action != "replace" and not self.options.until_gone):
                self._is_gone(stage, step)
            else:
                stage.waiting[live] = step
        else:
            step.result = value
            self._end(stage, step)

    def _is_gone(self, stage: _Stage, step: Step) -> None:
        if step.action == "replace":
            self._submit(stage, step, self._writes.create_successor)
        else:
            step.result = "done"
            self._end(stage, step)

    def _end(self, stage: _Stage, step: Step) -> None:
        """Report a step's result, and start or skip the steps of its job's companions."""
        self.callbacks.on_step_done(step)
        for other in stage.leaving.ended(step):
            other.result, other.error = (
                "not-run",
                say("it stays because {object} was not deleted; run it again", object=step.key),
            )
            self.callbacks.on_step_done(other)

    def _submit(self, stage: _Stage, step: Step, task: Callable[[Step], str]) -> None:
        stage.busy += 1
        self._begun.add(id(step))
        future = self.session.executor.submit(task, step)

        def finished(future: Any) -> None:
            error = future.exception()
            self._events.put(("result", step.key, error if error is not None else future.result()))

        future.add_done_callback(finished)

    def _report_gone(self, key: Key) -> None:
        self._events.put(("gone", key, None))

    def _take_away(self, step: Step) -> str:
        """Delete the live object, unless the run is interrupted, out of time, or has lost its lease."""
        lost = self._leases.check() if self._leases is not None else None
        if lost:
            step.error = lost
            return "not-run"
        if self._is_interrupted():
            return "not-run"
        if time.monotonic() >= self._deadline:
            step.error = say("not started within the timeout of {timeout} s", timeout=f"{self.options.timeout:.0f}")
            return "not-run"
        return self._writes.delete_live(step)

    def _bring_about(self, step: Step) -> str:
        """Create or update the object, unless the run is interrupted."""
        return "not-run" if self._is_interrupted() else self._writes.write_desired(step)

    def _fail(self, stage: _Stage, step: Step, error: BaseException) -> None:
        step.result = "failed"
        self.plan.outage = self.plan.outage or is_outage(error)
        if isinstance(error, ClusterError):
            step.error = error.message if error.message.startswith(str(step.key)) else f"{step.key}: {error.message}"
            if error.hint:
                step.error += f" ({error.hint})"
        else:
            # A bug of gpuctl must not prevent the other steps from being finished.
            step.error = say(
                "{object}: internal error: {kind}: {error}", object=step.key, kind=type(error).__name__, error=error
            )
        self._end(stage, step)

    def _poll_deletions(self, stage: _Stage) -> None:
        """List the awaited objects every few seconds: a watch on a broken network receives no events."""
        if time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + _LOOK
            with contextlib.suppress(ClusterError):
                self._deletions.poll()
            self._give_up_leaving(stage)

    def _give_up_leaving(self, stage: _Stage) -> None:
        """Fail the replacements in terminating namespaces, where nothing can be created."""
        replaced = {key: step for key, step in stage.waiting.items() if step.action == "replace"}
        self._writes.leaving |= find_terminating(self.session, {key.namespace for key in replaced})
        for key, step in replaced.items():
            if key.namespace in self._writes.leaving:
                del stage.waiting[key]
                self._fail(
                    stage,
                    step,
                    ClusterError(
                        say(
                            "{object} is not created again: {reason}",
                            object=step.key,
                            reason=terminating_message(key.namespace),
                        )
                    ),
                )

    def _tell_waiting(self, stage: _Stage) -> None:
        self.callbacks.on_wait(f"waiting until gone: {first_few(stage.waiting)}")

    def _give_up(self, stage: _Stage) -> None:
        """Fail the steps whose objects still exist after the timeout; continue those whose objects are gone without an
        event.
        """
        # No time is left to wait for an unreachable server.
        self.session.patience = min(self.session.patience, PATIENCE)
        unknown = ""
        try:
            there = self._deletions.poll()
        except ClusterError as error:
            self.plan.outage = self.plan.outage or is_outage(error)
            unknown = error.message
            there = set(stage.waiting)
        for key in list(stage.waiting):
            step = stage.waiting.pop(key)
            if key not in there:
                self._gone.add(key)
                self._is_gone(stage, step)
                continue
            step.result = "failed"
            if unknown:
                step.error = say("{object}: whether it is gone is unknown: {reason}", object=key, reason=unknown)
            else:
                step.error = say(
                    "{object} still exists after {timeout} s{blockers}",
                    object=key,
                    timeout=f"{self.options.timeout:.0f}",
                    blockers=deletion_blockers(self.session, key),
                )
            if step.action == "replace":
                step.error += say(
                    "; the new one is created by {command} or the next apply once it is gone", command=RecoverHint()
                )
            self._end(stage, step)

    def _restore_companions(self, steps: Iterable[Step]) -> None:
        """Create companions again whose old workload stays or was restored."""
        mains = {step.key: step for step in self.plan.steps}
        for step in steps:
            main = mains.get(step.companion_of) if step.companion_of is not None else None
            if main is None or main.result == "done" or step.result != "done" or step.restorable is None:
                continue
            try:
                self._writes.create(step.restorable)
            except ClusterError as error:
                step.result, step.error = "failed", f"{step.key}: {error.message}"
            else:
                step.result = "restored"
                step.error = say("{object} was created again with {main}", object=step.key, main=step.companion_of)
                if main.result == "not-run":
                    # An interrupted workload is not a failure; a lost lease is the error to report.
                    step.result, step.error = "not-run", main.error or step.error
            self.callbacks.on_step_done(step)


def _note_restorable(session: Session, steps: list[Step], keys: Records, warn: Callable[[str], None]) -> None:
    """Set ``restorable`` of each step: the old object as it can be created again.

    Kueue's Workloads, which have the original node selectors, are deleted with the jobs. If the user may not list them,
    a warning is printed.

    :raises ClusterError: they cannot be listed for another reason.
    """
    leaving = [(step, step.live) for step in steps if step.is_journalled and step.live is not None]
    admitted = find_workloads(session, [live for _, live in leaving if was_admitted(live)])
    for step, live in leaving:
        step.restorable = restorable(live, keys, admitted.by_job.get(live["metadata"]["uid"]))
        if live["metadata"]["namespace"] in admitted.hidden and was_admitted(live):
            warn(
                say(
                    "warning: you may not list Kueue's workloads there: if {object} is created again as it was, it "
                    "keeps to the nodes of the flavor that it was admitted to",
                    object=key_of(live),
                )
            )

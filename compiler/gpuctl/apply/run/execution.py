"""Execution of a plan: stage by stage, sixteen requests at once. The journal keeps deleted objects until they are
replaced.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuctl.apply.plan.plan import WRITING, Plan, Step
from gpuctl.apply.run import journal as journals
from gpuctl.apply.run.interrupts import SignalHandler
from gpuctl.apply.run.journal_entries import CheckpointNote, checkpoints_not_recorded, entries_of
from gpuctl.apply.run.journal_secrets import Journal
from gpuctl.apply.run.lease import NAMESPACE_LEASE, Leases
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.stage_execution import RunState, StageExecution
from gpuctl.apply.run.step_stages import stages_of
from gpuctl.apply.run.step_writes import StepWrites
from gpuctl.apply.run.terminating_namespaces import find_terminating
from gpuctl.apply.state.controller_changes import change_of, is_unchanged
from gpuctl.hints import RecoverHint
from gpuctl.kube.api_errors import ApiError, Changed, ClusterError, is_outage
from gpuctl.kube.kueue import find_workloads
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.queueing import was_admitted
from gpuctl.objects.recreated_objects import restorable


class RunAborted(KeyboardInterrupt):
    """A second interrupt ended a run whose journals are left."""

    @property
    def advice(self) -> str:
        """Return the next step for the user."""
        return say("the journal is kept: {command}, or the next apply, finishes the run", command=RecoverHint())


class Execution:
    """One run of a plan."""

    def __init__(
        self, session: Session, plan: Plan, keys: Records, options: RunOptions, callbacks: RunCallbacks
    ) -> None:
        self.session = session
        self.plan = plan
        self.keys = keys
        self.options = options
        self.callbacks = callbacks
        self._journals: list[Journal] = []
        self._state = RunState(session, plan, options, callbacks, StepWrites(session, plan, keys, options, callbacks))

    def lease_keys(self) -> set[Key]:
        """Return the leases of the namespaces in which no other run may apply until this one ends."""
        namespaces = {step.key.namespace for step in self.plan.steps if step.deletes}
        return {Key("Lease", namespace, NAMESPACE_LEASE) for namespace in namespaces if namespace}

    def run(self, leases: Leases | None = None) -> None:
        """Carry the plan out within the session's time limit; each step gets its ``result`` and ``error``.

        :raises Changed: an object to delete has changed since the plan was made; nothing was done.
        :raises RunAborted: a second interrupt ended the run between two steps, and its journals are left.
        """
        self._state.leases = leases
        self.session.patience = max(self.session.patience, min(self.options.timeout, 120.0))
        deleting = [step for step in self.plan.steps if step.deletes]
        try:
            with SignalHandler(self._state.interrupt):
                # Restart the timeout: the wait for the lease does not count.
                self.session.count_from_now(self.options.timeout)
                if deleting:
                    self._check_unchanged(deleting, self._state.deletions.start())
                    self._journals = self._write_journals(deleting)
                    self._state.writes.is_journalled = bool(self._journals)
                self.session.count_from_now(self.options.timeout)
                self._run_stages()
                self._close_journals()
        except KeyboardInterrupt:
            self._mark_aborted()
            if self.plan.unfinished:
                raise RunAborted from None
            raise
        finally:
            self._state.deletions.stop()

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
        self.plan.unfinished = bool(self._journals) and self.plan.is_journalled
        for step in self.plan.steps:
            if step.result == "planned" and id(step) in self._state.begun:
                step.result, step.error = (
                    "failed",
                    say("{object}: interrupted: whether it was carried out is not known", object=step.key),
                )

    def _close_journals(self) -> None:
        """Remove the journals, except those that can still bring back an object of a failed step."""
        failed = {step.key.namespace for step in self.plan.steps if step.result == "failed" and step.is_journalled}
        for journal in self._journals:
            if journal.namespace in failed - self._state.writes.leaving:
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
        self._state.deadline = self._state.writes.deadline = time.monotonic() + self.options.timeout
        writing = [step for step in self.plan.steps if step.action in WRITING]
        for step in self.plan.steps:
            if step.action not in WRITING:
                step.result = "done"
                self.callbacks.on_step_done(step)
        failed = False
        for group in stages_of(writing):
            if failed or self._state.is_interrupted():
                for step in group:
                    step.result = "not-run"
                    self.callbacks.on_step_done(step)
                continue
            StageExecution(self._state, group).execute()
            failed = any(step.result in ("failed", "restored", "not-run") for step in group)


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

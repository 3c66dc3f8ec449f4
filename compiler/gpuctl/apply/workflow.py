"""Apply, create and delete from start to end: recover unfinished runs, plan, check, ask for confirmation, carry out."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuctl.apply.complete_plan import complete_named_plan, complete_plan, journal_namespaces
from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.disruption import annotate_applier
from gpuctl.apply.plan.plan import AlreadyExists, Declined, Plan, Refused, RightsMissing
from gpuctl.apply.plan.repeated_questions import unconfirmed
from gpuctl.apply.plan.set_run import SetRun
from gpuctl.apply.run import recovery, unfinished_runs
from gpuctl.apply.run.checkpoint_before_stop import checkpoint_targets
from gpuctl.apply.run.checkpointing import run_checkpoints
from gpuctl.apply.run.execution import Execution
from gpuctl.apply.run.history_writer import record_deletions
from gpuctl.apply.run.lease import Leases, hold_leases
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.unfinished_runs import UnfinishedRuns
from gpuctl.kube.api_errors import Changed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import TRAININGS, Key
from gpuctl.objects.ownership_metadata import Records

LEASE_WAIT = 20.0
"""Seconds to wait for another run: slightly more than the duration of a dead run's lease."""


def apply(
    session: Session, request: ApplyRequest, options: RunOptions, callbacks: RunCallbacks, seen: Plan | None = None
) -> Plan:
    """Apply documents. The steps of the returned plan have their results.

    :param seen: a plan that the user has seen: nothing else may be deleted.
    :raises Changed: more would be deleted than in ``seen``; nothing was changed.
    :raises Refused: the plan has obstacles, or the user did not confirm it; nothing was changed.
    :raises LeaseHeld: another run is in progress; nothing was changed.
    """
    with session.within(options.timeout):
        namespaces = journal_namespaces(session, request)
        unfinished = _read_unfinished(session, request.keys, options, callbacks, namespaces)
    with session.within(options.timeout):
        plan, set_run = complete_plan(session, request, unfinished, checkpoint=options.checkpoint)
    raise_obstacles(plan, unfinished)
    return _Run(session, request.keys, options, callbacks, unfinished, seen, request, set_run).run(plan)


def execute(
    session: Session,
    plan: Plan,
    keys: Records,
    options: RunOptions,
    callbacks: RunCallbacks,
    seen: Plan | None = None,
    checks: ApplyRequest | None = None,
) -> Plan:
    """Carry out a plan that is not made from documents: deletions and reruns.

    Interrupted runs are recovered first: a later recovery would create again what is deleted here.

    :param seen: see :func:`apply`.
    :param checks: options of the checks, for a plan that creates objects.
    :raises Changed: see :func:`apply`.
    """
    raise_obstacles(plan)
    with session.within(options.timeout):
        unfinished = _read_unfinished(session, keys, options, callbacks, {step.key.namespace for step in plan.steps})
        unfinished.add_recovery_to(session, plan, keys, {step.key: say("it is to be deleted") for step in plan.steps})
        raise_obstacles(plan)
        complete_named_plan(session, plan, keys, checks, checkpoint=options.checkpoint)
    raise_obstacles(plan)
    return _Run(session, keys, options, callbacks, unfinished, seen).run(plan)


def _read_unfinished(
    session: Session, keys: Records, options: RunOptions, callbacks: RunCallbacks, namespaces: set[str]
) -> UnfinishedRuns:
    """Read the journals of interrupted runs. Wait for a run that is still in progress, except in a dry run.

    :raises LeaseHeld: that run does not end in time.
    """
    unfinished = UnfinishedRuns.read(session, keys, namespaces)
    if not options.dry_run and any(item.invalid_reason is None for item in unfinished.journals):
        unfinished.journals = recovery.await_other_runs(
            session, keys, unfinished.journals, LEASE_WAIT, callbacks.on_message
        )
    return unfinished


@dataclass
class _Run:
    """The run of a complete plan. ``request`` are the documents that the plan is made from, ``set_run`` is their set's.

    ``saved`` are the uids of workloads whose checkpoints are done.
    """

    session: Session
    keys: Records
    options: RunOptions
    callbacks: RunCallbacks
    unfinished: UnfinishedRuns
    seen: Plan | None
    request: ApplyRequest | None = None
    set_run: SetRun | None = None
    saved: set[str] = field(default_factory=set)

    def run(self, plan: Plan) -> Plan:
        """Let the user confirm the plan, and carry it out unless it is a dry run."""
        if self.seen is not None:
            _refuse_more_deletions(plan, self.seen)
        if self.options.dry_run:
            return plan
        asked = plan.questions if self.request is not None else plan.questions or plan.courtesies
        if asked and not self.callbacks.confirm(plan):
            raise Declined(say("not confirmed"), plan)
        self._recover(plan)
        # Restart the timeout: time spent waiting for the confirmation does not count.
        with self.session.within(self.options.timeout):
            if self.unfinished.journals:
                _skip_gone(self.session, plan)
            is_settled = self.request is not None and (self.set_run is None or self.set_run.is_settled)
            if is_settled and not plan.writes:
                self._execution(plan).run()
                return plan
            plan = self._carry_out(plan)
            if self.unfinished.has_journals_to_finish:
                self._remove_journals(plan)
        return plan

    def _execution(self, plan: Plan) -> Execution:
        return Execution(self.session, plan, self.keys, self.options, self.callbacks)

    def _recover(self, plan: Plan) -> None:
        """Complete or restore what an interrupted run left, as the plan states."""
        recovery_plan, tell = self.unfinished.recovery_plan, self.callbacks.on_message
        if not recovery_plan.journals:
            return
        self.callbacks.on_start(plan)
        if plan.recovery:
            tell(say("recovering an interrupted apply"))
        result = recovery.recover(
            self.session, self.keys, recovery_plan, timeout=self.options.timeout, wait=LEASE_WAIT, tell=tell
        )
        outcomes = {item.key: item for item in result.results}
        for item in result.results:
            tell(say("{object}: {message}", object=item.key, message=item.message))
        for step in plan.recovery:
            found = outcomes.get(step.key)
            if found is not None:
                step.result = "failed" if found.outcome == "failed" else "done"
                step.reason = found.message
        unfinished_runs.raise_unrecovered(result, plan)
        self.unfinished.is_done = True

    def _carry_out(self, plan: Plan) -> Plan:
        """Carry the plan out, and return it; or the plan that replaced it, if the cluster has changed since."""
        leases = self._execution(plan).lease_keys()
        self.callbacks.on_start(plan)
        if self.set_run is not None:
            leases.add(self.set_run.lease)
            _create_set_namespace(self.session, plan, self.set_run)
        with (
            hold_leases(self.session, leases, LEASE_WAIT, self.callbacks.on_message, optional=True) as held,
            held.interrupts.let_through(),
        ):
            try:
                self._attempt(plan, held)
            except Changed as change:
                if self.request is None:
                    raise
                plan = self._planned_again(self.request, plan, change)
                self._attempt(plan, held)
            if self.set_run is not None and plan.is_done:
                self.set_run.write(self.session, self.set_run.final)
        return plan

    def _attempt(self, plan: Plan, held: Leases) -> None:
        if self.request is not None:
            annotate_applier(self.session, plan, self.keys)
        self._run_checkpoints(plan)
        if self.set_run is not None:
            self.set_run.write(self.session, self.set_run.superset)
        self._execution(plan).run(held)
        if any(step.action in ("delete", "prune") and step.key.kind in TRAININGS for step in plan.steps):
            record_deletions(self.session, plan, self.keys)

    def _planned_again(self, request: ApplyRequest, plan: Plan, change: Changed) -> Plan:
        """Make the plan again. It may continue if it deletes nothing that was not confirmed.

        :raises Changed: it deletes more.
        """
        again, self.set_run = complete_plan(self.session, request, self.unfinished, checkpoint=self.options.checkpoint)
        raise_obstacles(again)
        asked = unconfirmed(again.questions, plan.questions)
        if asked:
            more = say("{error}, and the plan now {questions:;}", error=change.message, questions=asked)
            raise Changed(more, say("nothing was changed; run it again to confirm this")) from None
        if not _deletions(again) <= _deletions(plan):
            raise change
        if self.seen is not None:
            _refuse_more_deletions(again, self.seen)
        again.recovery = plan.recovery
        self.callbacks.on_start(again)
        return again

    def _run_checkpoints(self, plan: Plan) -> None:
        """Let workloads that the plan ends save their progress.

        :raises CheckpointFailed: a checkpoint failed, and the user did not accept the loss.
        """
        ends = [
            (step, step.live)
            for step in plan.steps
            if step.checkpoint is not None and step.live is not None and step.live["metadata"]["uid"] not in self.saved
        ]
        if not ends:
            return
        session, callbacks = self.session, self.callbacks
        targets = checkpoint_targets(
            session, [live for _, live in ends], self.keys, self.unfinished, callbacks.on_message
        )
        session.count_from_now(self.options.timeout + callbacks.longest_checkpoint)
        pods = run_checkpoints(session, targets, self.keys, callbacks, plan)
        for step, live in ends:
            uid = live["metadata"]["uid"]
            self.saved.add(uid)
            step.saved = sorted(pods.get(uid, ()))
        # Restart the timeout: checkpoints and confirmations do not count.
        session.count_from_now(self.options.timeout)

    def _remove_journals(self, plan: Plan) -> None:
        """Remove the journals whose objects the plan has created itself."""
        if plan.is_done:
            unfinished_runs.remove_finished_journals(
                self.session, self.keys, self.unfinished, plan, self.options.timeout, LEASE_WAIT
            )
        else:
            plan.unfinished = True


def _create_set_namespace(session: Session, plan: Plan, run: SetRun) -> None:
    """Create the set's namespace first if the plan creates it: the set's parent and lease are written before it."""
    for step in plan.steps:
        if step.key == Key("Namespace", "", run.options.namespace) and step.action == "create" and step.desired:
            session.apply(step.desired)
            step.method = "none"


def _skip_gone(session: Session, plan: Plan) -> None:
    """Skip deletions of objects that are gone since: an interrupted run was deleting them."""
    for step in plan.steps:
        if step.action in ("delete", "prune") and step.live is not None:
            live = session.get(step.key)
            if live is None or live["metadata"]["uid"] != step.live["metadata"]["uid"]:
                step.action, step.live, step.reason = "skip", None, say("is gone")


def raise_obstacles(plan: Plan, unfinished: UnfinishedRuns | None = None) -> None:
    """Check that a plan has no obstacles.

    :raises Refused: it has some.
    """
    if plan.obstacles:
        more = [] if unfinished is None or not unfinished.recovery_plan.journals else [unfinished.advice]
        kind = AlreadyExists if plan.existing else Refused if plan.errors or plan.tracked else RightsMissing
        raise kind("\n".join([*plan.obstacles, *more]), plan)


def _refuse_more_deletions(plan: Plan, seen: Plan) -> None:
    """Check that a plan deletes nothing that another did not, not even a new object of the same name.

    :raises Changed: it does.
    """
    if not (_deletions(plan) <= _deletions(seen) and _ended(plan) <= _ended(seen)):
        raise Changed(say("the cluster has changed: more would be deleted than planned"), say("plan again"))


def _ended(plan: Plan) -> set[str]:
    """Return the uids of the objects that are deleted."""
    return {step.live["metadata"]["uid"] for step in plan.steps if step.deletes and step.live is not None}


def _deletions(plan: Plan) -> set[tuple[str, object]]:
    """Return what a plan ends: its deletions, the pods of others that it evicts, and its checkpoints."""
    evicted = {("evict", (loss.namespace, pod)) for step in plan.steps for loss in step.victims for pod in loss.pods}
    saving = {("save", (step.key, step.checkpoint)) for step in plan.steps if step.checkpoint is not None}
    return {(step.action, step.key) for step in plan.steps if step.deletes} | evicted | saving

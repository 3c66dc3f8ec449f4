"""Apply, create and delete from start to end: recover unfinished runs, plan, check, ask for confirmation, carry out."""

from __future__ import annotations

from gpuctl.apply.plan.apply_request import ApplyRequest, SetOptions
from gpuctl.apply.plan.checkpoint_notes import note_checkpoints
from gpuctl.apply.plan.confirmations import unconfirmed
from gpuctl.apply.plan.disruption import add_disruptions, annotate_applier
from gpuctl.apply.plan.evictions import add_fit_results
from gpuctl.apply.plan.plan import AlreadyExists, Declined, Plan, Refused, RightsMissing
from gpuctl.apply.plan.server_checks import check
from gpuctl.apply.plan.set_run import SetRun
from gpuctl.apply.planning import complete_plan, journal_namespaces
from gpuctl.apply.run import recovery, unfinished_runs
from gpuctl.apply.run.checkpoint_before_stop import checkpoint_targets
from gpuctl.apply.run.checkpointing import run_checkpoints
from gpuctl.apply.run.execution import Execution
from gpuctl.apply.run.history_writer import record_deletions
from gpuctl.apply.run.lease import hold_leases
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.run.unfinished_runs import UnfinishedRuns
from gpuctl.kube.api_errors import Changed
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import TRAININGS, Key
from gpuctl.objects.ownership_metadata import Records

LEASE_WAIT = 20.0
"""Seconds to wait for another run: slightly more than the duration of a dead run's lease."""


def apply(
    session: Session,
    request: ApplyRequest,
    options: RunOptions,
    callbacks: RunCallbacks,
    set_options: SetOptions | None = None,
    seen: Plan | None = None,
) -> Plan:
    """Apply documents. The steps of the returned plan have their results.

    :param seen: a plan that the user has seen: nothing else may be deleted.
    :raises Changed: more would be deleted than in ``seen``; nothing was changed.
    :raises Refused: the plan has obstacles, or the user did not confirm it; nothing was changed.
    :raises LeaseHeld: another run is in progress; nothing was changed.
    """
    keys = request.keys
    with session.within(options.timeout):
        namespaces = journal_namespaces(session, request, set_options)
        unfinished = _read_unfinished(session, keys, options, callbacks, namespaces)
    with session.within(options.timeout):
        plan, run = complete_plan(session, request, set_options, unfinished, server=True, checkpoint=options.checkpoint)
    raise_obstacles(plan, unfinished)
    if seen is not None:
        _refuse_more_deletions(plan, seen)
    if options.dry_run:
        return plan
    if plan.questions and not callbacks.confirm(plan):
        raise Declined("not confirmed", plan)
    _recover(session, unfinished, plan, keys, options, callbacks)
    # Restart the timeout: time spent waiting for the confirmation does not count.
    with session.within(options.timeout):
        if unfinished.journals:
            _skip_gone(session, plan)
        if not plan.writes and (run is None or run.is_settled):
            Execution(session, plan, keys, options, callbacks).run()
            return plan
        plan = _carry_out(session, plan, run, request, options, callbacks, set_options, unfinished, seen)
        if unfinished.has_journals_to_finish:
            _remove_journals(session, unfinished, plan, keys, options)
    return plan


def _carry_out(
    session: Session,
    plan: Plan,
    run: SetRun | None,
    request: ApplyRequest,
    options: RunOptions,
    callbacks: RunCallbacks,
    set_options: SetOptions | None,
    unfinished: UnfinishedRuns,
    seen: Plan | None,
) -> Plan:
    keys = request.keys
    leases = Execution(session, plan, keys, options, callbacks).lease_keys()
    callbacks.on_start(plan)
    if run is not None:
        leases.add(run.lease)
        _create_set_namespace(session, plan, run)
    with (
        hold_leases(session, leases, LEASE_WAIT, callbacks.on_message, optional=True) as held,
        held.interrupts.let_through(),
    ):
        saved: set[str] = set()
        for attempt in (1, 2):
            try:
                annotate_applier(session, plan, keys)
                _run_checkpoints(session, plan, keys, options, callbacks, unfinished, saved)
                if run is not None:
                    run.write(session, run.superset)
                Execution(session, plan, keys, options, callbacks).run(held)
                _record_deletions(session, plan, keys)
                break
            except Changed as change:
                # The plan is made again once. It may continue if it deletes nothing that was not confirmed.
                again, run = complete_plan(
                    session, request, set_options, unfinished, server=True, checkpoint=options.checkpoint
                )
                raise_obstacles(again)
                asked = unconfirmed(again.questions, plan.questions)
                if asked:
                    more = f"{change.message}, and the plan now {'; '.join(asked)}"
                    raise Changed(more, "nothing was changed; run it again to confirm this") from None
                if attempt == 2 or not _deletions(again) <= _deletions(plan):
                    raise
                if seen is not None:
                    _refuse_more_deletions(again, seen)
                again.recovery = plan.recovery
                plan = again
                callbacks.on_start(plan)
        if run is not None and _all_done(plan):
            run.write(session, run.final)
    return plan


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
        unfinished.add_recovery_to(session, plan, keys, {step.key: "it is to be deleted" for step in plan.steps})
        raise_obstacles(plan)
        add_disruptions(session, plan, keys)
        if options.checkpoint:
            note_checkpoints(plan, keys)
        check(session, plan, checks)
        raise_obstacles(plan)
        if checks is not None:
            add_fit_results(session, plan, checks)
            raise_obstacles(plan)
    if seen is not None:
        _refuse_more_deletions(plan, seen)
    if options.dry_run:
        return plan
    if (plan.questions or plan.courtesies) and not callbacks.confirm(plan):
        raise Declined("not confirmed", plan)
    _recover(session, unfinished, plan, keys, options, callbacks)
    execution = Execution(session, plan, keys, options, callbacks)
    leases = execution.lease_keys()
    callbacks.on_start(plan)
    with session.within(options.timeout):
        if unfinished.journals:
            _skip_gone(session, plan)
        with (
            hold_leases(session, leases, LEASE_WAIT, callbacks.on_message, optional=True) as held,
            held.interrupts.let_through(),
        ):
            _run_checkpoints(session, plan, keys, options, callbacks, unfinished, set())
            execution.run(held)
            _record_deletions(session, plan, keys)
        if unfinished.has_journals_to_finish:
            _remove_journals(session, unfinished, plan, keys, options)
    return plan


def _record_deletions(session: Session, plan: Plan, keys: Records) -> None:
    if any(step.action in ("delete", "prune") and step.key.kind in TRAININGS for step in plan.steps):
        record_deletions(session, plan, keys)


def _run_checkpoints(
    session: Session,
    plan: Plan,
    keys: Records,
    options: RunOptions,
    callbacks: RunCallbacks,
    unfinished: UnfinishedRuns,
    saved: set[str],
) -> None:
    """Let workloads that the plan ends save their progress; ``saved`` are the uids of workloads that are done with it.

    :raises CheckpointFailed: a checkpoint failed, and the user did not accept the loss.
    """
    steps = [step for step in plan.steps if step.checkpoint is not None and step.live is not None]
    steps = [step for step in steps if step.live["metadata"]["uid"] not in saved]  # type: ignore[index]
    if not steps:
        return
    targets = checkpoint_targets(
        session, [step.live for step in steps if step.live is not None], keys, unfinished, callbacks.on_message
    )
    session.count_from_now(options.timeout + callbacks.longest_checkpoint)
    pods = run_checkpoints(session, targets, keys, callbacks, plan)
    for step, target in zip(steps, targets, strict=True):
        uid = target.live["metadata"]["uid"]
        saved.add(uid)
        step.saved = sorted(pods.get(uid, ()))
    # Restart the timeout: checkpoints and confirmations do not count.
    session.count_from_now(options.timeout)


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


def _recover(
    session: Session,
    unfinished: UnfinishedRuns,
    plan: Plan,
    keys: Records,
    options: RunOptions,
    callbacks: RunCallbacks,
) -> None:
    """Complete or restore what an interrupted run left, as the plan states."""
    if not unfinished.recovery_plan.journals:
        return
    callbacks.on_start(plan)
    if plan.recovery:
        callbacks.on_message("recovering an interrupted apply")
    recovery_plan = unfinished.recovery_plan
    result = recovery.recover(
        session, keys, recovery_plan, timeout=options.timeout, wait=LEASE_WAIT, tell=callbacks.on_message
    )
    outcomes = {item.key: item for item in result.results}
    for item in result.results:
        callbacks.on_message(f"{item.key}: {item.message}")
    for step in plan.recovery:
        found = outcomes.get(step.key)
        if found is not None:
            step.result = "failed" if found.outcome == "failed" else "done"
            step.reason = found.message
    unfinished_runs.raise_unrecovered(result, plan)
    unfinished.is_done = True


def _remove_journals(
    session: Session, unfinished: UnfinishedRuns, plan: Plan, keys: Records, options: RunOptions
) -> None:
    """Remove the journals whose objects the plan has created itself."""
    if all(step.result == "done" for step in plan.steps):
        unfinished_runs.remove_finished_journals(session, keys, unfinished, plan, options.timeout, LEASE_WAIT)
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
                step.action, step.live, step.reason = "skip", None, "is gone"


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
        raise Changed("the cluster has changed: more would be deleted than planned", "plan again")


def _ended(plan: Plan) -> set[str]:
    """Return the uids of the objects that are deleted."""
    return {step.live["metadata"]["uid"] for step in plan.steps if step.deletes and step.live is not None}


def _deletions(plan: Plan) -> set[tuple[str, object]]:
    """Return what a plan ends: its deletions, the pods of others that it evicts, and its checkpoints."""
    evicted = {("evict", (loss.namespace, pod)) for step in plan.steps for loss in step.victims for pod in loss.pods}
    saving = {("save", (step.key, step.checkpoint)) for step in plan.steps if step.checkpoint is not None}
    return {(step.action, step.key) for step in plan.steps if step.deletes} | evicted | saving


def _all_done(plan: Plan) -> bool:
    return all(step.result == "done" for step in plan.steps)

"""The complete plan of an apply or a deletion: the steps, recovery of interrupted runs, and all checks."""

from __future__ import annotations

from gpuctl.apply.plan.apply_request import ApplyRequest
from gpuctl.apply.plan.checkpoint_notes import note_checkpoints
from gpuctl.apply.plan.claim_steps import note_kept_claims
from gpuctl.apply.plan.disruption import add_disruptions, note_finished
from gpuctl.apply.plan.evictions import add_fit_results
from gpuctl.apply.plan.missing_namespaces import add_set_namespace
from gpuctl.apply.plan.plan import Plan, Refused, Step
from gpuctl.apply.plan.planner import make_plan
from gpuctl.apply.plan.prerequisite_checks import (
    check_admission_gates,
    check_prerequisites,
    order_by_prerequisites,
)
from gpuctl.apply.plan.server_checks import check
from gpuctl.apply.plan.set_run import SetRun, plan_prune
from gpuctl.apply.plan.sweep_notes import note_changed_sweeps
from gpuctl.apply.run import unfinished_runs
from gpuctl.apply.run.unfinished_runs import UnfinishedRuns
from gpuctl.kube.api_errors import Changed
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.ownership_metadata import Records


def preview(session: Session, request: ApplyRequest, *, checkpoint: bool = True) -> Plan:
    """Return the plan, checked by the server unless the request is offline. Nothing is written.

    :param checkpoint: see :class:`RunOptions`.
    """
    unfinished = UnfinishedRuns.read(session, request.keys, journal_namespaces(session, request))
    return complete_plan(session, request, unfinished, checkpoint=checkpoint)[0]


def complete_named_plan(
    session: Session, plan: Plan, keys: Records, checks: ApplyRequest | None = None, *, checkpoint: bool
) -> None:
    """Complete a plan that is not made from documents by the work that it ends and its obstacles. Nothing is written.

    :param checks: options of the checks, for a plan that creates objects.
    """
    add_disruptions(session, plan, keys)
    if checkpoint:
        note_checkpoints(plan, keys)
    check(session, plan, checks)
    if checks is not None and not plan.obstacles:
        add_fit_results(session, plan, checks)


def complete_plan(
    session: Session,
    request: ApplyRequest,
    unfinished: UnfinishedRuns,
    *,
    checkpoint: bool,
) -> tuple[Plan, SetRun | None]:
    """Return the complete plan, and the run of its set.

    In this order: the action on each object, the set's Secret and its prunes, recovery of interrupted runs, disruption
    of running work, checkpoints, the server's checks, evictions and waits.
    """
    run, set_options, planning = None, request.set_options, request.planning
    if set_options is not None:
        if planning.prune and not planning.allow_empty and all(item.shared for item in request.lowered):
            raise Refused(
                say(
                    "there is no document left, and --prune would delete all that the set {set} contains: "
                    "--allow-empty if this is intended",
                    set=set_options.name,
                )
            )
        run = SetRun.read(session, set_options)
    absent: int | None = None
    while True:
        plan = make_plan(session, request, unfinished.deleted)
        if plan.writes:
            plan.confirm[:0] = request.confirm
        for step in plan.steps:
            if step.key in request.instead:
                _restore_former(step, request.instead[step.key])
        unwanted = {}
        if run is not None and set_options is not None:
            plan.set_name = set_options.name
            plan.notes += run.notes
            run.include_members(request, plan)
            add_set_namespace(
                session, plan, set_options.namespace, request.settings, request.sees, create=planning.create_namespace
            )
            if planning.prune:
                plan.steps += plan_prune(session, run, request, plan)
                note_kept_claims(session, plan, request.keys)
                unwanted = unfinished_runs.pruned_entries(unfinished, plan, set_options)
        unfinished.add_recovery_to(session, plan, request.keys, unwanted)
        note_finished(plan, request, session.server_time())
        note_changed_sweeps(session, plan, request)
        order_by_prerequisites(plan, request.keys)
        check_prerequisites(session, plan, request.keys)
        if not request.offline:
            check_admission_gates(session, plan, request.keys)
        add_disruptions(session, plan, request.keys)
        if checkpoint:
            note_checkpoints(plan, request.keys)
        try:
            if not request.offline and not plan.errors:
                check(session, plan, request)
            break
        except Changed:
            # Another run is creating the same objects one by one. Retry while fewer and fewer of them are missing.
            before, absent = absent, sum(step.action == "create" for step in plan.steps)
            if before is not None and absent >= before:
                raise
    if not request.offline and plan.writes and not plan.errors:
        add_fit_results(session, plan, request)
    return plan, run


def _restore_former(step: Step, former: Object) -> None:
    """Let a step bring back a former object, even if its document would be lowered to the current one."""
    step.desired, step.passed_dry_run = former, False
    if step.action in ("unchanged", "update") and step.live is not None:
        step.action, step.method, step.reason = "replace", "post", say("is restored as it was")


def journal_namespaces(session: Session, request: ApplyRequest) -> set[str]:
    """Return the namespaces whose journals concern an apply.

    For a set this includes its former namespaces: journalled objects there must be pruned.
    """
    namespaces = {item.object["metadata"].get("namespace") or "" for item in request.lowered}
    if request.set_options is not None:
        namespaces |= SetRun.read(session, request.set_options).superset.all_namespaces
    return namespaces

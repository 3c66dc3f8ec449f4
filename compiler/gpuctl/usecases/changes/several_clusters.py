"""Apply documents to several clusters: plan all first, then change one cluster after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.apply.complete_plan import complete_named_plan
from gpuctl.apply.plan.cluster_plan import ClusterPlan, ClusterState
from gpuctl.apply.plan.job_deletion import plan_document_deletion
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.plan.repeated_questions import all_confirmed
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.usecases.changes.applying import apply_request, preview_request, request_for
from gpuctl.usecases.changes.deleting import delete_compiled
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.compiling import compile_and_report


class PreparedChange(NamedTuple):
    """A plan for one cluster and the function that carries it out after confirmation.

    :param begun: plans that were started; the last one may be interrupted.
    """

    plan: Plan
    keys: Records
    carry_out: Callable[[], Plan]
    begun: list[Plan]


def prepare_apply(
    session: Session,
    documents: DocumentOptions,
    planning: PlanOptions,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    offline: bool = False,
) -> PreparedChange:
    """Prepare an apply. Only what this plan deletes or overwrites may be deleted or overwritten later."""
    wanted = request_for(session, documents, planning, callbacks, offline=offline)
    with session.within(run.timeout):
        plan = preview_request(session, wanted, callbacks, checkpoint=run.checkpoint)
    begun: list[Plan] = []
    talk = _asking_for_more(callbacks, plan, begun)
    return PreparedChange(plan, wanted.request.keys, lambda: apply_request(session, wanted, run, talk, plan), begun)


def prepare_delete(
    session: Session, documents: DocumentOptions, run: RunOptions, callbacks: RunCallbacks, *, keep_labels: bool
) -> PreparedChange:
    """Prepare a deletion of what documents describe, as :func:`prepare_apply`."""
    compilation = compile_and_report(session, documents, callbacks)
    keys = records(compilation.settings)
    with session.within(run.timeout):
        plan = plan_document_deletion(session, compilation.lowered, keys, keep_labels=keep_labels)
        complete_named_plan(session, plan, keys, checkpoint=run.checkpoint)

    begun: list[Plan] = []
    talk = _asking_for_more(callbacks, plan, begun)
    return PreparedChange(
        plan, keys, lambda: delete_compiled(session, compilation, run, talk, keep_labels=keep_labels, seen=plan), begun
    )


def _asking_for_more(callbacks: RunCallbacks, seen: Plan, begun: list[Plan]) -> RunCallbacks:
    """Return callbacks that ask only about what was not confirmed in an earlier plan."""

    def confirm(again: Plan) -> bool:
        asked, confirmed = ([*plan.questions, *plan.courtesies] for plan in (again, seen))
        return all_confirmed(asked, confirmed) or callbacks.confirm(again)

    return replace(callbacks, confirm=confirm, on_start=begun.append)


def plan_each(
    names: Iterable[str], opened: Callable[[str], Session], prepare: Callable[[str, Session], PreparedChange]
) -> tuple[list[ClusterPlan], dict[str, PreparedChange]]:
    """Plan for all clusters. A failure on one cluster does not hide those of others. Nothing is written.

    :param opened: open a session with the named cluster; errors are stored with the cluster.
    """
    plans: list[ClusterPlan] = []
    prepared: dict[str, PreparedChange] = {}
    for name in names:
        item = ClusterPlan(name)
        plans.append(item)
        try:
            session = opened(name)
            item.server = session.server
            prepared[name] = prepare(name, session)
            item.plan = prepared[name].plan
        except ClusterError as error:
            item.error, item.plan = error, getattr(error, "plan", None)
    return plans, prepared


def may_begin(plans: Iterable[ClusterPlan]) -> bool:
    """Return whether every plan can be carried out: if one cannot, no cluster is changed."""
    return not any(item.obstacles for item in plans)


def carry_out_each(
    plans: Sequence[ClusterPlan], prepared: Mapping[str, PreparedChange], begun: Callable[[ClusterPlan], None]
) -> None:
    """Carry the plans out one after another. If one cluster fails, the remaining clusters are not changed.

    :param begun: called with each cluster before its first request.
    :raises KeyboardInterrupt: the user interrupted; each cluster's state shows how far it has come.
    """
    for item in plans:
        item.state = "not-run"
    for item in plans:
        # Until its plan has ended.
        item.state = "failed"
        begun(item)
        try:
            item.plan = prepared[item.name].carry_out()
            item.state = _state(item.plan)
        except ClusterError as error:
            item.error = error
            item.plan = getattr(error, "plan", None) or item.plan
        except KeyboardInterrupt:
            _break_off(item, prepared[item.name].begun)
            raise
        if item.state != "done" or (item.plan is not None and item.plan.interrupted):
            return


def _break_off(item: ClusterPlan, begun: list[Plan]) -> None:
    """Set the state of a cluster whose plan the user interrupted."""
    item.state = "not-run"
    if begun:
        item.plan = begun[-1]
        item.state = "done" if item.plan.is_done else "interrupted"
        for step in item.plan.steps:
            step.result = "not-run" if step.result == "planned" else step.result


def _state(plan: Plan) -> ClusterState:
    """Return the state of a plan that has ended."""
    return "done" if plan.is_done else "interrupted" if plan.interrupted else "failed"

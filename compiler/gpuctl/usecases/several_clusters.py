"""Documents on several clusters: planned on all before anything is changed on any, then changed one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuctl.apply.plan.cluster_plan import ClusterPlan, ClusterState
from gpuctl.apply.plan.confirmations import all_confirmed
from gpuctl.apply.plan.job_deletion import plan_document_deletion
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import preview_deletion
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.usecases.applying import apply_request, preview_request, request_for
from gpuctl.usecases.change_options import DocumentOptions, PlanOptions
from gpuctl.usecases.compiling import compile_for, tell_left_out, worth_telling
from gpuctl.usecases.deleting import delete_compiled


class Prepared(NamedTuple):
    """What is to be done on one cluster, and how it is carried out once it has been confirmed.

    ``begun`` are the plans that were begun by then, the last one last: it may be broken off.
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
) -> Prepared:
    """An apply of documents: only what this plan takes away may be taken away later."""
    wanted = request_for(session, documents, planning, callbacks, offline=offline)
    with session.within(run.timeout):
        plan = preview_request(session, wanted, callbacks, checkpoint=run.checkpoint)
    begun: list[Plan] = []
    talk = _asking_for_more(callbacks, plan, begun)
    return Prepared(plan, wanted.request.keys, lambda: apply_request(session, wanted, run, talk, plan), begun)


def prepare_delete(
    session: Session, documents: DocumentOptions, run: RunOptions, callbacks: RunCallbacks, *, keep_labels: bool
) -> Prepared:
    """A deletion of what documents stand for, as :func:`prepare_apply`."""
    compilation = compile_for(session, documents)
    callbacks.on_diagnostics(worth_telling(compilation), compilation.sources)
    tell_left_out(compilation, documents, callbacks)
    keys = records(compilation.settings)
    with session.within(run.timeout):
        plan = plan_document_deletion(session, compilation.lowered, keys, keep_labels=keep_labels)
        preview_deletion(session, plan, keys, checkpoint=run.checkpoint)

    begun: list[Plan] = []
    talk = _asking_for_more(callbacks, plan, begun)
    return Prepared(
        plan, keys, lambda: delete_compiled(session, compilation, run, talk, keep_labels=keep_labels, seen=plan), begun
    )


def _asking_for_more(callbacks: RunCallbacks, seen: Plan, begun: list[Plan]) -> RunCallbacks:
    """Return callbacks that ask only for what was not confirmed in an earlier plan."""

    def confirm(again: Plan) -> bool:
        asked, confirmed = ([*plan.questions, *plan.courtesies] for plan in (again, seen))
        return all_confirmed(asked, confirmed) or callbacks.confirm(again)

    return replace(callbacks, confirm=confirm, on_start=begun.append)


def plan_each(
    names: Iterable[str], opened: Callable[[str], Session], prepare: Callable[[str, Session], Prepared]
) -> tuple[list[ClusterPlan], dict[str, Prepared]]:
    """The plans for all clusters: what stands in the way on one does not hide what does on another. Nothing is written.

    :param opened: a session with the cluster of a name; its errors, and those of the plan, are kept with the cluster.
    """
    plans: list[ClusterPlan] = []
    prepared: dict[str, Prepared] = {}
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


def carry_out_each(
    plans: Sequence[ClusterPlan], prepared: Mapping[str, Prepared], begun: Callable[[ClusterPlan], None]
) -> None:
    """Carry the plans out, one after another; the first that does not come to its end is the last that is begun.

    :param begun: hears of each before its first request.
    :raises KeyboardInterrupt: somebody does not want to wait; each plan's state tells how far it has come.
    """
    for item in plans:
        item.state = "not-run"
    for item in plans:
        # Until it has come to its end.
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
    """Say how far it had come when somebody did not want to wait any longer."""
    item.state = "not-run"
    if begun:
        item.plan = begun[-1]
        item.state = "done" if _is_done(item.plan) else "interrupted"
        for step in item.plan.steps:
            step.result = "not-run" if step.result == "planned" else step.result


def _state(plan: Plan) -> ClusterState:
    """What became of a plan that has come to its end."""
    return "done" if _is_done(plan) else "interrupted" if plan.interrupted else "failed"


def _is_done(plan: Plan) -> bool:
    return all(step.result == "done" for step in plan.steps)

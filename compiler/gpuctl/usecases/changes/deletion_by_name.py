"""`delete` of pools, quotas and namespaces by name."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.plan import admin_deletion
from gpuctl.apply.plan.plan import Declined, Plan
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.apply.workflow import execute
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records, records


def delete_pools(
    session: Session,
    names: Sequence[str],
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    keep_labels: bool = False,
) -> Plan:
    """Delete pools. Their jobs keep running.

    :param keep_labels: leave the pool's labels on its nodes.
    :raises NotThere: a pool does not exist.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    keys = records(settings)
    with session.within(run.timeout):
        plan = admin_deletion.plan_pool_deletion(session, names, settings, keys, keep_labels=keep_labels)
    return _carry_out(session, plan, Plan(), keys, run, callbacks)


def delete_quotas(
    session: Session,
    names: Sequence[str],
    settings: Settings,
    run: RunOptions,
    callbacks: RunCallbacks,
    *,
    namespace_too: bool = False,
) -> Plan:
    """Delete quotas by the names of their users (namespaces) or documents.

    :param namespace_too: also delete the namespaces that they limit, with everything in them.
    :raises NotThere: a quota does not exist.
    :raises Refused: a check failed, or the user did not confirm; nothing was changed.
    """
    keys = records(settings)
    namespaces = Plan()
    with session.within(run.timeout):
        plan, users = admin_deletion.plan_quota_deletion(session, names, settings)
        if namespace_too:
            namespaces = admin_deletion.plan_namespace_deletion(session, users, keys)
    if namespace_too:
        plan.confirm += namespaces.confirm
        # A ClusterQueue that running jobs use is deleted after the namespaces.
        deleted = {step.key for step in plan.steps if step.deletes}
        namespaces.steps = [step for step in namespaces.steps if step.key not in deleted]
        kept = {step.key for step in namespaces.steps}
        plan.steps = [step for step in plan.steps if step.key not in kept]
    else:
        plan.notes.append(say("namespace {names} and its contents stay, without a limit", names=[*users]))
    return _carry_out(session, plan, namespaces, keys, run, callbacks)


def delete_namespaces(
    session: Session, names: Sequence[str], settings: Settings, run: RunOptions, callbacks: RunCallbacks
) -> Plan:
    """Delete namespaces with everything in them.

    :raises NotThere: a namespace does not exist.
    :raises Refused: a namespace belongs to Kubernetes or gpuctl, or the user did not confirm; nothing was changed.
    """
    keys = records(settings)
    with session.within(run.timeout):
        namespaces = admin_deletion.plan_namespace_deletion(session, names, keys)
    return _carry_out(session, Plan(confirm=list(namespaces.confirm)), namespaces, keys, run, callbacks)


def _carry_out(
    session: Session, plan: Plan, namespaces: Plan, keys: Records, run: RunOptions, callbacks: RunCallbacks
) -> Plan:
    if plan.steps:
        execute(session, plan, keys, run, callbacks)
    elif plan.questions and not callbacks.confirm(plan):
        raise Declined(say("not confirmed"), plan)
    if namespaces.steps and all(step.result == "done" for step in plan.steps if step.action != "skip"):
        with session.within(run.timeout):
            admin_deletion.delete_namespaces(
                session, namespaces, run.timeout, callbacks.on_step_done, callbacks.on_wait
            )
    for step in namespaces.steps:
        if step.result == "planned":
            step.result = "not-run"
    plan.steps += namespaces.steps
    plan.outage = plan.outage or namespaces.outage
    return plan

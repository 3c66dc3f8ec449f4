"""``delete`` of pools, quotas and namespaces, by name."""

from __future__ import annotations

from collections.abc import Sequence

from gpuctl.apply.operations import execute
from gpuctl.apply.plan import removal
from gpuctl.apply.plan.plan import Declined, Plan
from gpuctl.apply.run.options import RunCallbacks, RunOptions
from gpuctl.kube.session import Session
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
    """Delete pools; their jobs go on running.

    :param keep_labels: leave their labels on their nodes.
    :raises NotThere: there is no such pool.
    :raises Refused: something stands against it, or was not confirmed; nothing was changed.
    """
    keys = records(settings)
    with session.within(run.timeout):
        plan = removal.plan_delete_pools(session, names, settings, keys, keep_labels=keep_labels)
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
    """Delete quotas, by the names of their users or documents.

    :param namespace_too: with the namespaces that they limit, and all that is in them.
    :raises NotThere: there is no such quota.
    :raises Refused: something stands against it, or was not confirmed; nothing was changed.
    """
    keys = records(settings)
    namespaces = Plan()
    with session.within(run.timeout):
        plan, users = removal.plan_delete_quotas(session, names, settings)
        if namespace_too:
            namespaces = removal.plan_delete_namespaces(session, users, keys)
    if namespace_too:
        plan.confirm += namespaces.confirm
    else:
        plan.notes.append(f"namespace {', '.join(users)} and all that is in it stays; nothing limits it any more")
    return _carry_out(session, plan, namespaces, keys, run, callbacks)


def delete_namespaces(
    session: Session, names: Sequence[str], settings: Settings, run: RunOptions, callbacks: RunCallbacks
) -> Plan:
    """Delete namespaces, and all that is in them.

    :raises NotThere: there is no such namespace.
    :raises Refused: it is Kubernetes' or gpuctl's own, or was not confirmed; nothing was changed.
    """
    keys = records(settings)
    with session.within(run.timeout):
        namespaces = removal.plan_delete_namespaces(session, names, keys)
    return _carry_out(session, Plan(confirm=list(namespaces.confirm)), namespaces, keys, run, callbacks)


def _carry_out(
    session: Session, plan: Plan, namespaces: Plan, keys: Records, run: RunOptions, callbacks: RunCallbacks
) -> Plan:
    if plan.steps:
        execute(session, plan, keys, run, callbacks)
    elif plan.questions and not callbacks.confirm(plan):
        raise Declined("not confirmed", plan)
    if namespaces.steps and all(step.result == "done" for step in plan.steps):
        with session.within(run.timeout):
            removal.delete_namespaces(session, namespaces, run.timeout, callbacks.done, callbacks.wait)
    for step in namespaces.steps:
        if step.result == "planned":
            step.result = "not-run"
    plan.steps += namespaces.steps
    return plan

"""``gpuctl delete pool|quota|namespace NAME``."""

from __future__ import annotations

from typing import NamedTuple

from gpuctl.apply.operations import Declined, execute
from gpuctl.apply.plan import removal
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.state.records import Records, records
from gpuctl.cli.changing import Manner, dialogue_of, how_of, show_result
from gpuctl.cli.options.connecting import Progress, cluster_errors, connected
from gpuctl.cli.options.planning_options import platform_settings
from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings


class Removal(NamedTuple):
    """What is to be deleted: names of a kind (pool, quota, namespace), and how."""

    kind: str
    names: list[str]
    platform: str | None
    keep_labels: bool
    namespace_too: bool


def remove(wanted: Removal, manner: Manner) -> int:
    """Delete it, after asking where something would be lost."""
    progress = Progress()
    with cluster_errors(as_json=manner.as_json):
        connection = connected(manner.kubeconfig, manner.context)
        try:
            settings = platform_settings(wanted.platform)
            plan = _carry_out(connection, wanted, settings, records(settings), manner, progress)
            progress.clear()
            return show_result(plan, manner)
        finally:
            progress.clear()
            connection.close()


def _carry_out(
    connection: Connection, wanted: Removal, settings: Settings, keys: Records, manner: Manner, progress: Progress
) -> Plan:
    how, dialogue = how_of(keys, manner, progress), dialogue_of(manner, progress)
    namespaces = Plan()
    if wanted.kind == "pool":
        plan = removal.plan_delete_pools(connection, wanted.names, settings, keys, keep_labels=wanted.keep_labels)
    elif wanted.kind == "quota":
        plan, users = removal.plan_delete_quotas(connection, wanted.names, settings)
        if wanted.namespace_too:
            namespaces = removal.plan_delete_namespaces(connection, users, keys)
            plan.confirm += namespaces.confirm
        else:
            plan.notes.append(f"namespace {', '.join(users)} and all that is in it stays; nothing limits it any more")
    else:
        plan = Plan()
        namespaces = removal.plan_delete_namespaces(connection, wanted.names, keys)
        plan.confirm += namespaces.confirm
    if plan.steps:
        execute(connection, plan, how, dialogue)
    elif plan.questions and not dialogue.ask(plan):
        raise Declined("not confirmed", plan)
    if namespaces.steps and all(step.result == "done" for step in plan.steps):
        removal.delete_namespaces(connection, namespaces, manner.timeout, how.done, progress.wait)
    for step in namespaces.steps:
        if step.result == "planned":
            step.result = "not-run"
    plan.steps += namespaces.steps
    return plan

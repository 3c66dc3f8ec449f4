"""Recovery from the command line: shown, asked, carried out."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from gpuctl.apply.operations import LEASE_WAIT
from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run import recovery
from gpuctl.apply.run.outlook import Outlook, RecoveryProblem, look
from gpuctl.apply.run.recovery import Recovery
from gpuctl.apply.state.records import Records, records
from gpuctl.cli.changing import Manner
from gpuctl.cli.options.connecting import MissingYes, Progress, agreed, cluster_errors, connected
from gpuctl.cli.options.planning_options import platform_settings
from gpuctl.cli.output import plan_lines as printer

_OUTAGE = 3


def recover_all(namespace: str | None, platform: str | None, manner: Manner) -> int:
    """``recover``."""
    progress = Progress()
    with cluster_errors(as_json=manner.as_json, of_plan=False):
        connection = connected(manner.kubeconfig, manner.context)
        try:
            keys = records(platform_settings(platform))
            outlook = look(connection, keys, recovery.find(connection, keys, namespace))
            if manner.dry_run is not None:
                return _show(outlook, Recovery(problems=outlook.problems), keys, manner)
            result = Recovery(problems=outlook.problems)
            if outlook.journals:
                _ask(outlook, keys, manner)
                result = recovery.recover(
                    connection, keys, outlook, timeout=manner.timeout, wait=LEASE_WAIT, tell=progress.wait
                )
            recovery.drop_leases(connection, namespace)
            progress.clear()
            return _show(outlook, result, keys, manner)
        finally:
            progress.clear()
            connection.close()


def _ask(outlook: Outlook, keys: Records, manner: Manner) -> None:
    """Have the creation of objects confirmed, after showing them whole.

    :raises Declined: somebody said no.
    :raises Unasked: nobody can be asked.
    """
    from gpuctl.apply.operations import Declined, Unasked

    plan = Plan(recovery=outlook.steps)
    if not plan.questions:
        return
    if not manner.yes and not manner.as_json:
        _preview(outlook, keys, err=True)
    try:
        confirmed = agreed(plan, yes=manner.yes)
    except Unasked as error:
        if manner.as_json:
            click.echo(render_json(outlook, Recovery(problems=outlook.problems), keys, error.message), nl=False)
            raise MissingYes(error.message) from None
        raise
    if not confirmed:
        raise Declined("not confirmed", plan)


def _preview(outlook: Outlook, keys: Records, *, err: bool = False) -> None:
    coloured = (sys.stderr if err else sys.stdout).isatty()
    for step in outlook.steps:
        click.echo(printer.recovery_line(step, coloured=coloured), err=err)
        if step.action == "create":
            click.echo("".join(printer.diff_text(step, keys, coloured=coloured)), nl=False, err=err)
            old = outlook.fallbacks.get(step.key)
            if old is not None:
                click.echo("".join(printer.fallback_text(step, old, keys, coloured=coloured)), nl=False, err=err)


def _show(outlook: Outlook, result: Recovery, keys: Records, manner: Manner) -> int:
    """Print what was done, or with ``--dry-run`` what would be; the exit code."""
    if manner.as_json:
        click.echo(render_json(outlook, result, keys), nl=False)
    elif manner.dry_run is not None:
        _preview(outlook, keys)
    else:
        for item in result.results:
            click.echo(f"{item.key}: {item.message}")
    for namespace, who in outlook.working.items():
        if manner.dry_run is not None:
            click.echo(f"note: {who} may still be applying in {namespace}", err=True)
    for problem in result.problems:
        click.echo(f"error: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"  = {problem.hint}", err=True)
    if not outlook.journals and not result.problems and not manner.as_json:
        click.echo("Nothing to recover.", err=True)
    if any(not problem.refused for problem in result.problems):
        return _OUTAGE
    return 1 if result.failed or result.problems else 0


def render_json(outlook: Outlook, result: Recovery, keys: Records, error: str | None = None) -> str:
    """What is to be recovered, what was, and what could not be, as one JSON value."""
    value: dict[str, Any] = {
        "planned": [printer.planned_json(step, keys, outlook.fallbacks.get(step.key)) for step in outlook.steps],
        "recovered": [
            {
                "kind": item.key.kind,
                "apiVersion": item.key.resource.api_version,
                "namespace": item.key.namespace,
                "name": item.key.name,
                "outcome": item.outcome,
                "message": item.message,
            }
            for item in result.results
        ],
        "problems": [_problem(problem) for problem in result.problems],
    }
    if error is not None:
        value["error"] = error
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _problem(problem: RecoveryProblem) -> dict[str, str | None]:
    return {"namespace": problem.namespace, "message": problem.message, "hint": problem.hint}

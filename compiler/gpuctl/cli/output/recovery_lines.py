"""Printing unfinished changes of interrupted runs and the result of their recovery."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gpuctl.api.plan_answers import RecoveryOutput, recovery_fields
from gpuctl.cli.output import plan_lines as printer
from gpuctl.cli.output.printing import show_value

if TYPE_CHECKING:
    from gpuctl.usecases.changes.run_recovery import UnfinishedRecovery
    from gpuctl.usecases.changes.service_recovery import ServiceRecovery


def show_planned_recovery(found: UnfinishedRecovery | ServiceRecovery, *, err: bool = False) -> None:
    """Print the objects that will be created, in full, and the other steps."""
    coloured = (sys.stderr if err else sys.stdout).isatty()
    for step in found.outlook.steps:
        click.echo(printer.recovery_line(step, coloured=coloured), err=err)
        if step.action == "create":
            click.echo("".join(printer.diff_text(step, found.keys, coloured=coloured)), nl=False, err=err)
            old = found.outlook.fallbacks.get(step.key)
            if old is not None:
                shown = "".join(printer.fallback_text(step, old, found.keys, coloured=coloured))
                click.echo(shown, nl=False, err=err)


def show_recovery(found: UnfinishedRecovery | ServiceRecovery, *, dry_run: bool, as_json: bool) -> None:
    """Print what was recovered, or with ``dry_run`` what would be."""
    outlook, result = found.outlook, found.result
    if as_json:
        show_recovery_value(found)
    elif dry_run:
        show_planned_recovery(found)
    else:
        for item in result.results:
            click.echo(f"{item.key}: {item.message}")
    for namespace, who in outlook.working.items():
        if dry_run:
            click.echo(f"note: {who} may still be applying in {namespace}", err=True)
    for problem in result.problems:
        click.echo(f"error: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"  = {problem.hint}", err=True)
    if not outlook.journals and not result.problems and not as_json:
        click.echo("Nothing to recover.", err=True)


def show_recovery_value(found: UnfinishedRecovery | ServiceRecovery, error: str | None = None) -> None:
    """Print the recovery as one JSON value; ``error``: why nothing was done."""
    fields = recovery_fields(found.outlook.steps, found.outlook.fallbacks, found.result, found.keys)
    if error is not None:
        fields["error"] = error
    show_value(RecoveryOutput(**fields).as_json(), "json")

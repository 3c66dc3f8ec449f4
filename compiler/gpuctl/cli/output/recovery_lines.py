"""Printing unfinished changes of interrupted runs and the result of their recovery."""

from __future__ import annotations

import sys

import click

from gpuctl.api.plan_steps import step_of
from gpuctl.api.recovery_answers import Recoveries, output_value
from gpuctl.cli.output import plan_lines as printer
from gpuctl.cli.output.printing import show_value
from gpuctl.objects.api_resources import Key


def show_planned_recovery(found: Recoveries, *, err: bool = False) -> None:
    """Print the objects that will be created, in full, and the other steps."""
    coloured = (sys.stderr if err else sys.stdout).isatty()
    for item in found.planned:
        step = step_of(item)
        click.echo(printer.recovery_line(step, coloured=coloured), err=err)
        if item.object is not None:
            click.echo("".join(printer.object_diff(step.key, None, item.object, coloured=coloured)), nl=False, err=err)
            if item.if_refused is not None:
                shown = "".join(printer.fallback_text(step.key, item.object, item.if_refused, coloured=coloured))
                click.echo(shown, nl=False, err=err)


def show_recovery(found: Recoveries, *, dry_run: bool, as_json: bool) -> None:
    """Print what was recovered, or with ``dry_run`` what would be."""
    if as_json:
        show_recovery_value(found)
    elif dry_run:
        show_planned_recovery(found)
    else:
        for item in found.recovered:
            failed = "failed: " if item.outcome == "failed" else ""
            click.echo(f"{Key(item.kind, item.namespace, item.name)}: {failed}{item.message}")
    for namespace, who in found.working.items():
        if dry_run:
            click.echo(f"note: {who} may still be applying in {namespace}", err=True)
    for problem in found.problems:
        click.echo(f"error: {problem.message}", err=True)
        if problem.hint:
            click.echo(f"  = {problem.hint}", err=True)
    if not found.journals and not found.problems and not as_json:
        click.echo("Nothing to recover.", err=True)


def show_recovery_value(found: Recoveries, error: str | None = None) -> None:
    """Print the recovery as one JSON value; ``error``: why nothing was done."""
    show_value(output_value(found, error), "json")

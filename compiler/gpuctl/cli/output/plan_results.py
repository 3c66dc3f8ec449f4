"""Printing a plan, its differences and its result, as text or as one JSON value."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import click

from gpuctl.api.plan_answers import FAILED, plan_value, result_code
from gpuctl.apply.plan.plan import Plan, Step
from gpuctl.cli.command_target import recover_command
from gpuctl.cli.output import plan_lines as printer
from gpuctl.cli.output.printing import show_next_steps, show_value
from gpuctl.cli.output.terminal import is_coloured
from gpuctl.gitops.markdown import fold
from gpuctl.language.masking import redact
from gpuctl.objects.ownership_metadata import Records


def show_step(step: Step) -> None:
    """Print the line of a finished step."""
    if not printer.is_shown(step):
        return
    # A closed pipe (`| head`) or a full disk must not stop a plan half way. The exit code is that of the plan.
    with contextlib.suppress(OSError, ValueError):
        click.echo(printer.result_line(step, coloured=is_coloured()))


def show_plan(plan: Plan, dry_run: str, *, as_json: bool) -> None:
    """Print the steps of a plan, its questions and its obstacles."""
    if as_json:
        show_value(plan_value(plan, error="\n".join(plan.obstacles) or None), "json")
    else:
        for step in plan.recovery:
            click.echo(printer.recovery_line(step, coloured=is_coloured()))
        for step in plan.steps:
            if printer.is_shown(step):
                click.echo(printer.planned_line(step, coloured=is_coloured()))
                sys.stdout.writelines(printer.document_lines(step))
        _print_notes(plan)
        if not plan.obstacles:
            for question in plan.questions:
                click.echo(f"will ask: {question}", err=True)
            click.echo(f"{printer.summary_line(plan)} ({dry_run} dry run, nothing was changed)", err=True)
    for error in plan.obstacles:
        click.echo(f"error: {error}", err=True)


def show_difference(plan: Plan, keys: Records, output: str) -> None:
    """Print the diff of each object, as ``text``, ``json`` or ``markdown``."""
    if output == "json":
        show_value(plan_value(plan, error="\n".join(plan.errors) or None), "json")
    else:
        _show_differences(plan, keys, markdown=output == "markdown")
    _print_notes(plan)
    for obstacle in (*plan.tracked, *plan.lacking):
        click.echo(f"note: this could not be applied: {obstacle}", err=True)
    for error in dict.fromkeys(plan.errors):
        click.echo(f"error: {error}", err=True)


def _show_differences(plan: Plan, keys: Records, *, markdown: bool) -> None:
    coloured = not markdown and is_coloured()
    if markdown:
        click.echo(f"{printer.summary_line(plan)}.")
    for step in plan.recovery:
        line = printer.recovery_line(step, coloured=coloured)
        diff = printer.diff_text(step, keys, coloured=coloured) if step.action == "create" else []
        if markdown:
            click.echo(fold(line, "".join(diff)), nl=False)
        else:
            click.echo(line)
            sys.stdout.writelines(diff)
    for step in plan.steps:
        line = printer.planned_line(step, coloured=coloured)
        diff = [*printer.document_lines(step), *printer.diff_text(step, keys, coloured=coloured)]
        if step.action in ("unchanged", "skip"):
            if printer.is_shown(step) and not markdown:
                click.echo(line)
        elif markdown:
            click.echo(fold(line, "".join(diff)), nl=False)
        else:
            click.echo(line)
            sys.stdout.writelines(diff)


def finish(plan: Plan, *, as_json: bool) -> int:
    """Print the result of a plan, and return the exit code."""
    show_result(plan, as_json=as_json)
    return result_code(plan)


def show_result(plan: Plan, *, as_json: bool, cluster: str | None = None) -> None:
    """Print the result of a plan whose steps were printed when they finished.

    :param cluster: the cluster, if the command changes several; each has its own summary line.
    """
    if as_json:
        show_value(plan_value(plan), "json")
    elif sys.stdout.isatty() and cluster is None:
        click.echo(printer.summary_line(plan, done=True), err=True)
    _print_notes(plan)
    failed = [step for step in plan.steps if step.result in FAILED]
    undone = [step for step in plan.steps if step.result == "not-run"]
    if failed:
        said = f"{len(failed)} of {len(plan.steps)} steps failed"
        if undone:
            said += f", and {_not_started(undone)}"
        click.echo(f"error: {said}", err=True)
        if plan.outage and not as_json:
            for error in dict.fromkeys(step.error for step in failed if step.error):
                click.echo(f"error: {error}", err=True)
        if plan.unfinished:
            click.echo(
                f"Unfinished changes are recorded: `{recover_command(cluster)}`, or the next apply, finishes them.",
                err=True,
            )
    elif plan.interrupted and undone:
        click.echo(f"Interrupted: {_not_started(undone)}.", err=True)
    elif undone:
        click.echo(f"error: {undone[0].error}: {_not_started(undone)}", err=True)
    elif not as_json and cluster is None and (step := printer.next_step(plan)) is not None:
        show_next_steps(step)


def _not_started(steps: Sequence[Step]) -> str:
    return f"{len(steps)} {'step was' if len(steps) == 1 else 'steps were'} not started"


def _print_notes(plan: Plan) -> None:
    for note in dict.fromkeys(plan.notes):
        click.echo(f"note: {redact(note)}", err=True)

"""What became of nodes and jobs that were changed without a plan, printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from gpuctl.acts.node_labels import Report
from gpuctl.api.change_answers import paused_value, report_code, report_value
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import is_coloured

if TYPE_CHECKING:
    from gpuctl.usecases.suspending import PausedJob


def show_report(report: Report, done: str, *, as_json: bool) -> int:
    """Print it, and return the exit code.

    :param done: what was done, as a participle.
    """
    if as_json:
        show_value(report_value(report, done), "json")
    else:
        for item in report.done:
            click.echo(f"node/{item.name}  {item.text}")
    for problem in report.failed:
        click.echo(f"error: {problem.text}", err=True)
    for note in dict.fromkeys(report.notes):
        click.echo(f"note: {note}", err=True)
    return report_code(report)


def show_paused(jobs: Iterable[PausedJob], *, as_json: bool) -> None:
    """Print what becomes of jobs that are paused or resumed, a line each as it is done."""
    items = []
    for job, result in jobs:
        kind, name = job.identity.kind, job.identity.name
        items.append(paused_value(job, result))
        if not as_json:
            word = click.style(result.status, fg="yellow" if result.status == "paused" else "green")
            lead = word if is_coloured() else result.status
            padding = " " * (9 - len(result.status))
            click.echo(f"{lead}{padding} {kind}/{name} -n {result.key.namespace}  ({result.message})")
            sys.stdout.flush()
    if as_json:
        show_value({"items": items}, "json")

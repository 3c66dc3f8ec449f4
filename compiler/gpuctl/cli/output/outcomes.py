"""What became of nodes and jobs that were changed without a plan, printed."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from gpuctl.api.change_answers import paused_value
from gpuctl.api.labels_of_nodes import BatchReport
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import is_coloured

if TYPE_CHECKING:
    from gpuctl.usecases.suspending import PausedJob


def show_report(report: BatchReport, *, as_json: bool) -> int:
    """Print a report. Return the exit code: 1 if a node was not changed, 3 if that is the cluster's fault."""
    if as_json:
        show_value(report.as_json(), "json")
    else:
        for node in report.nodes:
            click.echo(f"node/{node.node_name}  {node.message}")
    for problem in report.failed:
        click.echo(f"error: {problem.message}", err=True)
    for note in dict.fromkeys(report.notes):
        click.echo(f"note: {note}", err=True)
    if not report.failed:
        return 0
    return 3 if any(item.is_outage for item in report.failed) else 1


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

"""Printing the results of changes without a plan: labels of nodes, pool membership, pause and resume."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from gpuctl.api.change_answers import PausedJobAnswer, PausedJobs
from gpuctl.api.node_label_answers import BatchReport
from gpuctl.cli.output.printing import show_next_steps, show_value
from gpuctl.cli.output.terminal import is_coloured
from gpuctl.hints import reach_job, resume_job


def show_batch_report(report: BatchReport, *, as_json: bool) -> int:
    """Print a report. Return the exit code: 1 if a node was not changed, 3 if the cluster failed."""
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


def show_paused(jobs: Iterable[PausedJobAnswer], *, as_json: bool) -> None:
    """Print one line for each paused or resumed job, immediately after the change."""
    items = []
    for job in jobs:
        items.append(job)
        if not as_json:
            word = job.status if job.changed else "unchanged"
            lead = click.style(word, fg="yellow" if job.status == "paused" else "green") if is_coloured() else word
            padding = " " * (9 - len(word))
            click.echo(f"{lead}{padding} {job.kind}/{job.name} -n {job.namespace}  ({job.message})")
            sys.stdout.flush()
    if as_json:
        show_value(PausedJobs(items=items).as_json(), "json")
    elif items:
        job = items[0]
        is_paused = job.status == "paused"
        show_next_steps(
            resume_job(job.name, job.namespace) if is_paused else reach_job(job.kind, job.name, job.namespace)
        )

"""Printing plans for several clusters: under a heading per cluster, or as one JSON value."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from gpuctl.api.cluster_answers import clusters_value
from gpuctl.apply.plan.cluster_plan import ClusterPlan
from gpuctl.apply.run.wait_running import NotRunning
from gpuctl.cli.command_target import recover_command
from gpuctl.cli.output import plan_lines as printer
from gpuctl.cli.output.plan_results import show_difference, show_plan, show_result
from gpuctl.cli.output.printing import show_value
from gpuctl.cli.output.terminal import is_coloured
from gpuctl.objects.ownership_metadata import Records


def heading(item: ClusterPlan, *, markdown: bool = False) -> str:
    """Return the heading of a cluster: ``cluster prod (https://...):``."""
    where = f" ({item.server})" if item.server else ""
    if markdown:
        return f"## Cluster {item.name}{where}\n"
    text = f"cluster {item.name}{where}:"
    return click.style(text, bold=True) if is_coloured() else text


def show_cluster_plans(plans: Sequence[ClusterPlan], dry_run: str, *, as_json: bool) -> None:
    """Print the plan for each cluster, and its obstacles."""
    if as_json:
        show_value(clusters_value(plans), "json")
    for item in plans:
        if not as_json:
            click.echo(heading(item))
            sys.stdout.flush()
        if item.plan is not None and item.error is None and not as_json:
            show_plan(item.plan, dry_run, as_json=False)
        else:
            show_obstacles(item)


def show_cluster_differences(plans: Sequence[ClusterPlan], keys: dict[str, Records], output: str) -> None:
    """Print the differences on each cluster as ``text``, ``json`` or ``markdown``."""
    if output == "json":
        show_value(clusters_value(plans), "json")
    for item in plans:
        if output != "json":
            click.echo(heading(item, markdown=output == "markdown"))
            sys.stdout.flush()
        if item.plan is not None and item.error is None and output != "json":
            show_difference(item.plan, keys[item.name], output)
        else:
            show_obstacles(item)


def show_obstacles(item: ClusterPlan) -> None:
    """Print to standard error why a cluster cannot be changed."""
    for obstacle in item.obstacles:
        click.echo(f"error: cluster {item.name}: {obstacle}", err=True)
    if item.error is not None and item.error.hint:
        click.echo(f"  = {item.error.hint}", err=True)


def show_cluster_results(plans: Sequence[ClusterPlan], *, as_json: bool) -> None:
    """Print the results of plans whose steps were printed when they finished, and at the end one line per cluster."""
    if as_json:
        show_value(clusters_value(plans), "json")
    for item in plans:
        if item.state not in ("not-run", "interrupted") and item.plan is not None and item.error is None:
            _show_one(item)
        elif item.error is not None:
            show_obstacles(item)
            if item.plan is not None and item.plan.unfinished:
                click.echo(f"Unfinished changes are recorded: `{recover_command(item.name)}` finishes them.", err=True)
    for item in plans:
        click.echo(f"cluster {item.name}: {_outcome(item)}", err=True)


def _show_one(item: ClusterPlan) -> None:
    assert item.plan is not None, "it was carried out"
    show_result(item.plan, as_json=False, cluster=item.name)


def _is_carried_out(item: ClusterPlan) -> bool:
    """Return True if all steps were carried out, but the created jobs do not run."""
    return isinstance(item.error, NotRunning) and not item.error.plan.unfinished


def _outcome(item: ClusterPlan) -> str:
    if item.state == "not-run":
        return "not run, nothing was changed"
    is_told = item.error is None or _is_carried_out(item)
    done = printer.summary_line(item.plan, done=True) if item.plan is not None and is_told else ""
    if item.state == "done":
        return done
    if item.state == "interrupted":
        unfinished = item.plan is not None and item.plan.unfinished
        return f"interrupted: {done}" + (
            f"; `{recover_command(item.name)}` finishes the unfinished changes" if unfinished else ""
        )
    advice = "" if is_told else f"; `{recover_command(item.name)}` shows the unfinished changes"
    return f"failed{f': {done}' if done else ''}{advice}"

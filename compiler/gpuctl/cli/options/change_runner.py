"""Running a command that changes a cluster: connection, confirmation on the terminal, progress on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import click

from gpuctl.api.plan_answers import preview_code
from gpuctl.apply.plan.plan import ConfirmationMissing, Plan, Step
from gpuctl.apply.run.run_options import RunCallbacks, RunOptions
from gpuctl.cli.command_target import set_current_cluster
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.connection_options import (
    ConnectionOptions,
    Progress,
    cluster_errors,
    cluster_options,
    json_option,
    open_cluster,
    selected_service,
    several_clusters_options,
)
from gpuctl.cli.options.duration_values import read_timeout
from gpuctl.cli.output import text
from gpuctl.cli.output.plan_results import finish, show_plan, show_step
from gpuctl.kube.session import Session
from gpuctl.usecases.service.service_client import ServiceClient


class Invocation(NamedTuple):
    """The options of a command that changes a cluster. ``timeout``: seconds. ``refusal``: exit code of a refusal."""

    connection: ConnectionOptions
    yes: bool = False
    as_json: bool = False
    timeout: float = RunOptions.timeout
    refusal: int = 1


yes_option = click.option("-y", "--yes", is_flag=True, help="Confirm all questions.")
_changing = (
    json_option,
    click.option(
        "--timeout",
        default="5m",
        show_default=True,
        callback=read_timeout,
        metavar="TIME",
        help="How long to wait for deletions, quotas and responses, such as 90s or 1h30m.",
    ),
    yes_option,
)
changing_options = bound("invocation", Invocation, cluster_options, *_changing)
"""Adds the options of commands that change the cluster, and those that select it; the command gets an
:class:`Invocation`.
"""
several_clusters_changing_options = bound("invocation", Invocation, several_clusters_options, *_changing)
"""The same for a command that changes several clusters."""


class ClusterTarget(NamedTuple):
    """The session with the cluster that a command changes, and the command's callbacks."""

    session: Session
    callbacks: RunCallbacks


class ServiceTarget(NamedTuple):
    """The client of the service by which a command changes a cluster, and the command's callbacks."""

    service: ServiceClient
    callbacks: RunCallbacks


def show_outcome(plan: Plan, invocation: Invocation, dry_run: str | None) -> int:
    """Print the result of a plan, or with ``dry_run`` the plan. Return the exit code."""
    if dry_run is None:
        return finish(plan, as_json=invocation.as_json)
    show_plan(plan, dry_run, as_json=invocation.as_json)
    return preview_code(plan)


@contextlib.contextmanager
def service_change(invocation: Invocation, *, of_plan: bool = True) -> Iterator[ServiceTarget | None]:
    """Connect to the selected service; None if the command works on a cluster. See :func:`cluster_change`."""
    progress = Progress()
    with cluster_errors(as_json=invocation.as_json, refusal=invocation.refusal, of_plan=of_plan):
        service = selected_service(invocation.connection)
        if service is None:
            yield None
            return
        try:
            yield ServiceTarget(service, callbacks_of(invocation, progress))
        finally:
            progress.clear()
            service.close()


@contextlib.contextmanager
def cluster_change(
    invocation: Invocation, *, of_plan: bool = True, cluster: str | None = None
) -> Iterator[ClusterTarget]:
    """Connect to the cluster, and turn failures into messages and exit codes as :func:`cluster_errors` does.

    :param cluster: the cluster that the documents name; default: that of ``--cluster``.
    """
    progress = Progress()
    with cluster_errors(as_json=invocation.as_json, refusal=invocation.refusal, of_plan=of_plan):
        session = open_cluster(invocation.connection, changes=True, cluster=cluster)
        if cluster is not None:
            set_current_cluster(cluster)
        try:
            yield ClusterTarget(session, callbacks_of(invocation, progress))
        finally:
            progress.clear()
            session.close()


def callbacks_of(invocation: Invocation, progress: Progress) -> RunCallbacks:
    """Return the callbacks of a command that changes a cluster."""

    def confirm(plan: Plan) -> bool:
        progress.clear()
        return confirm_plan(plan, yes=invocation.yes)

    def done(step: Step) -> None:
        progress.clear()
        if not invocation.as_json:
            show_step(step)

    return RunCallbacks(
        confirm=confirm,
        on_diagnostics=lambda diagnostics, sources: text.write(diagnostics, sources, sys.stderr),
        on_step_done=done,
        on_wait=progress.wait,
        on_message=progress.say,
        accept_lost_progress=partial(_accept_loss, progress),
    )


@contextlib.contextmanager
def checkpoint_callbacks(*, without_checkpoint: bool) -> Iterator[RunCallbacks | None]:
    """Yield the callbacks for checkpoints of a command that makes no plan; None with ``--without-checkpoint``."""
    if without_checkpoint:
        yield None
        return
    progress = Progress()

    try:
        yield RunCallbacks(
            on_wait=progress.wait, on_message=progress.say, accept_lost_progress=partial(_accept_loss, progress)
        )
    finally:
        progress.clear()


def _accept_loss(progress: Progress, problems: Sequence[str]) -> bool:
    progress.clear()
    return confirm_lost_progress(problems)


def can_ask_user() -> bool:
    """Return True if the user can be asked: standard input and standard error are terminals."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm_lost_progress(problems: Sequence[str]) -> bool:
    """Ask the user whether jobs may end although their checkpoints failed; ``--yes`` does not confirm this. False if
    the user cannot be asked.
    """
    if not can_ask_user():
        return False
    for problem in problems:
        click.echo(problem, err=True)
    return click.confirm("Continue and lose progress?", default=False, err=True)


def confirm_plan(plan: Plan, *, yes: bool) -> bool:
    """Return True if the plan's losses are confirmed, by ``--yes`` or by the user's answer.

    :raises ConfirmationMissing: confirmation is needed and the user cannot be asked.
    """
    if yes:
        return True
    can_ask = can_ask_user()
    if not plan.questions and not can_ask:
        return True
    for step in plan.steps:
        if step.waits and step.action == "create":
            click.echo(f"{step.title} in {step.key.namespace} {step.waiting}", err=True)
    for question in [*plan.questions, *plan.courtesies]:
        click.echo(question, err=True)
    if not can_ask:
        raise ConfirmationMissing("cannot ask for confirmation: use --yes", plan)
    return click.confirm("Continue?", default=False, err=True)

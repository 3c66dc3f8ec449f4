"""A command that changes a cluster: connected, with somebody to ask, and with progress on standard error."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click

from gpuctl.api.plan_answers import preview_code
from gpuctl.apply.plan.plan import Plan, Step, Unasked
from gpuctl.apply.run.options import RunCallbacks
from gpuctl.cli.named_clusters import works_on
from gpuctl.cli.options.connecting import Progress, asked_service, cluster_errors, connected
from gpuctl.cli.output import text
from gpuctl.cli.output.plan_results import finish, show_plan, show_step
from gpuctl.kube.session import Session
from gpuctl.usecases.service_client import ServiceClient


class ChangeManner(NamedTuple):
    """How a command was called: on which cluster, and how it asks and tells."""

    kubeconfig: str | None
    context: str | None
    yes: bool = False
    as_json: bool = False


class ChangedCluster(NamedTuple):
    """The cluster that a command changes, and the command's callbacks."""

    session: Session
    callbacks: RunCallbacks


class ChangedByService(NamedTuple):
    """The service by which a command changes a cluster, and the command's callbacks."""

    service: ServiceClient
    callbacks: RunCallbacks


def finished(plan: Plan, manner: ChangeManner, dry_run: str | None) -> int:
    """Print what became of a plan, or with ``dry_run`` would; the exit code."""
    if dry_run is None:
        return finish(plan, as_json=manner.as_json)
    show_plan(plan, dry_run, as_json=manner.as_json)
    return preview_code(plan)


@contextlib.contextmanager
def serviced(manner: ChangeManner, *, refusal: int = 1, of_plan: bool = True) -> Iterator[ChangedByService | None]:
    """As :func:`changing`, by the service that is asked instead of a cluster; None when it is a cluster."""
    progress = Progress()
    with cluster_errors(as_json=manner.as_json, refusal=refusal, of_plan=of_plan):
        service = asked_service(manner.kubeconfig, manner.context)
        if service is None:
            yield None
            return
        try:
            yield ChangedByService(service, callbacks_of(manner, progress))
        finally:
            progress.clear()
            service.close()


@contextlib.contextmanager
def changing(
    manner: ChangeManner, *, refusal: int = 1, of_plan: bool = True, cluster: str | None = None
) -> Iterator[ChangedCluster]:
    """Connect, and turn failures into messages and exit codes, as :func:`cluster_errors`.

    :param cluster: the one that documents name; default: that of ``--cluster``.
    """
    progress = Progress()
    with cluster_errors(as_json=manner.as_json, refusal=refusal, of_plan=of_plan):
        session = connected(manner.kubeconfig, manner.context, changes=True, cluster=cluster)
        if cluster is not None:
            works_on(cluster)
        try:
            yield ChangedCluster(session, callbacks_of(manner, progress))
        finally:
            progress.clear()
            session.close()


def callbacks_of(manner: ChangeManner, progress: Progress) -> RunCallbacks:
    """Return the callbacks of a command that changes a cluster."""

    def confirm(plan: Plan) -> bool:
        progress.clear()
        return agreed(plan, yes=manner.yes)

    def lose(problems: Sequence[str]) -> bool:
        progress.clear()
        return agreed_to_lose(problems)

    def done(step: Step) -> None:
        progress.clear()
        if not manner.as_json:
            show_step(step)

    return RunCallbacks(
        confirm=confirm,
        diagnosed=lambda diagnostics, sources: text.write(diagnostics, sources, sys.stderr),
        done=done,
        wait=progress.wait,
        say=progress.say,
        lose=lose,
    )


@contextlib.contextmanager
def saving_progress(*, without_checkpoint: bool) -> Iterator[RunCallbacks | None]:
    """Yield the callbacks of a command without a plan for checkpoints; None without checkpoints."""
    if without_checkpoint:
        yield None
        return
    progress = Progress()

    def lose(problems: Sequence[str]) -> bool:
        progress.clear()
        return agreed_to_lose(problems)

    try:
        yield RunCallbacks(wait=progress.wait, say=progress.say, lose=lose)
    finally:
        progress.clear()


def is_terminal() -> bool:
    """Whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed_to_lose(problems: Sequence[str]) -> bool:
    """Whether jobs may end though their checkpoints failed: an answer on a terminal, whatever was confirmed before."""
    if not is_terminal():
        return False
    for problem in problems:
        click.echo(problem, err=True)
    return click.confirm("Go on and lose progress?", default=False, err=True)


def agreed(plan: Plan, *, yes: bool) -> bool:
    """Whether what would be lost may be lost: ``--yes``, or an answer on a terminal.

    :raises Unasked: nobody can be asked.
    """
    if yes:
        return True
    can_ask = is_terminal()
    if not plan.questions and not can_ask:
        return True
    for step in plan.steps:
        if step.waits and step.action == "create":
            click.echo(f"{step.title} in {step.key.namespace} {step.waiting}", err=True)
    for question in [*plan.questions, *plan.courtesies]:
        click.echo(question, err=True)
    if not can_ask:
        raise Unasked("nobody can be asked here: confirm with --yes", plan)
    return click.confirm("Go on?", default=False, err=True)

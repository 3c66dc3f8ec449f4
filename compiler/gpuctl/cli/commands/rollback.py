"""``gpuctl rollback``: apply an earlier document of a job again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import click

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.change_runner import (
    Invocation,
    changing_options,
    cluster_change,
    confirm_plan,
    service_change,
    show_outcome,
)
from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import checkpoint_option
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.planning_options import queue_option
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.cli.options.reading_options import reject_platform, settings_option
from gpuctl.cli.output.yaml_diff import yaml_diff
from gpuctl.kube.scope import Scope
from gpuctl.objects.ownership_metadata import records
from gpuctl.usecases.changes.applying import apply_request, preview_request
from gpuctl.usecases.changes.document_rollback import find_target, rollback_request
from gpuctl.usecases.changes.service_changes import roll_back_by_service

if TYPE_CHECKING:
    from gpuctl.usecases.changes.document_rollback import RollbackTarget


@click.command(
    "rollback",
    short_help="Apply an earlier document of a job again.",
    epilog="Examples:\n\n  $ gpuctl rollback chat\n\n  $ gpuctl rollback chat --to 3 --dry-run",
)
@click.argument("job", metavar="JOB", shell_complete=complete_job)
@click.option(
    "--to", type=click.IntRange(min=1), metavar="N", help="The revision. Default: the last different document."
)
@job_namespace_option
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing.")
@click.option("--strategy", type=click.Choice(["replace", "rolling"]), help="How to update a changed service.")
@click.option("--adopt", is_flag=True, help="Take over objects and fields of other field managers.")
@queue_option
@click.option("--no-probe", is_flag=True, help="Report a refused dry-run pod as a note, not an error.")
@checkpoint_option
@click.option("--force", is_flag=True, help="Delete the pods of replaced jobs without their grace period.")
@click.option("--wait", is_flag=True, help="Wait until the job runs or has finished.")
@settings_option
@changing_options
@bound("planning", PlanOptions)
def command(
    job: str,
    to: int | None,
    namespace: str | None,
    dry_run: bool,
    planning: PlanOptions,
    without_checkpoint: bool,
    force: bool,
    wait: bool,
    platform: str | None,
    invocation: Invocation,
) -> int:
    """Apply an earlier document of a job again; `gpuctl history` lists them.

    Always asks for confirmation, and records a new revision. A deleted job is created again. Other jobs and sets are
    not touched. Roll back a job of Argo CD or Flux in its repository.
    """
    run = RunOptions(invocation.timeout, force, wait, checkpoint=not without_checkpoint)
    return _roll_back(
        _Wanted(job, to, namespace, platform), planning, run, invocation, dry_run="server" if dry_run else None
    )


class _Wanted(NamedTuple):
    """The job to roll back, and the revision (None: the last different document)."""

    job: str
    to: int | None
    namespace: str | None
    platform: str | None


def _roll_back(
    wanted: _Wanted, planning: PlanOptions, run: RunOptions, invocation: Invocation, dry_run: str | None
) -> int:
    with service_change(invocation) as by_service:
        if by_service is not None:
            reject_platform(wanted.platform)
            job, to, namespace, _ = wanted
            preview = dry_run is not None
            plan = roll_back_by_service(
                by_service.service, by_service.callbacks, job, namespace, to, planning, run, preview=preview
            )
    if by_service is not None:
        return show_outcome(plan, invocation, dry_run)
    with cluster_change(invocation) as (session, callbacks):
        settings = platform_settings(wanted.platform)
        scope = Scope(session, wanted.namespace)
        with session.within(run.timeout):
            target = find_target(scope, wanted.job, records(settings), wanted.to)
            request = rollback_request(session, target, wanted.platform, planning, callbacks)
        for note in scope.notes:
            callbacks.on_message(f"note: {note}")
        if dry_run is None:
            plan = apply_request(session, request, run, replace(callbacks, confirm=_showing(target, invocation)))
        else:
            with session.within(run.timeout):
                plan = preview_request(session, request, callbacks, checkpoint=run.checkpoint)
    return show_outcome(plan, invocation, dry_run)


def _showing(target: RollbackTarget, invocation: Invocation) -> Callable[[Plan], bool]:
    """Return a callback that shows the diff of the documents and asks for confirmation; a question names only a part of
    it.
    """

    def confirm(plan: Plan) -> bool:
        if not invocation.yes and not invocation.as_json:
            titles = ("the job as it is", f"revision {target.past.revision}")
            for line in yaml_diff(target.live, target.past.document, titles):
                click.echo(line, nl=False, err=True)
        return confirm_plan(plan, yes=invocation.yes)

    return confirm

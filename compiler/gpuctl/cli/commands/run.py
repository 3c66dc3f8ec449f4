"""``gpuctl run``."""

from __future__ import annotations

import click

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.change_runner import Invocation, changing_options, cluster_change, service_change
from gpuctl.cli.options.cluster_completion import complete_job
from gpuctl.cli.options.document_options import namespace_option
from gpuctl.cli.options.planning_options import queue_option
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.cli.options.reading_options import reject_platform, settings_option
from gpuctl.cli.output.plan_results import finish
from gpuctl.usecases.changes.named_trainings import START_RUN, change_trainings
from gpuctl.usecases.changes.service_changes import change_trainings_by_service


@click.command(
    "run", short_help="Start a run of a scheduled training now.", epilog="Example:\n\n  $ gpuctl run nightly-eval"
)
@click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job)
@namespace_option("Namespace of the jobs.")
@settings_option
@queue_option
@changing_options
def command(
    names: tuple[str, ...],
    namespace: str | None,
    platform: str | None,
    queue: bool,
    invocation: Invocation,
) -> int:
    """Start a run of scheduled trainings now, also while their schedule is paused.

    The run is a Job made from the schedule's template, as `kubectl create job --from` makes it. Quotas and room are
    checked first. With `concurrency: forbid` or `replace`, no run starts beside an unfinished one.
    """
    run = RunOptions(invocation.timeout, queue=queue)
    with service_change(invocation) as by_service:
        if by_service is not None:
            reject_platform(platform)
            plan = change_trainings_by_service(
                by_service.service, START_RUN, names, namespace, run, by_service.callbacks
            )
    if by_service is None:
        with cluster_change(invocation) as (session, callbacks):
            plan = change_trainings(session, START_RUN, names, namespace, platform_settings(platform), run, callbacks)
    return finish(plan, as_json=invocation.as_json)

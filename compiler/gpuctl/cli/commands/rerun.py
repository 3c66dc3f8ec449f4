"""``gpuctl rerun``."""

from __future__ import annotations

import click

from gpuctl.apply.run.run_options import RunOptions
from gpuctl.cli.options.change_runner import Invocation, changing_options, cluster_change, service_change
from gpuctl.cli.options.cluster_completion import complete_job
from gpuctl.cli.options.document_options import namespace_option
from gpuctl.cli.options.named_jobs import read_named_jobs
from gpuctl.cli.options.planning_options import queue_option
from gpuctl.cli.options.platform_option import platform_settings
from gpuctl.cli.options.reading_options import ReadingOptions, reject_platform, settings_option
from gpuctl.cli.options.sweep_option import sweep_option
from gpuctl.cli.output.plan_results import finish
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.document_history import NoHistory
from gpuctl.reading.jobs.job_lookup import JobNotFound
from gpuctl.usecases.changes.document_rollback import rerun_removed
from gpuctl.usecases.changes.named_trainings import change_trainings, rerun
from gpuctl.usecases.changes.service_changes import change_trainings_by_service


@click.command(
    "rerun",
    short_help="Run a training again that has ended.",
    epilog="Examples:\n\n  $ gpuctl rerun qwen-sft\n\n  $ gpuctl rerun evaluate --failed",
)
@click.argument("names", nargs=-1, metavar="[JOB]...", shell_complete=complete_job)
@sweep_option()
@namespace_option("Namespace of the jobs.")
@settings_option
@click.option(
    "--failed",
    is_flag=True,
    help="Only failed trainings; of arrays, only the indexes without success.",
)
@queue_option
@changing_options
def command(
    names: tuple[str, ...],
    sweep: str,
    namespace: str | None,
    platform: str | None,
    failed: bool,
    queue: bool,
    invocation: Invocation,
) -> int:
    """Run trainings again that have finished or failed, as they were applied.

    The old object is deleted with its pods and logs, and created again; everything is checked first. Running jobs and
    services are not touched. A training that was deleted, or removed by its ttl, runs again from its last document
    (`gpuctl history`) after confirmation; name it alone.

    With --failed, only what has not succeeded runs. The finished indexes of an array stay finished: the others run,
    under their own indexes. The preview lists them.
    """
    names = read_named_jobs(
        names,
        sweep,
        ReadingOptions(invocation.connection, platform),
        namespace,
        as_json=invocation.as_json,
        status="failed" if failed else "",
    )
    run, change = RunOptions(invocation.timeout, queue=queue), rerun(failed=failed)
    with service_change(invocation) as by_service:
        if by_service is not None:
            reject_platform(platform)
            plan = change_trainings_by_service(by_service.service, change, names, namespace, run, by_service.callbacks)
    if by_service is not None:
        return finish(plan, as_json=invocation.as_json)
    with cluster_change(invocation) as (session, callbacks):
        settings = platform_settings(platform)
        try:
            plan = change_trainings(session, change, names, namespace, settings, run, callbacks)
        except JobNotFound as absent:
            if len(names) > 1 or failed:
                raise
            try:
                plan = rerun_removed(session, names[0], namespace, platform, records(settings), run, callbacks)
            except NoHistory:
                raise absent from None
    return finish(plan, as_json=invocation.as_json)

"""``gpuctl resume``."""

from __future__ import annotations

from itertools import starmap

import click

from gpuctl.api.change_answers import paused_job
from gpuctl.cli.options.change_runner import Invocation, callbacks_of
from gpuctl.cli.options.connection_options import Progress
from gpuctl.cli.options.job_arguments import job_arguments
from gpuctl.cli.options.named_jobs import named_jobs
from gpuctl.cli.options.reading_options import ReadingOptions, open_context
from gpuctl.cli.output.change_results import show_paused
from gpuctl.usecases.changes.pause_and_resume import jobs_named, resume_jobs
from gpuctl.usecases.changes.service_changes import resume_by_service


@click.command("resume", short_help="Resume paused jobs.", epilog="Example:\n\n  $ gpuctl resume qwen-sft")
@click.option("-y", "--yes", is_flag=True, help="Confirm evictions.")
@job_arguments
def command(
    names: tuple[str, ...],
    sweep: str,
    yes: bool,
    namespace: str | None,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """Resume paused jobs with as many pods as before.

    Evictions need confirmation. If a job has to wait for a quota or for nodes, this is reported.
    """
    with open_context(reading, namespace, as_json=as_json, changes=True) as read_context:
        names = named_jobs(read_context, names, sweep)
        if read_context.service is None:
            callbacks = callbacks_of(Invocation(reading.connection, yes, as_json), Progress())
            jobs = jobs_named(read_context.scope, names, read_context.settings)
            resumed = resume_jobs(read_context.scope.session, jobs, read_context.settings, callbacks)
            show_paused(starmap(paused_job, resumed), as_json=as_json)
        else:
            show_paused(resume_by_service(read_context, names, confirmed=yes), as_json=as_json)
    return 0

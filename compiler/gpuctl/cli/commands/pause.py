"""``gpuctl pause``."""

from __future__ import annotations

from itertools import starmap

import click

from gpuctl.api.change_answers import paused_job
from gpuctl.cli.options.change_runner import checkpoint_callbacks
from gpuctl.cli.options.connection_options import checkpoint_option
from gpuctl.cli.options.job_arguments import job_arguments
from gpuctl.cli.options.named_jobs import named_jobs
from gpuctl.cli.options.reading_options import ReadingOptions, open_context
from gpuctl.cli.output.change_results import show_paused
from gpuctl.usecases.changes.pause_and_resume import jobs_named, pause_jobs
from gpuctl.usecases.changes.service_changes import pause_by_service


@click.command("pause", short_help="End a job's pods and keep the job.", epilog="Example:\n\n  $ gpuctl pause qwen-sft")
@checkpoint_option
@job_arguments
def command(
    names: tuple[str, ...],
    sweep: str,
    without_checkpoint: bool,
    namespace: str | None,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """End the pods of jobs and keep the jobs, for `gpuctl resume`.

    The GPUs become free, and the pods' logs are deleted. A training resumes from its last checkpoint, if it writes any:
    the checkpoint command of its document runs before the pods end. If it fails, the job is paused only if you confirm
    it. A paused job stays paused when its document is applied.
    """
    with open_context(reading, namespace, as_json=as_json, changes=True) as read_context:
        names = named_jobs(read_context, names, sweep)
        if read_context.service is None:
            with checkpoint_callbacks(without_checkpoint=without_checkpoint) as callbacks:
                jobs = jobs_named(read_context.scope, names, read_context.settings)
                paused = pause_jobs(read_context.scope.session, jobs, read_context.settings, callbacks)
                show_paused(starmap(paused_job, paused), as_json=as_json)
        else:
            show_paused(pause_by_service(read_context, names, checkpoint=not without_checkpoint), as_json=as_json)
    return 0

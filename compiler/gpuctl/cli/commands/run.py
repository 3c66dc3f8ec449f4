"""``gpuctl run``."""

from __future__ import annotations

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.reading_options import settings_option
from gpuctl.cli.options.training_changes import (
    TrainingChangeOptions,
    run_training_change,
    training_change_options,
)
from gpuctl.usecases.changes.named_trainings import START_RUN


@click.command(
    "run", short_help="Start a run of a scheduled training now.", epilog="Example:\n\n  $ gpuctl run nightly-eval"
)
@click.argument("names", nargs=-1, required=True, metavar="JOB...", shell_complete=complete_job)
@job_namespace_option
@settings_option
@training_change_options
def command(names: tuple[str, ...], options: TrainingChangeOptions) -> int:
    """Start a run of scheduled trainings now, also while their schedule is paused.

    The run is a Job made from the schedule's template, as `kubectl create job --from` makes it. Quotas and room are
    checked first. With `concurrency: forbid` or `replace`, no run starts beside an unfinished one. Kubernetes does not
    count this run: a run of the schedule that is due before it has ended starts beside it.
    """
    return run_training_change(options, START_RUN, names)

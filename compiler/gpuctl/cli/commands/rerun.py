"""``gpuctl rerun``."""

from __future__ import annotations

from functools import partial

import click

from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.named_jobs import read_named_jobs
from gpuctl.cli.options.reading_options import ReadingOptions, settings_option
from gpuctl.cli.options.sweep_option import sweep_option
from gpuctl.cli.options.training_changes import (
    TrainingChangeOptions,
    run_training_change,
    training_change_options,
)
from gpuctl.usecases.changes.document_rollback import rerun_present_or_removed
from gpuctl.usecases.changes.named_trainings import change_trainings, rerun


@click.command(
    "rerun",
    short_help="Run a training again that has ended.",
    epilog="Examples:\n\n  $ gpuctl rerun qwen-sft\n\n  $ gpuctl rerun evaluate --failed",
)
@click.argument("names", nargs=-1, metavar="[JOB]...", shell_complete=complete_job)
@sweep_option()
@job_namespace_option
@settings_option
@click.option(
    "--failed",
    is_flag=True,
    help="Only failed trainings; of arrays, only the indexes without success.",
)
@training_change_options
def command(names: tuple[str, ...], sweep: str, failed: bool, options: TrainingChangeOptions) -> int:
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
        ReadingOptions(options.invocation.connection, options.platform),
        options.namespace,
        as_json=options.invocation.as_json,
        status="failed" if failed else "",
    )
    carry_out = change_trainings if failed else partial(rerun_present_or_removed, platform=options.platform)
    return run_training_change(options, rerun(failed=failed), names, carry_out)

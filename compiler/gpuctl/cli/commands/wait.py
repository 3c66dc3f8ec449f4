"""``gpuctl wait``."""

from __future__ import annotations

from functools import partial

import click

from gpuctl.api.json_values import to_json
from gpuctl.cli.options.completion_callbacks import complete_job
from gpuctl.cli.options.connection_options import Progress, json_option
from gpuctl.cli.options.document_options import job_namespace_option
from gpuctl.cli.options.duration_values import read_timeout
from gpuctl.cli.options.named_jobs import named_jobs
from gpuctl.cli.options.reading_options import ReadingOptions, open_context, reading_options
from gpuctl.cli.options.sweep_option import sweep_option
from gpuctl.hints import JobHint
from gpuctl.usecases.queries.job_queries import wait_for_jobs


@click.command(
    "wait",
    short_help="Wait until jobs run, are ready, done or deleted.",
    epilog="Examples:\n\n  $ gpuctl wait llm --for=ready --timeout 10m\n\n"
    "  $ gpuctl wait sft eval --for=done && echo finished\n\n  $ gpuctl wait --sweep tune --for=done",
)
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=complete_job)
@sweep_option()
@click.option(
    "--for",
    "condition",
    required=True,
    type=click.Choice(["running", "ready", "done", "deleted"]),
    help="running: all pods run. ready: all pods are ready, of the newest revision. done: finished successfully. "
    "deleted: the job and its pods are gone.",
)
@click.option(
    "--timeout",
    callback=partial(read_timeout, may_be_zero=True),
    metavar="TIME",
    help="Such as 90s or 1h30m. Default: 5m; none with --for=done.",
)
@job_namespace_option
@json_option
@reading_options
def command(
    names: tuple[str, ...],
    sweep: str,
    condition: str,
    timeout: float | None,
    namespace: str | None,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """Wait until all named jobs meet a condition.

    Jobs that meet it already are not waited for; a finished training counts as having run. Exit code 0: all jobs meet
    it. 1: timeout, or a job can no longer meet it because it failed or was deleted; the command still waits for the
    others. A job that does not exist is an error, except with --for=deleted.
    """
    progress = Progress()
    outcomes = []
    try:
        with open_context(reading, namespace, as_json=as_json) as read_context:
            names = named_jobs(read_context, names, sweep)
            for outcome in wait_for_jobs(read_context, names, condition, timeout, progress.wait):
                outcomes.append(outcome)
                progress.clear()
                if outcome.met and not as_json:
                    click.echo(outcome.message)
                elif not outcome.met:
                    click.echo(f"error: {outcome.message}", err=True)
                    # No hint for a running job, which has no problem to explain.
                    if outcome.identity and outcome.status and outcome.status.word != "Running":
                        why = JobHint("why", outcome.identity.name, outcome.identity.namespace)
                        click.echo(f"  = {why} shows the cause", err=True)
    except KeyboardInterrupt:
        progress.clear()
        return 130
    if as_json:
        from gpuctl.api.wait_models import WaitAnswer

        click.echo(to_json(WaitAnswer.of(outcomes).as_json()), nl=False)
    return 0 if all(outcome.met for outcome in outcomes) else 1

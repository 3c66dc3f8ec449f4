"""``gpuctl pause``."""

from __future__ import annotations

import click

from gpuctl.cli.options.naming import naming_options
from gpuctl.cli.options.reading_options import reader


@click.command("pause", short_help="End a job's pods and keep the job.", epilog="Example:\n\n  $ gpuctl pause qwen-sft")
@naming_options
def command(
    names: tuple[str, ...],
    namespace: str | None,
    output: str,
    as_json: bool,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """End the pods of jobs and keep the jobs, for `gpuctl resume`.

    The GPUs are free for others meanwhile, and the logs of the pods are gone with them. A training goes on from its
    last checkpoint, if it writes any. A paused job stays paused when its file is applied.
    """
    from gpuctl.cli.output.outcomes import show_paused
    from gpuctl.usecases.suspending import pause_jobs

    as_json = as_json or output == "json"
    with reader(kubeconfig, context, platform, namespace, as_json=as_json, changes=True) as looking:
        if looking.service is None:
            jobs = pause_jobs(looking.scope, names, looking.settings)
        else:
            from gpuctl.usecases.service_changes import suspend_by_service

            jobs = suspend_by_service(looking, names, pausing=True)
        show_paused(jobs, as_json=as_json)
    return 0

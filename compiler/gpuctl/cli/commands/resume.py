"""``gpuctl resume``."""

from __future__ import annotations

import click

from gpuctl.cli.options.naming import naming_options
from gpuctl.cli.options.reading_options import reader


@click.command("resume", short_help="Go on with paused jobs.", epilog="Example:\n\n  $ gpuctl resume qwen-sft")
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
    """Let paused jobs make their pods again, as many as before."""
    from gpuctl.cli.output.outcomes import show_paused
    from gpuctl.usecases.suspending import resume_jobs

    as_json = as_json or output == "json"
    with reader(kubeconfig, context, platform, namespace, as_json=as_json, changes=True) as looking:
        if looking.service is None:
            jobs = resume_jobs(looking.scope, names, looking.settings)
        else:
            from gpuctl.usecases.service_changes import suspend_by_service

            jobs = suspend_by_service(looking, names, pausing=False)
        show_paused(jobs, as_json=as_json)
    return 0

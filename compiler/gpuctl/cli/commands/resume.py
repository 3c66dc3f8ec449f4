"""``gpuctl resume``."""

from __future__ import annotations

import click

from gpuctl.cli.options.naming import naming_options


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
    from gpuctl.acts.pausing import resume
    from gpuctl.cli.options.naming import pausing

    return pausing(resume, names, namespace, kubeconfig, context, platform, as_json=as_json or output == "json")

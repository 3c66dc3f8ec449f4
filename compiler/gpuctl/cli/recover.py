"""``gpuctl recover``: finish what a killed run left."""

from __future__ import annotations

import click

from gpuctl.cli.connecting import changing_options, cluster_options


@click.command(
    "recover", short_help="Finish what an apply that was killed left.", epilog="Example:\n\n  $ gpuctl recover"
)
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace. Default: all that may be read.")
@click.option("--platform", type=click.Path(), metavar="FILE", help="The platform's settings, for its label domain.")
@cluster_options
@changing_options
def command(
    namespace: str | None,
    platform: str | None,
    kubeconfig: str | None,
    context: str | None,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
) -> int:
    """Finish what an apply that was killed left.

    Before its first delete an apply writes a journal. This command completes each replacement that was begun, or
    creates the old object again where the new one is refused.
    """
    from gpuctl.cli.changing import Manner, recover_all

    return recover_all(namespace, platform, Manner(kubeconfig, context, yes, timeout, output == "json" or as_json))

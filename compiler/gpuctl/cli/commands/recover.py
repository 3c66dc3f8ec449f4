"""``gpuctl recover``: finish what a killed run left."""

from __future__ import annotations

import click

from gpuctl.cli.options.connecting import changing_options, cluster_options


@click.command(
    "recover",
    short_help="Finish what an apply that was killed left.",
    epilog="Examples:\n\n  $ gpuctl recover --dry-run\n\n  $ gpuctl recover -n team-a",
)
@click.option("-n", "--namespace", metavar="NAME", help="Only this namespace. Default: all that may be read.")
@click.option("--platform", type=click.Path(), metavar="FILE", help="The platform's settings, for its label domain.")
@click.option("--dry-run", is_flag=True, help="Print what would be created, whole, and change nothing.")
@cluster_options
@changing_options
def command(
    namespace: str | None,
    platform: str | None,
    dry_run: bool,
    kubeconfig: str | None,
    context: str | None,
    yes: bool,
    timeout: float,
    output: str,
    as_json: bool,
) -> int:
    """Finish what an apply that was killed left.

    Before its first delete an apply writes a journal. This command completes each replacement that was begun, or
    creates the old object again where the new one is refused. What it creates is shown and asked first: whoever may
    create Secrets in a namespace could have written a journal. Each namespace is recovered by itself.
    """
    from gpuctl.cli.changing import Manner
    from gpuctl.cli.recovering import recover_all

    as_json = as_json or output == "json"
    manner = Manner(kubeconfig, context, yes, timeout, as_json, dry_run="server" if dry_run else None)
    return recover_all(namespace, platform, manner)

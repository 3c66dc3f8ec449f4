"""``gpuctl query``: another name of ``gpuctl get``."""

from __future__ import annotations

import click

from gpuctl.cli.commands.get import SUBCOMMANDS
from gpuctl.cli.options.groups import Family


@click.group(
    "query",
    cls=Family,
    subcommands=SUBCOMMANDS,
    short_help="The same as `get`.",
    epilog="Examples:\n\n  $ gpuctl query pools\n\n  $ gpuctl query nodes --status faulty",
)
def command() -> None:
    """List what is in the cluster: `gpuctl get` under another name."""

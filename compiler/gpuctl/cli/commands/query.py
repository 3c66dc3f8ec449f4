"""``gpuctl query``: an alias of ``gpuctl get``."""

from __future__ import annotations

import click

from gpuctl.cli.commands.get import SUBCOMMANDS
from gpuctl.cli.options.subcommand_groups import SubcommandGroup


@click.group(
    "query",
    cls=SubcommandGroup,
    subcommands=SUBCOMMANDS,
    short_help="The same as `get`.",
    epilog="Examples:\n\n  $ gpuctl query pools\n\n  $ gpuctl query nodes --status faulty",
)
def command() -> None:
    """List resources of the cluster: an alias of `gpuctl get`."""

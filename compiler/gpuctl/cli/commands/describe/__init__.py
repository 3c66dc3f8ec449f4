"""``gpuctl describe``: show one object in detail."""

from __future__ import annotations

import click

from gpuctl.cli.options.subcommand_groups import Subcommand, SubcommandGroup

SUBCOMMANDS = {
    "job": Subcommand("gpuctl.cli.commands.describe.job", "Status, timeline, access, document and events.", ("jobs",)),
    "pool": Subcommand("gpuctl.cli.commands.describe.pool", "Nodes, GPUs, limits and jobs of a pool.", ("pools",)),
    "node": Subcommand(
        "gpuctl.cli.commands.describe.node", "Resources, GPUs, labels and jobs of a node.", ("nodes", "no")
    ),
    "quota": Subcommand("gpuctl.cli.commands.describe.quota", "Limits of a user, and what is used.", ("quotas",)),
    "queue": Subcommand("gpuctl.cli.commands.describe.queue", "Quota and jobs of a queue of Kueue.", ("queues",)),
    "namespace": Subcommand(
        "gpuctl.cli.commands.describe.namespace", "Quota and jobs of a namespace.", ("namespaces", "ns")
    ),
}


@click.group(
    "describe",
    cls=SubcommandGroup,
    subcommands=SUBCOMMANDS,
    short_help="Show everything about one job, pool, node, quota, queue or namespace.",
    epilog="Examples:\n\n  $ gpuctl describe job qwen-sft\n\n  $ gpuctl describe pool training-pool",
)
def command() -> None:
    """Show one object in detail."""

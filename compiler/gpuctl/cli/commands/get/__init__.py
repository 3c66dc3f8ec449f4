"""``gpuctl get``: list resources, one per row."""

from __future__ import annotations

import click

from gpuctl.cli.options.subcommand_groups import Subcommand, SubcommandGroup

SUBCOMMANDS = {
    "jobs": Subcommand("gpuctl.cli.commands.get.jobs", "Jobs, a row for each of their pods.", ("job",)),
    "pods": Subcommand("gpuctl.cli.commands.get.jobs", "Pods of jobs: get jobs --pods.", ("pod", "po"), "pods"),
    "pools": Subcommand("gpuctl.cli.commands.get.pools", "Pools of nodes and how full they are.", ("pool",)),
    "nodes": Subcommand("gpuctl.cli.commands.get.nodes", "Nodes, their GPUs and pools.", ("node", "no")),
    "labels": Subcommand(
        "gpuctl.cli.commands.get.labels", "Labels of nodes.", ("label", "node-labels", "node-label", "nodelabels")
    ),
    "gpu-types": Subcommand(
        "gpuctl.cli.commands.get.gpu_types",
        "GPU types, and the pools that have them.",
        ("gpu-type", "gputypes", "gputype"),
    ),
    "quotas": Subcommand("gpuctl.cli.commands.get.quotas", "Quotas and their use.", ("quota",)),
    "queues": Subcommand("gpuctl.cli.commands.get.queues", "Kueue's queues, and the jobs in them.", ("queue",)),
    "namespaces": Subcommand(
        "gpuctl.cli.commands.get.namespaces", "Namespaces with jobs or quotas.", ("namespace", "ns")
    ),
}


@click.group(
    "get",
    cls=SubcommandGroup,
    subcommands=SUBCOMMANDS,
    short_help="List jobs, pools, nodes, quotas, queues and what they use.",
    epilog="Examples:\n\n  $ gpuctl get jobs\n\n  $ gpuctl get nodes --pool training-pool -o json",
)
def command() -> None:
    """List resources of the cluster, as table, wide, json, yaml or name."""

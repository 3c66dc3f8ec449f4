"""``gpuctl remove node``."""

from __future__ import annotations

import click

from gpuctl.acts.pool_membership import remove_from_pool
from gpuctl.api.node_label_answers import BatchReport
from gpuctl.cli.commands.get.listing import strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_node, complete_pool
from gpuctl.cli.options.connection_options import json_option
from gpuctl.cli.options.reading_options import ReadingOptions, open_context, reading_options
from gpuctl.cli.options.subcommand_groups import node_group
from gpuctl.cli.output.change_results import show_batch_report
from gpuctl.usecases.changes.service_node_changes import remove_by_service

_EXAMPLE = "Example:\n\n  $ gpuctl remove node node-3 --pool training-pool"

command = node_group("remove", "Remove nodes from a pool.", _EXAMPLE)


@click.command(
    "node",
    short_help="Remove nodes from a pool.",
    epilog=_EXAMPLE,
)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...", shell_complete=complete_node)
@click.option("--pool", required=True, metavar="POOL", help="The pool that they are in.", shell_complete=complete_pool)
@json_option
@reading_options
def node(
    nodes: tuple[str, ...],
    pool: str,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """Remove nodes from a pool.

    The pool's label is removed from the nodes, and the nodes from the pool's definition; the GPU type stays. Running
    pods stay where they are.
    """
    with open_context(reading, as_json=as_json, changes=True) as read_context:
        if read_context.service is None:
            done = remove_from_pool(read_context.scope.session, strip_kinds(nodes), pool, read_context.settings)
            report = BatchReport.of(done, "removed")
        else:
            report = remove_by_service(read_context.service, strip_kinds(nodes), pool)
        return show_batch_report(report, as_json=as_json)

"""``gpuctl add node``."""

from __future__ import annotations

import click

from gpuctl.acts.pool_membership import add_to_pool
from gpuctl.api.node_label_answers import BatchReport
from gpuctl.cli.commands.get.listing import strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_node, complete_pool
from gpuctl.cli.options.connection_options import json_option
from gpuctl.cli.options.reading_options import ReadingOptions, open_context, reading_options
from gpuctl.cli.options.subcommand_groups import node_group
from gpuctl.cli.output.change_results import show_batch_report
from gpuctl.usecases.changes.service_node_changes import add_by_service

_EXAMPLE = "Example:\n\n  $ gpuctl add node node-1 node-2 --pool training-pool"

command = node_group("add", "Add nodes to a pool.", _EXAMPLE)


@click.command(
    "node",
    short_help="Add nodes to a pool.",
    epilog=_EXAMPLE,
)
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...", shell_complete=complete_node)
@click.option("--pool", required=True, metavar="POOL", help="The pool; it has to exist.", shell_complete=complete_pool)
@click.option("--overwrite", is_flag=True, help="Move nodes that are in another pool.")
@json_option
@reading_options
def node(
    nodes: tuple[str, ...],
    pool: str,
    overwrite: bool,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """Add nodes to a pool.

    The nodes get the labels that applying the pool would set, and are added to its definition. Running pods stay where
    they are.
    """
    with open_context(reading, as_json=as_json, changes=True) as read_context:
        if read_context.service is None:
            done = add_to_pool(
                read_context.scope.session, strip_kinds(nodes), pool, read_context.settings, overwrite=overwrite
            )
            report = BatchReport.of(done, "added")
        else:
            report = add_by_service(read_context.service, strip_kinds(nodes), pool, overwrite=overwrite)
        return show_batch_report(report, as_json=as_json)

"""``gpuctl label node``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import click

from gpuctl.acts.node_labels import LabelTerms
from gpuctl.api.node_label_answers import LABELLED, BatchReport
from gpuctl.cli.options.completion_callbacks import complete_node
from gpuctl.cli.options.connection_options import json_option
from gpuctl.cli.options.reading_options import ReadingOptions, open_context, reading_options
from gpuctl.cli.options.subcommand_groups import node_group
from gpuctl.cli.output.change_results import show_batch_report
from gpuctl.usecases.changes.label_nodes import check_labels, label_nodes
from gpuctl.usecases.changes.service_node_changes import label_by_service
from gpuctl.usecases.documents.change_options import InvalidOptions

_NODE_PREFIXES = ("node/", "nodes/")


class LabelRequest(NamedTuple):
    """The nodes, and for each label its value, or None to delete it."""

    nodes: list[str]
    labels: dict[str, str | None]


command = node_group(
    "label",
    "Set or delete labels of nodes.",
    "Examples:\n\n  $ gpuctl label node node-1 runwhere.ai/gpu-type=A100-80G\n\n"
    "  $ gpuctl label node node-1 runwhere.ai/gpu-type --delete",
)


@click.command(
    "node",
    short_help="Set or delete labels of nodes.",
    epilog="Examples:\n\n  $ gpuctl label node node-1 node-2 runwhere.ai/gpu-type=A100-80G --overwrite\n\n"
    "  $ gpuctl label node node-1 runwhere.ai/gpu-type --delete",
)
@click.argument("arguments", nargs=-1, metavar="NODE... KEY=VALUE...", shell_complete=complete_node)
@click.option("--overwrite", is_flag=True, help="Replace an existing value.")
@click.option("--delete", "delete", is_flag=True, help="Delete the label KEY; the same as KEY- .")
@json_option
@reading_options
def node(
    arguments: tuple[str, ...],
    overwrite: bool,
    delete: bool,
    as_json: bool,
    reading: ReadingOptions,
) -> int:
    """Set or delete labels of nodes.

    Any key may be set; jobs select nodes by runwhere.ai/pool and runwhere.ai/gpu-type. Without --overwrite, a label
    that has another value is not changed. If a node fails, the others are still changed, and the exit code is 1.
    """
    order = parse(arguments, delete=delete)
    with open_context(reading, as_json=as_json, changes=True) as read_context:
        if read_context.service is None:
            session, settings = read_context.scope.session, read_context.settings
            done = label_nodes(session, order.nodes, order.labels, settings, LabelTerms(overwrite))
            report = BatchReport.of(done, LABELLED)
        else:
            report = label_by_service(read_context.service, order.nodes, order.labels, overwrite=overwrite)
        return show_batch_report(report, as_json=as_json)


def parse(arguments: Sequence[str], *, delete: bool) -> LabelRequest:
    """Parse nodes and labels in any order. An argument with ``=`` or a trailing ``-`` is a label.

    To delete, an argument with ``/`` is a key; without one, the last argument is the key. Labels that Kubernetes would
    reject are a usage error.
    """
    nodes: list[str] = []
    labels: dict[str, str | None] = {}

    def put(key: str, value: str | None) -> None:
        if labels.setdefault(key, value) != value:
            raise click.UsageError(f"the label {key} is given twice")

    for argument in arguments:
        key, equals, value = argument.partition("=")
        if equals and delete:
            raise click.UsageError(f"--delete takes the key alone: `gpuctl label node NODE {key} --delete`")
        if equals:
            put(key, value)
        elif argument.startswith(_NODE_PREFIXES):
            nodes.append(argument.partition("/")[2])
        elif argument.endswith("-"):
            put(argument[:-1], None)
        elif "/" in argument:
            if not delete:
                raise click.UsageError(f"no value for {argument}: `{argument}=VALUE` sets it, --delete deletes it")
            put(argument, None)
        else:
            nodes.append(argument)
    if delete and not labels and len(nodes) > 1:
        labels[nodes.pop()] = None
    if not nodes or not labels:
        lacking = "node" if not nodes else "label"
        raise click.UsageError(f"name a {lacking}: `gpuctl label node NODE KEY=VALUE`")
    try:
        check_labels(labels)
    except InvalidOptions as error:
        raise click.UsageError(str(error)) from None
    return LabelRequest(nodes, labels)

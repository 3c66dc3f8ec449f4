"""``gpuctl get labels``, ``get label``, ``get node-labels``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from gpuctl.cli.commands.get.listing import ListEntry, show_list, strip_kinds
from gpuctl.cli.commands.get.nodes import show_labels
from gpuctl.cli.options.completion_callbacks import complete_node
from gpuctl.cli.options.reading_options import ListOptions, ReadingOptions, list_options, open_context, reading_options
from gpuctl.cli.output.printing import show_value
from gpuctl.usecases.queries.node_queries import list_gpu_labels, list_labels, one_label
from gpuctl.usecases.queries.read_context import ReadContext


@click.command(
    "labels",
    short_help="Labels of nodes.",
    epilog="Examples:\n\n  $ gpuctl get labels node-1 --key=runwhere.ai/gpu-type\n\n  $ gpuctl get node-labels --all",
)
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=complete_node)
@click.option("--key", metavar="KEY", help="Only this label.")
@click.option("--all", "everything", is_flag=True, help="All nodes: their labels about GPUs, and their pools.")
@list_options
@reading_options
def command(
    names: tuple[str, ...],
    key: str | None,
    everything: bool,
    output_form: ListOptions,
    reading: ReadingOptions,
) -> int:
    """List the labels of nodes.

    With names: all labels of these nodes, or the one of --key; -o name prints only the value. Without names: the GPU
    type labels and pools of all nodes.
    """
    if everything and names:
        raise click.UsageError("Name nodes, or --all; not both")
    with open_context(reading, as_json=output_form.is_machine) as read_context:
        if names or key is not None:
            _show(read_context, strip_kinds(names), key, output_form)
        else:
            show_gpu_labels(read_context, output_form)
    return 0


def _show(read_context: ReadContext, names: Sequence[str], key: str | None, output_form: ListOptions) -> None:
    if key is not None and output_form.is_machine and len(names) == 1:
        # Imported here: the models take longer to import than a small cluster to list, and a table does not need them.
        from gpuctl.api.node_label_answers import KeptLabel

        show_value(KeptLabel.of(one_label(read_context, names[0], key)).as_json(), output_form.output)
    else:
        show_labels(
            list_labels(read_context, names, key),
            output_form,
            "No labels." if key is None else f"No node has the label {key}.",
        )


def show_gpu_labels(read_context: ReadContext, output_form: ListOptions) -> None:
    """Print a row for each node: its GPU labels and its pool."""
    nodes = list_gpu_labels(read_context)
    headers = ("NODE NAME", "GPU TYPE", "POOL", "GPU LABELS")
    entries = []
    for node in nodes:
        labels = ",".join(f"{key}={value}" for key, value in node.gpu_labels.items())
        cells = (node.name, node.gpu_type or "", node.bound_pools[0], labels)
        entries.append(ListEntry(f"node/{node.name}", cells))

    def answer() -> dict[str, Any]:
        from gpuctl.api.node_label_answers import GpuLabels

        return GpuLabels.listed(nodes)

    show_list(output_form, answer, headers, (), entries, "There are no nodes.")

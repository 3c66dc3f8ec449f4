"""``gpuctl get labels``, ``get label``, ``get node-labels``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from gpuctl.api.node_answers import gpu_label_list, label_answer
from gpuctl.cli.commands.get.listing import ListEntry, ListOptions, bare, show_list
from gpuctl.cli.commands.get.nodes import show_labels
from gpuctl.cli.options.completing import complete_node
from gpuctl.cli.options.reading_options import list_options, reader, reading_options
from gpuctl.cli.output.printing import show_value
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.node_queries import list_gpu_labels, list_labels


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
    output: str,
    as_json: bool,
    no_headers: bool,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """List the labels of nodes.

    Of the nodes that are named all labels, or the one of --key; -o name prints the value alone. Without a name, of all
    nodes the labels that tell a type of GPU, and the pool.
    """
    if everything and names:
        raise click.UsageError("Name nodes, or --all; not both")
    looks = ListOptions.of(output, as_json=as_json, no_headers=no_headers)
    with reader(kubeconfig, context, platform, as_json=looks.is_machine) as looking:
        if names or key is not None:
            _show(looking, bare(names), key, looks)
        else:
            show_gpu_labels(looking, looks)
    return 0


def _show(looking: Reader, names: Sequence[str], key: str | None, looks: ListOptions) -> None:
    labels = list_labels(looking, names, key)
    if key is not None and looks.is_machine and len(names) == 1:
        show_value(label_answer(labels[0]), looks.output)
    else:
        show_labels(labels, looks, "No labels." if key is None else f"No node has the label {key}.")


def show_gpu_labels(looking: Reader, looks: ListOptions) -> None:
    """A row for each node: what tells its type of GPU, and its pool."""
    nodes = list_gpu_labels(looking)
    headers = ("NODE NAME", "GPU TYPE", "POOL", "GPU LABELS")
    entries = []
    for node in nodes:
        pairs = ",".join(f"{key}={value}" for key, value in node.gpu_labels.items())
        entries.append(ListEntry(f"node/{node.name}", (node.name, node.gpu_type or "", node.pool, pairs)))
    show_list(looks, lambda: gpu_label_list(nodes), headers, (), entries, "There are no nodes.")

"""``gpuctl get labels``, ``get label``, ``get node-labels``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gpuctl.cli.options.completing import complete_node
from gpuctl.cli.options.reading_options import Reader, list_options, reader, reading_options

if TYPE_CHECKING:
    from gpuctl.cli.commands.get.listing import ListOptions
    from gpuctl.reading.node_rows import NodeState


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
    from gpuctl.cli.commands.get.listing import ListOptions, bare

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
    from gpuctl.cli.commands.get.listing import check_names
    from gpuctl.cli.commands.get.nodes import show_labels
    from gpuctl.cli.output.printing import show_value
    from gpuctl.kube.api_errors import NotThere
    from gpuctl.language.spelling import nearest
    from gpuctl.reading import inventory
    from gpuctl.reading.label_rows import labels, labels_with

    found = inventory.take(looking.scope, looking.keys, pods=False)
    check_names("node", names, [node["metadata"]["name"] for node in found.nodes])
    nodes = [node for node in found.nodes if not names or node["metadata"]["name"] in names]
    if key is None:
        rows = [label for node in nodes for label in labels(node)]
        show_labels(rows, looks, "No labels.")
        return
    rows = labels_with(nodes, key)
    lacking = [name for name in names if name not in {label.node for label in rows}]
    if lacking:
        close = nearest(key, {label.key for node in nodes for label in labels(node)})
        hint = f"did you mean `{close}`?" if close else f"`gpuctl get labels {lacking[0]}` lists its labels"
        raise NotThere(f"node {', '.join(lacking)}: no label {key}", hint)
    if looks.is_machine and len(names) == 1:
        show_value(rows[0].detail(), looks.output)
    else:
        show_labels(rows, looks, f"No node has the label {key}.")


def show_gpu_labels(looking: Reader, looks: ListOptions) -> None:
    """A row for each node: what tells its type of GPU, and its pool."""
    from gpuctl.cli.commands.get.listing import ListEntry, show_list
    from gpuctl.reading import inventory
    from gpuctl.reading.label_rows import gpu_labels_json
    from gpuctl.reading.node_gpus import Gpus
    from gpuctl.reading.node_rows import read_nodes

    found = inventory.take(looking.scope, looking.keys, pods=False)
    nodes: list[NodeState] = read_nodes(found.nodes, None, looking.keys, Gpus(looking.settings))
    headers = ("NODE NAME", "GPU TYPE", "POOL", "GPU LABELS")
    entries = []
    for node in nodes:
        pairs = ",".join(f"{key}={value}" for key, value in node.gpu_labels.items())
        cells = (node.name, node.gpu_type or "", node.pool, pairs)
        entries.append(ListEntry(f"node/{node.name}", cells, (), gpu_labels_json(node)))
    show_list(looks, headers, (), entries, "There are no nodes.")

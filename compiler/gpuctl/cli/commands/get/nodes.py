"""``gpuctl get nodes``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gpuctl.cli.commands.get.listing import ListEntry, check_selector, selector_option, show_list, strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_node, complete_pool
from gpuctl.cli.options.reading_options import ListOptions, ReadingOptions, list_options, open_context, reading_options
from gpuctl.cli.output.amounts import format_count, rounded_amount
from gpuctl.language.display_text import first_few
from gpuctl.objects.quantities import parse_quantity
from gpuctl.reading.nodes.label_rows import LabelRow
from gpuctl.reading.nodes.node_rows import NodeDetails
from gpuctl.usecases.queries.node_queries import NodeListing, NodeQuery, list_nodes
from gpuctl.usecases.queries.read_context import ReadContext

if TYPE_CHECKING:
    from gpuctl.api.node_answers import GpusOfNode, NodeItem
    from gpuctl.api.node_label_answers import NodeLabel

HEADERS = ("NODE NAME", "STATUS", "GPU TOTAL", "GPU USED", "GPU FREE", "GPU TYPE", "POOL")
WIDE = ("CPU", "MEMORY", "IP", "AGE", "KUBERNETES")
STATUSES = ("active", "maintaining", "faulty")


def _check_label(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    return check_selector(context, parameter, value) if value and "=" in value else value


@click.command(
    "nodes",
    short_help="Nodes, their GPUs and pools.",
    epilog="Examples:\n\n  $ gpuctl get nodes --pool training-pool\n\n  $ gpuctl get nodes --gpu-type a100-80g -o wide",
)
@click.argument("names", nargs=-1, metavar="[NODE]...", shell_complete=complete_node)
@click.option(
    "--pool",
    metavar="POOL",
    help="Nodes of this pool; `default` has those that are in no other.",
    shell_complete=complete_pool,
)
@click.option(
    "--gpu-type",
    metavar="TYPE",
    help="Nodes with this type of GPU: a100-80g, nvidia.com/a100-80g or KEY=VALUE, in either case. A label's key alone "
    "prints that label of all nodes.",
)
@click.option(
    "--status",
    type=click.Choice(STATUSES, case_sensitive=False),
    help="Nodes that take pods, are cordoned, or are not ready.",
)
@click.option(
    "--label",
    metavar="KEY",
    callback=_check_label,
    help="Print this label of each node; KEY=VALUE: the nodes that have it.",
)
@click.option("--gpu-detail", is_flag=True, help="A row for each GPU.")
@selector_option
@list_options
@reading_options
def command(
    names: tuple[str, ...],
    pool: str | None,
    gpu_type: str | None,
    status: str | None,
    label: str | None,
    gpu_detail: bool,
    selector: str,
    output_form: ListOptions,
    reading: ReadingOptions,
) -> int:
    """List nodes, their GPUs and pools.

    STATUS is active, maintaining (cordoned) or faulty (not ready). GPU USED is what the pods on a node request, as the
    scheduler counts it; GPU FREE is the rest, even if the node takes no pods. FREE SLICES are the MIG slices that a
    driver can still create (DRA), of each profile if it creates none of another.
    """
    if label is not None and gpu_detail:
        raise click.UsageError("--label prints a label, --gpu-detail prints GPUs; not both")
    query = NodeQuery(strip_kinds(names), pool, gpu_type, status, selector, label, gpu_detail)
    with open_context(reading, as_json=output_form.is_machine) as read_context:
        found = list_nodes(read_context, query)
        if found.query.label is not None:
            _show_label(read_context, found.query.label, found, output_form)
        elif gpu_detail:
            _show_gpus(read_context, found.gpus, output_form)
        else:
            _show_nodes(read_context, found.nodes, output_form, _nothing(found.query, found.others))
    return 0


def _show_nodes(
    read_context: ReadContext, nodes: Sequence[NodeDetails | NodeItem], output_form: ListOptions, nothing: str
) -> None:
    """Print nodes as a list. A column has the slices that drivers can still create, if a node can have any."""
    headers = HEADERS if not any(node.free_slices for node in nodes) else (*HEADERS, "FREE SLICES")
    entries = []
    for node in nodes:
        cells = [node.name, node.status, str(node.gpu_total), format_count(node.gpu_used), format_count(node.gpu_free)]
        wide = [rounded_amount("cpu", parse_quantity(node.cpu)), rounded_amount("memory", parse_quantity(node.memory))]
        wide += [node.address or "", read_context.age(node.created_at), node.kubernetes or ""]
        cells += [node.gpu_type or "", node.pool]
        if headers is not HEADERS:
            cells.append(", ".join(f"{number} x {profile}" for profile, number in node.free_slices.items()))
        entries.append(ListEntry(f"node/{node.name}", cells, wide))

    def answer() -> dict[str, Any]:
        # Imported here: the models take longer to import than a small cluster to list, and a table does not need them.
        from gpuctl.api.node_answers import NodeItem

        return NodeItem.listed(nodes)

    show_list(output_form, answer, headers, WIDE, entries, nothing)


def _nothing(wanted: NodeQuery, nodes: Sequence[NodeDetails | NodeItem]) -> str:
    """Return the message for an empty list, with values that would match some nodes."""
    if not nodes:
        return f"No nodes with the labels {wanted.selector}." if wanted.selector else "There are no nodes."
    whose, these = (f" with the labels {wanted.selector}", "These") if wanted.selector else ("", "Nodes")
    known = {
        "pool": (wanted.pool, {node.pool for node in nodes}),
        "GPU type": (wanted.gpu_type, {node.gpu_type for node in nodes if node.gpu_type}),
    }
    for what, (value, there) in known.items():
        # A GPU type may follow its vendor or the key of a label, and its case does not count.
        if value is not None and re.split("[/=]", value)[-1].lower() not in {item.lower() for item in there}:
            said = f" {these} have {', '.join(sorted(there))}." if there else ""
            return f"No node{whose} has the {what} {value}.{said}"
    return "No node matches."


def _show_label(read_context: ReadContext, key: str, found: NodeListing, output_form: ListOptions) -> None:
    having = {label.node for label in found.labels}
    without = [node.name for node in found.nodes if node.name not in having]
    if without and having and not output_form.is_machine:
        read_context.scope.note(f"{first_few(without, 5)}: no label {key}")
    show_labels(found.labels, output_form, f"No node has the label {key}.")


def show_labels(labels: Sequence[LabelRow | NodeLabel], output_form: ListOptions, nothing: str) -> None:
    """Print labels of nodes; -o name prints only their values."""
    headers = ("NODE NAME", "LABEL KEY", "LABEL VALUE")
    entries = [ListEntry(label.value, (label.node, label.key, label.value)) for label in labels]

    def answer() -> dict[str, Any]:
        from gpuctl.api.node_label_answers import NodeLabel

        return NodeLabel.listed(labels)

    show_list(output_form, answer, headers, (), entries, nothing)


def _show_gpus(read_context: ReadContext, nodes: Sequence[NodeDetails | GpusOfNode], output_form: ListOptions) -> None:
    headers = ("NODE NAME", "GPU ID", "GPU TYPE", "COUNTED AS")
    if nodes and not output_form.is_machine:
        read_context.scope.note(
            "Kubernetes counts the GPUs that pods request on a node, and does not report which devices these are: "
            "GPU ID is a number, not a device"
        )
    entries = [
        ListEntry(f"{node.name}/{gpu.name}", (node.name, gpu.name, gpu.type or "", gpu.status))
        for node in nodes
        for gpu in node.gpus
    ]

    def answer() -> dict[str, Any]:
        from gpuctl.api.node_answers import GpusOfNode

        return GpusOfNode.listed(nodes)

    show_list(output_form, answer, headers, (), entries, "No node has GPUs.")

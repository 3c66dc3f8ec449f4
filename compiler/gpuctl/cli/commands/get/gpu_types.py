"""``gpuctl get gpu-types``."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.cli.commands.get.labels import show_gpu_labels
from gpuctl.cli.commands.get.listing import ListEntry, show_list
from gpuctl.cli.options.reading_options import ListOptions, ReadingOptions, list_options, open_context, reading_options
from gpuctl.cli.output.amounts import format_count
from gpuctl.usecases.queries.node_queries import list_gpu_types

HEADERS = ("GPU TYPE", "GPU TOTAL", "GPU USED", "GPU FREE", "NODE COUNT", "POOLS")
WIDE = ("VENDOR", "NODES")


@click.command(
    "gpu-types",
    short_help="GPU types, and the pools that have them.",
    epilog="Examples:\n\n  $ gpuctl get gpu-types\n\n  $ gpuctl get gpu-type --all",
)
@click.argument("names", nargs=-1, metavar="[TYPE]...")
@click.option("--all", "everything", is_flag=True, help="A row for each node: its labels about GPUs, and its pool.")
@list_options
@reading_options
def command(
    names: tuple[str, ...],
    everything: bool,
    output_form: ListOptions,
    reading: ReadingOptions,
) -> int:
    """List the GPU types, their number, and the pools that have them.

    A node's type is its label runwhere.ai/gpu-type, which jobs select on; without it, another label that names a type.
    """
    if everything and names:
        raise click.UsageError("Name types, or --all; not both")
    with open_context(reading, as_json=output_form.is_machine) as read_context:
        if everything:
            show_gpu_labels(read_context, output_form)
            return 0
        types = list_gpu_types(read_context, names)
        entries = []
        for item in types:
            cells = [item.name, str(item.total), format_count(item.used), format_count(item.free)]
            wide = (",".join(item.vendors), ",".join(item.nodes))
            cells += [str(len(item.nodes)), ",".join(item.pools)]
            entries.append(ListEntry(item.name, cells, wide))

        def answer() -> dict[str, Any]:
            from gpuctl.api.node_answers import GpuTypeItem

            return GpuTypeItem.listed(types)

        show_list(output_form, answer, HEADERS, WIDE, entries, "No node has GPUs.")
    return 0

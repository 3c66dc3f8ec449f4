"""``gpuctl get pools``."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.cli.commands.get.listing import ListEntry, show_list, strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_pool
from gpuctl.cli.options.reading_options import ListOptions, ReadingOptions, list_options, open_context, reading_options
from gpuctl.cli.output.amounts import format_count
from gpuctl.cli.output.unavailable_gpus import unavailable_gpus
from gpuctl.usecases.queries.pool_queries import list_pools

HEADERS = ("POOL NAME", "STATUS", "GPU TOTAL", "GPU USED", "GPU FREE", "NODE COUNT")
WIDE = ("GPU TYPE", "MAX JOBS", "MAX GPU PER JOB", "DESCRIPTION")


@click.command(
    "pools",
    short_help="Pools of nodes and how full they are.",
    epilog="Examples:\n\n  $ gpuctl get pools\n\n  $ gpuctl get pools training-pool -o json",
)
@click.argument("names", nargs=-1, metavar="[POOL]...", shell_complete=complete_pool)
@list_options
@reading_options
def command(
    names: tuple[str, ...],
    output_form: ListOptions,
    reading: ReadingOptions,
) -> int:
    """List pools of nodes and their use.

    STATUS is active if a node of the pool takes pods, else maintaining, faulty or empty. The pool `default` contains
    the nodes that are in no other pool.
    """
    with open_context(reading, as_json=output_form.is_machine) as read_context:
        pools = list_pools(read_context, strip_kinds(names))
        entries = []
        for pool, _ in pools:
            cells = [
                pool.name,
                pool.status,
                str(pool.gpu_total),
                format_count(pool.gpu_used),
                format_count(pool.gpu_free),
            ]
            types = ",".join(f"{name}:{number}" for name, number in pool.gpu_types.items())
            wide = [
                types,
                *map(format_count, (pool.quota.max_jobs, pool.quota.max_gpu_per_job)),
                pool.description or "",
            ]
            entries.append(ListEntry(f"pool/{pool.name}", [*cells, str(len(pool.nodes))], wide))

        def answer() -> dict[str, Any]:
            # Imported here: the models take longer to import than a small cluster to list, and a table does not need
            # them.
            from gpuctl.api.pool_answers import ListedPool

            return ListedPool.listed(pool for pool, _ in pools)

        show_list(output_form, answer, HEADERS, WIDE, entries, "There are no pools.")
        if output_form.output in ("table", "wide"):
            for view in pools:
                if unavailable := unavailable_gpus(view):
                    read_context.scope.note(f"{view.pool.name}: {unavailable}")
    return 0

"""``gpuctl describe pool``."""

from __future__ import annotations

from typing import Any

import click

from gpuctl.api.pool_answers import PoolReport
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.describe.named import show_named
from gpuctl.cli.options.completion_callbacks import complete_pool
from gpuctl.cli.options.reading_options import ReadingOptions, detail_options, reading_options
from gpuctl.cli.output.amounts import format_count
from gpuctl.cli.output.unavailable_gpus import unavailable_gpus
from gpuctl.usecases.queries.pool_queries import PoolView, describe_pool
from gpuctl.usecases.queries.read_context import ReadContext


@click.command(
    "pool",
    short_help="Nodes, GPUs, limits and jobs of a pool.",
    epilog="Example:\n\n  $ gpuctl describe pool training-pool",
)
@click.argument("name", metavar="POOL", shell_complete=complete_pool)
@detail_options
@reading_options
def command(name: str, output: str, reading: ReadingOptions) -> int:
    """Show a pool's nodes, limits and use, and its running and waiting jobs."""
    return show_named(name, output, reading, describe_pool, _answer, _show)


def _answer(view: PoolView) -> dict[str, Any]:
    return PoolReport.model_validate(view.pool).as_json()


def _show(_: ReadContext, view: PoolView) -> None:
    pool, nodes = view
    gpus = f"{pool.gpu_total} in all"
    if pool.gpu_used is not None:
        gpus += f", {pool.gpu_used} used, {pool.gpu_free} free"
    if unavailable := unavailable_gpus(view):
        gpus += f"; {unavailable}"
    facts = [
        ("Name", pool.name),
        ("Description", pool.description or ""),
        ("Status", sections.state(pool.status)),
        ("GPUs", gpus),
        ("GPU types", ", ".join(f"{name}: {number}" for name, number in pool.gpu_types.items())),
        ("Job limit", format_count(pool.quota.max_jobs) or "none"),
        ("GPU limit per job", format_count(pool.quota.max_gpu_per_job) or "none"),
    ]
    if pool.missing:
        facts.append(("Missing nodes", ", ".join(pool.missing) + " (in its definition, but not in the pool)"))
    sections.show_facts(facts)
    headers = ("NODE NAME", "STATUS", "GPU TOTAL", "GPU USED", "GPU FREE", "GPU TYPE")
    rows = [
        [
            node.name,
            node.status,
            str(node.gpu_total),
            format_count(node.gpu_used),
            format_count(node.gpu_free),
            node.gpu_type or "",
        ]
        for node in nodes
    ]
    sections.show_section("Nodes", headers, rows, "none")
    sections.show_holders("Jobs", pool.jobs)
    if pool.waiting:
        sections.show_holders("Waiting", pool.waiting, where=False)

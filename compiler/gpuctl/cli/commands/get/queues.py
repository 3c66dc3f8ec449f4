"""``gpuctl get queues``."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

import click

from gpuctl.cli.commands.get.listing import ListEntry, ListOptions, show_list, strip_kinds
from gpuctl.cli.options.cluster_completion import complete_queue
from gpuctl.cli.options.reading_options import list_options, namespace_options, open_context, reading_options
from gpuctl.cli.output.amounts import format_amount, format_count
from gpuctl.language.settings import Settings
from gpuctl.objects.timestamps import age
from gpuctl.reading.node_gpus import PlatformGpus
from gpuctl.reading.queue_rows import QueueRow

HEADERS = ("NAME", "COHORT", "STATUS", "WAITING", "ADMITTED", "CPU", "MEMORY", "GPU")
WIDE = ("LOCAL QUEUES", "AGE", "REASON")


@click.command(
    "queues",
    short_help="Kueue's queues, and the jobs in them.",
    epilog="Examples:\n\n  $ gpuctl get queues\n\n  $ gpuctl get queues -n team-a -o wide",
)
@click.argument("names", nargs=-1, metavar="[QUEUE]...", shell_complete=complete_queue)
@list_options
@namespace_options
@reading_options
def command(
    names: tuple[str, ...],
    output: str,
    as_json: bool,
    no_headers: bool,
    namespace: str | None,
    all_namespaces: bool,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """List Kueue's ClusterQueues, or with -n those that a namespace can use.

    Cells are used/quota. A use above the quota is borrowed from the cohort. `gpuctl describe queue` lists the jobs.
    """
    from gpuctl.usecases.queue_queries import list_queues

    output_form = ListOptions.of(output, as_json=as_json, no_headers=no_headers)
    with open_context(
        kubeconfig, context, platform, namespace, all_namespaces=all_namespaces, as_json=output_form.is_machine
    ) as read_context:
        rows = list_queues(read_context, strip_kinds(names))
        gpus = PlatformGpus(read_context.settings)
        entries = []
        for row in rows:
            cells = [row.name, row.cohort, row.status, format_count(row.waiting_jobs), format_count(row.admitted_jobs)]
            cells += [_cell(row, {name}) for name in ("cpu", "memory")]
            local = ",".join(f"{place.namespace}/{place.name}" for place in row.local_queues)
            wide = (local, age(row.created_at) if row.created_at else "", row.reason)
            entries.append(ListEntry(f"queue/{row.name}", [*cells, _cell(row, gpus.cards)], wide))
        where = f" for namespace {read_context.scope.namespace}" if read_context.scope.namespace else ""
        answer = partial(_answer, rows, read_context.settings, read_context.scope.notes)
        show_list(output_form, answer, HEADERS, WIDE, entries, f"There are no queues{where}.")
    return 0


def _answer(rows: list[QueueRow], settings: Settings, notes: list[str]) -> dict[str, Any]:
    # Imported here: the models take longer to import than a small cluster to list, and a table does not need them.
    from gpuctl.api.queue_answers import QueueList

    return QueueList.of(rows, PlatformGpus(settings), notes).as_json()


def _cell(row: QueueRow, resources: frozenset[str] | set[str]) -> str:
    """Return ``used/quota`` of resources in all flavors; "" without a quota."""
    found = [quota for quota in row.quotas if quota.slot.resource in resources]
    if not found:
        return ""
    used, total = (sum(values, Fraction(0)) for values in zip(*((one.used, one.nominal) for one in found), strict=True))
    resource = found[0].slot.resource
    return f"{format_amount(resource, used)}/{format_amount(resource, total)}"

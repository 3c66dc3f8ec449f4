"""``gpuctl get queues``."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, Literal

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

    Cells are used/quota. A use above the quota is borrowed from the cohort. `gpuctl describe queue` lists the jobs. If
    ClusterQueues may not be read, the quota is `?`, and the use is that of the LocalQueues that may be read.
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
            cells = [row.name, row.cohort, row.status]
            cells += [_count(row.waiting_jobs, row, "pending"), _count(row.admitted_jobs, row, "reserving")]
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


def _count(jobs: int | None, row: QueueRow, which: Literal["pending", "reserving"]) -> str:
    """Return a number of jobs; if they may not be read, what Kueue counts in the LocalQueues."""
    counts = [getattr(place, which) for place in row.local_queues]
    return format_count(jobs if jobs is not None or not counts or None in counts else sum(counts))


def _cell(row: QueueRow, resources: frozenset[str] | set[str]) -> str:
    """Return ``used/quota`` of resources in all flavors; "" without a quota."""
    if row.quotas is None:
        amounts = [(slot.resource, used, Fraction(0)) for place in row.local_queues for slot, used in place.used]
    else:
        amounts = [(quota.slot.resource, quota.used, quota.nominal) for quota in row.quotas]
    found = [item for item in amounts if item[0] in resources]
    if not found:
        return ""
    resource = found[0][0]
    used, total = (sum(values, Fraction(0)) for values in zip(*((use, quota) for _, use, quota in found), strict=True))
    return f"{format_amount(resource, used)}/{'?' if row.quotas is None else format_amount(resource, total)}"

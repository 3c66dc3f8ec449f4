"""``gpuctl get queues``."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import click

from gpuctl.cli.commands.get.listing import ListEntry, show_list, strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_queue
from gpuctl.cli.options.reading_options import (
    ListOptions,
    ReadingOptions,
    list_options,
    namespace_options,
    open_context,
    reading_options,
)
from gpuctl.cli.output.amounts import format_count, rounded_amount

if TYPE_CHECKING:
    from gpuctl.api.queue_answers import QueueItem

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
    output_form: ListOptions,
    namespace: str | None,
    reading: ReadingOptions,
) -> int:
    """List Kueue's ClusterQueues, or with -n those that a namespace can use.

    Cells are used/quota. A use above the quota is borrowed from the cohort. `gpuctl describe queue` lists the jobs. If
    ClusterQueues may not be read, the quota is `?`, and the use is that of the LocalQueues that may be read.
    """
    from gpuctl.usecases.queries.queue_queries import list_queues

    with open_context(reading, namespace, as_json=output_form.is_machine) as read_context:
        queues = list_queues(read_context, strip_kinds(names))
        entries = []
        for row in queues.items:
            waiting = [place.pending_workloads for place in row.local_queues]
            admitted = [place.reserving_workloads for place in row.local_queues]
            cells = [row.name, row.cohort or "", row.status]
            cells += [_count(row.waiting_jobs, waiting), _count(row.admitted_jobs, admitted)]
            local = ",".join(f"{place.namespace}/{place.name}" for place in row.local_queues)
            wide = (local, read_context.age(row.created_at), row.reason or "")
            cells += [_cell(row, name) for name in ("cpu", "memory", "gpu")]
            entries.append(ListEntry(f"queue/{row.name}", cells, wide))
        where = f" for namespace {read_context.scope.namespace}" if read_context.scope.namespace else ""
        show_list(output_form, queues.as_json, HEADERS, WIDE, entries, f"There are no queues{where}.")
    return 0


def _count(jobs: int | None, counts: Sequence[int | None]) -> str:
    """Return a number of jobs; if they may not be read, the sum of what Kueue counts in the LocalQueues."""
    known = [number for number in counts if number is not None]
    return format_count(sum(known) if jobs is None and counts and len(known) == len(counts) else jobs)


def _cell(row: QueueItem, name: str) -> str:
    """Return ``used/quota`` of a resource in all flavors; "" without a quota."""
    uses = [use for place in row.local_queues for use in place.resources] if row.resources is None else row.resources
    found = [use for use in uses if use.name == name]
    if not found:
        return ""
    used = rounded_amount(found[0].resource, sum((use.used for use in found), Fraction(0)))
    if row.resources is None:
        return f"{used}/?"
    total = sum((quota.total for quota in row.resources if quota.name == name), Fraction(0))
    return f"{used}/{rounded_amount(found[0].resource, total)}"

"""``gpuctl describe queue``."""

from __future__ import annotations

import click

from gpuctl.api.queue_answers import QueueDetail
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.options.cluster_completion import complete_queue
from gpuctl.cli.options.document_options import namespace_option
from gpuctl.cli.options.reading_options import detail_options, open_context, reading_options
from gpuctl.cli.output.amounts import format_amount, format_count
from gpuctl.cli.output.printing import show_value
from gpuctl.objects.timestamps import age
from gpuctl.reading.node_gpus import PlatformGpus
from gpuctl.reading.queue_position import QueueClaim
from gpuctl.reading.queue_rows import LocalQueue, Queue
from gpuctl.usecases.queue_queries import describe_queue

_LOCAL = ("NAME", "NAMESPACE", "STATUS", "PENDING", "RESERVING", "ADMITTED", "USED", "REASON")
_JOB = ("NAME", "NAMESPACE", "KIND", "PRIORITY", "GPU", "AGE")


@click.command(
    "queue",
    short_help="Quota and jobs of a queue of Kueue.",
    epilog="Example:\n\n  $ gpuctl describe queue research",
)
@click.argument("name", metavar="QUEUE", shell_complete=complete_queue)
@detail_options
@namespace_option("A namespace that uses the queue; needed with rights in a single one.")
@reading_options
def command(
    name: str,
    output: str,
    as_json: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    platform: str | None,
) -> int:
    """Show a ClusterQueue: its quota, the jobs that wait in their order, and the jobs that hold the quota."""
    output = "json" if as_json else output
    with open_context(kubeconfig, context, platform, namespace, as_json=output != "text") as read_context:
        queue = describe_queue(read_context, name.rpartition("/")[2])
        gpus = PlatformGpus(read_context.settings)
        if output == "text":
            _show(queue, gpus)
        else:
            show_value(QueueDetail.of(queue, gpus, read_context.scope.notes).as_json(), output)
    return 0


def _show(queue: Queue, gpus: PlatformGpus) -> None:
    row = queue.row
    sections.show_facts(
        [
            ("Name", row.name),
            ("Status", sections.state(row.status) + (f": {row.reason}" if row.reason else "")),
            ("Cohort", "not known" if row.quotas is None else row.cohort or "none"),
            ("Strategy", row.strategy),
            ("Created", sections.when(row.created_at)),
        ]
    )
    amounts = [
        (
            quota.slot.resource,
            quota.slot.flavor,
            *(
                format_amount(quota.slot.resource, value)
                for value in (quota.nominal, quota.used, quota.borrowed, quota.free)
            ),
        )
        for quota in row.quotas or ()
    ]
    unknown = "not known: Kueue's clusterqueues may not be read" if row.quotas is None else "none"
    sections.show_section("Quota", ("RESOURCE", "FLAVOR", "QUOTA", "USED", "BORROWED", "FREE"), amounts, unknown)
    sections.show_section("Local queues", _LOCAL, map(_local_cells, row.local_queues), "none")
    unknown = "not known: Kueue's workloads may not be read" if row.waiting_jobs is None else "none"
    waiting = [(str(item.position), *_cells(item.claim, gpus)) for item in queue.waiting]
    sections.show_section("Waiting, in the order in which Kueue tries them", ("POSITION", *_JOB), waiting, unknown)
    admitted = [_cells(claim, gpus) for claim in queue.admitted]
    sections.show_section("Admitted, the oldest first", _JOB, admitted, unknown)


def _local_cells(place: LocalQueue) -> tuple[str, ...]:
    counts = map(format_count, (place.pending, place.reserving, place.admitted))
    used = ", ".join(f"{slot.resource} {format_amount(slot.resource, amount)}" for slot, amount in place.used)
    return place.name, place.namespace, place.status, *counts, used, place.reason


def _cells(claim: QueueClaim, gpus: PlatformGpus) -> tuple[str, ...]:
    kind, _, name = claim.name.partition("/")
    gpu = str(gpus.count(claim.amounts))
    return name, claim.namespace, kind, str(claim.priority), gpu, age(claim.since) if claim.since else ""

"""``gpuctl describe queue``."""

from __future__ import annotations

import click

from gpuctl.api.queue_answers import QueueDetail, QueueEntrance, QueueJob
from gpuctl.cli.commands.describe import sections
from gpuctl.cli.commands.describe.named import show_named
from gpuctl.cli.options.completion_callbacks import complete_queue
from gpuctl.cli.options.document_options import namespace_option
from gpuctl.cli.options.reading_options import ReadingOptions, detail_options, reading_options
from gpuctl.cli.output.amounts import format_count, rounded_amount
from gpuctl.usecases.queries.queue_queries import describe_queue
from gpuctl.usecases.queries.read_context import ReadContext

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
def command(name: str, output: str, namespace: str | None, reading: ReadingOptions) -> int:
    """Show a ClusterQueue: its quota, the jobs that wait in their order, and the jobs that hold the quota."""
    return show_named(name, output, reading, describe_queue, QueueDetail.as_json, _show, namespace)


def _show(read_context: ReadContext, queue: QueueDetail) -> None:
    sections.show_facts(
        [
            ("Name", queue.name),
            ("Status", sections.state(queue.status) + (f": {queue.reason}" if queue.reason else "")),
            ("Cohort", "not known" if queue.resources is None else queue.cohort or "none"),
            ("Strategy", queue.strategy or ""),
            ("Created", sections.when(read_context, queue.created_at)),
        ]
    )
    amounts = [
        (
            quota.resource,
            quota.flavor,
            *(rounded_amount(quota.resource, value) for value in (quota.total, quota.used, quota.borrowed, quota.free)),
        )
        for quota in queue.resources or ()
    ]
    unknown = "not known: Kueue's clusterqueues may not be read" if queue.resources is None else "none"
    sections.show_section("Quota", ("RESOURCE", "FLAVOR", "QUOTA", "USED", "BORROWED", "FREE"), amounts, unknown)
    sections.show_section("Local queues", _LOCAL, map(_local_cells, queue.local_queues), "none")
    unknown = "not known: Kueue's workloads may not be read" if queue.waiting_jobs is None else "none"
    waiting = [(str(job.position), *_cells(read_context, job)) for job in queue.waiting]
    sections.show_section("Waiting, in the order in which Kueue tries them", ("POSITION", *_JOB), waiting, unknown)
    admitted = [_cells(read_context, job) for job in queue.admitted]
    sections.show_section("Admitted, the oldest first", _JOB, admitted, unknown)


def _local_cells(place: QueueEntrance) -> tuple[str, ...]:
    counts = map(format_count, (place.pending_workloads, place.reserving_workloads, place.admitted_workloads))
    used = ", ".join(f"{use.resource} {rounded_amount(use.resource, use.used)}" for use in place.resources)
    return place.name, place.namespace, place.status, *counts, used, place.reason or ""


def _cells(read_context: ReadContext, job: QueueJob) -> tuple[str, ...]:
    since = read_context.age(job.created_at)
    return job.name, job.namespace, job.kind, str(job.priority), str(job.gpu), since

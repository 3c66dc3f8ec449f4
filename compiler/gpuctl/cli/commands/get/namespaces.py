"""``gpuctl get namespaces``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuctl.cli.commands.get.listing import ListEntry, show_list, strip_kinds
from gpuctl.cli.options.completion_callbacks import complete_namespace
from gpuctl.cli.options.reading_options import ListOptions, ReadingOptions, list_options, open_context, reading_options
from gpuctl.reading.queues.namespace_rows import NamespaceRow

if TYPE_CHECKING:
    from gpuctl.api.namespace_answers import NamespaceItem

HEADERS = ("NAME", "STATUS", "JOBS", "GPU USED", "QUOTA", "AGE")


@click.command(
    "namespaces",
    short_help="Namespaces with jobs or quotas.",
    epilog="Examples:\n\n  $ gpuctl get namespaces\n\n  $ gpuctl get ns --all",
)
@click.argument("names", nargs=-1, metavar="[NAMESPACE]...", shell_complete=complete_namespace)
@click.option("--all", "-A", "everything", is_flag=True, help="Also those without jobs and quotas.")
@list_options
@reading_options
def command(
    names: tuple[str, ...],
    everything: bool,
    output_form: ListOptions,
    reading: ReadingOptions,
) -> int:
    """List namespaces that gpuctl created, or that have gpuctl jobs or quotas.

    JOBS counts jobs that have not ended; GPU USED is what pods on nodes request.
    """
    from gpuctl.usecases.queries.quota_queries import list_namespaces

    with open_context(reading, as_json=output_form.is_machine) as read_context:
        found = list_namespaces(read_context, strip_kinds(names), everything=everything)
        entries = []
        for item in found:
            cells = [item.name, item.status or "", str(item.jobs), str(item.gpu_used), ",".join(item.quotas)]
            cells.append(read_context.age(item.created_at))
            entries.append(ListEntry(f"namespace/{item.name}", cells))
        nothing = "No namespace has gpuctl jobs or quotas; --all shows the others."
        show_list(output_form, partial(_answer, found), HEADERS, (), entries, nothing)
    return 0


def _answer(found: Sequence[NamespaceRow | NamespaceItem]) -> dict[str, Any]:
    # Imported here: the models take longer to import than a small cluster to list, and a table does not need them.
    from gpuctl.api.namespace_answers import NamespaceList

    return NamespaceList.of(found).as_json()

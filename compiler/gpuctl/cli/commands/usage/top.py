"""``gpuctl usage top``."""

from __future__ import annotations

import click

from gpuctl.api.usage_answers import HeldNow, HeldNowList
from gpuctl.cli.commands.usage.usage_options import (
    RowFormat,
    UsageSource,
    note_cut_rows,
    note_if_stale,
    note_on_terminal,
    open_usage_backend,
    shape_options,
    show_csv,
    where_options,
)
from gpuctl.cli.options.document_options import only_namespace_option
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.cli.output.usage_amounts import coverage_percent, gpu_hours, gpus, percent
from gpuctl.reading.usage.usage_records import CurrentHolders
from gpuctl.usecases.usage.current_holders import current_holders

_NEXT = "the collector takes a snapshot every 5 minutes"
HEADERS = ("NAME", "NAMESPACE", "KIND", "GPUS", "USE-NOW", "USE-LATELY", "IDLE", "COVERAGE")


@click.command(
    "top",
    short_help="Workloads that hold GPUs now, and their use.",
    epilog="Examples:\n\n  $ gpuctl usage top\n\n  $ gpuctl usage top --sort use -n team-a",
)
@only_namespace_option
@click.option(
    "--sort",
    type=click.Choice(["gpus", "use", "idle", "name"]),
    default="gpus",
    show_default=True,
    help="Most GPUs or idle GPU-hours first; lowest use first; by name.",
)
@shape_options
@where_options
def command(
    namespace: str | None,
    sort: str,
    row_format: RowFormat,
    source: UsageSource,
) -> int:
    """List the workloads that held GPUs at the last snapshot; the collector takes one every 5 minutes.

    USE-NOW is that of the snapshot; USE-LATELY, IDLE (GPU-hours) and COVERAGE are of the current hour and the one
    before.
    """
    with open_usage_backend(source, as_json=row_format.output == "json") as backend:
        found, now = current_holders(backend, source.cluster, namespace or "", sort), backend.now()
    shown = found._replace(workloads=found.workloads[: row_format.limit])
    if row_format.output == "table":
        _show(shown, row_format)
        _print_notes(found, len(shown.workloads))
    else:
        _show_values(shown, row_format.output)
    if not found.workloads:
        click.echo(f"No GPUs were held at {found.time}; {_NEXT}.", err=True)
    note_if_stale(found.time, "the last snapshot", now)
    return 0


def _show(found: CurrentHolders, row_format: RowFormat) -> None:
    rows = []
    for item in found.workloads:
        late = item.recent
        known = late is not None and late.mean_use is not None
        rows.append(
            [
                *(item.holder.name, item.holder.namespace, item.holder.kind, gpus(item.gpus), percent(item.use)),
                percent(late.mean_use if late is not None else None),
                gpu_hours(late.idle if late is not None and known else None),
                coverage_percent(late.coverage if late is not None else None),
            ]
        )
    show_table(HEADERS, rows, headings=row_format.headings, droppable=("COVERAGE", "KIND"))


def _print_notes(found: CurrentHolders, shown: int) -> None:
    of = f"/{gpus(found.capacity)}" if found.capacity is not None else ""
    note_on_terminal(f"{found.time}: {gpus(found.allocated) or '-'}{of} GPUs held by {len(found.workloads)} workloads")
    note_cut_rows(len(found.workloads), shown)


def _show_values(found: CurrentHolders, output: str) -> None:
    answer = HeldNowList.of(found)
    if output == "json":
        show_value(answer.as_json(), "json")
        return
    show_csv(HeldNow.columns(), (item.as_json() for item in answer.items))

"""``gpuctl usage cluster``, ``namespaces``, ``labels``, ``workloads``, ``nodes`` and ``models``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from gpuctl.api.base_models import ApiModel
from gpuctl.api.usage_answers import columns_of, group_steps, group_totals, usage_answer
from gpuctl.cli.commands.usage.usage_options import (
    STEPS,
    RowFormat,
    TimeOptions,
    UsageSource,
    note_cut_rows,
    note_known_time,
    note_on_terminal,
    note_unsized,
    open_usage_backend,
    parse_range,
    range_text,
    shape_options,
    show_csv,
    time_options,
    where_options,
    zone_named,
)
from gpuctl.cli.options.document_options import only_namespace_option
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.cli.output.usage_amounts import coverage_percent, gpu_hours, percent
from gpuctl.cli.output.usage_lines import DROPPABLE, group_table, part_table, step_table
from gpuctl.reading.usage.usage_records import UsageView
from gpuctl.usecases.usage.usage_views import ViewOptions, usage_view

Function = TypeVar("Function", bound=Callable[..., Any])
SORTS = ("gpu-hours", "idle", "use", "coverage", "name")


def _options(function: Function) -> Function:
    for decorate in (
        where_options,
        shape_options,
        click.option(
            "--sort",
            type=click.Choice(SORTS),
            default="gpu-hours",
            show_default=True,
            help="Most GPU-hours or idle GPU-hours first; lowest use or coverage first; by name.",
        ),
        click.option("--step", type=click.Choice(STEPS), help="One row per step instead of a sparkline."),
        time_options,
    ):
        function = decorate(function)
    return function


@click.command(
    "cluster",
    short_help="Use of the cluster's GPU capacity.",
    epilog="Examples:\n\n  $ gpuctl usage cluster\n\n  $ gpuctl usage cluster --last 30d --step day -o csv",
)
@_options
def cluster(**given: Any) -> int:
    """Show how the GPU capacity of the cluster was used.

    The capacity consists of held, free and unusable GPU-hours (on nodes that take no pods). Held GPU-hours are busy,
    idle, or unknown because nothing measured them.
    """
    return _show("cluster", **given)


@click.command(
    "namespaces",
    short_help="GPU-hours, use and idle GPU-hours by namespace.",
    epilog="Examples:\n\n  $ gpuctl usage namespaces\n\n  $ gpuctl usage namespaces --last 7d --sort idle",
)
@only_namespace_option
@_options
def namespaces(**given: Any) -> int:
    """List namespaces that held GPUs.

    GPU-HOURS are the held ones. SHARE is their part of the cluster's capacity. USE is the mean utilization of the
    measured ones, and COVERAGE the measured part. IDLE are measured GPU-hours that were not used, UNKNOWN those that
    were not measured. ALLOWED is what the quotas of the namespace allowed; without a quota, the capacity of the
    cluster.
    """
    return _show("namespace", **given)


@click.command(
    "labels",
    short_help="GPU-hours, use and idle GPU-hours by the values of a label.",
    epilog="Examples:\n\n  $ gpuctl usage labels team\n\n  $ gpuctl usage labels cost-center --annotation --last 30d",
)
@click.argument("key", metavar="KEY")
@click.option("--annotation", "is_annotation", is_flag=True, help="KEY is an annotation.")
@_options
def labels(key: str, is_annotation: bool, **given: Any) -> int:
    """List the values of a label. The rows add up to the cluster: `__unset__` stands for workloads without the label.

    KEY is one of the collected labels, for example `team` or `project`. The columns are those of `usage namespaces`.
    """
    return _show("annotation" if is_annotation else "label", key=key, **given)


@click.command(
    "workloads",
    short_help="GPU-hours, use and idle GPU-hours by workload.",
    epilog="Examples:\n\n  $ gpuctl usage workloads -n team-a\n\n  $ gpuctl usage workloads --sort idle --limit 10",
)
@only_namespace_option
@_options
def workloads(**given: Any) -> int:
    """List workloads that held GPUs: the topmost owners of pods. The columns are those of `usage namespaces`."""
    return _show("workload", **given)


@click.command(
    "nodes",
    short_help="GPU-hours, use and idle GPU-hours by node.",
    epilog="Examples:\n\n  $ gpuctl usage nodes\n\n  $ gpuctl usage nodes --sort use --last 7d",
)
@_options
def nodes(**given: Any) -> int:
    """List nodes with GPUs; SHARE is of the node's own capacity. The columns are those of `usage namespaces`."""
    return _show("node", **given)


@click.command(
    "models",
    short_help="GPU-hours, use and idle GPU-hours by model of GPU.",
    epilog="Example:\n\n  $ gpuctl usage models --last 30d",
)
@_options
def models(**given: Any) -> int:
    """List models of GPUs; SHARE is of the model's capacity. The columns are those of `usage namespaces`."""
    return _show("model", **given)


def _show(
    level: str,
    *,
    times: TimeOptions,
    step: str | None,
    sort: str,
    row_format: RowFormat,
    source: UsageSource,
    namespace: str | None = None,
    key: str = "",
) -> int:
    options = ViewOptions(step or "", sort, row_format.limit, over_time=row_format.output != "csv" or step is not None)
    with open_usage_backend(source, as_json=row_format.output == "json") as backend:
        asked = parse_range(times, backend.now, source.cluster, namespace)
        view = usage_view(backend, level, asked, options, key)
        keys = backend.keys(source.cluster, level) if key and not view.groups else []
        now = backend.now()
    if row_format.output == "table":
        _show_table(view, row_format, by_step=step is not None)
    else:
        _show_values(view, row_format.output, by_step=step is not None)
    if row_format.output != "json" and view.known is not None:
        note_known_time(view.known, asked, now)
        note_unsized(view.whole)
    if not view.groups:
        click.echo(f"No usage is recorded for {range_text(asked)}.", err=True)
        if key and key not in keys:
            click.echo(
                f"note: usage is not collected by the {level} `{key}`, but by {', '.join(keys) or 'none'}: "
                f"set `usage_{level}s` of the collector",
                err=True,
            )
    return 0


def _show_values(view: UsageView, output: str, *, by_step: bool) -> None:
    if output == "json":
        show_value(usage_answer(view, by_step=by_step).as_json(), "json")
        return
    rows: Iterable[ApiModel] = group_steps(view) if by_step else group_totals(view)
    show_csv(columns_of(view, by_step=by_step), (row.as_json() for row in rows))


def _show_table(view: UsageView, row_format: RowFormat, *, by_step: bool) -> None:
    if by_step:
        heads, rows = step_table(view, zone_named(view.asked.zone))
    else:
        heads, rows = (part_table if view.level == "cluster" else group_table)(view)
    # Names and labels contain no blanks. The value of an annotation is shown unchanged, because it identifies the row.
    show_table(heads, rows, headings=row_format.headings, droppable=DROPPABLE, with_blanks=view.level == "annotation")
    use, whole = view.all_groups, view.whole
    of = f" of {gpu_hours(whole.capacity)}" if whole is not None and whole.capacity else ""
    share = f" ({percent(use.share_of(view.capacity))})" if of else ""
    note_on_terminal(
        f"{range_text(view.asked)}: {gpu_hours(use.held)}{of} GPU-hours held{share}, "
        f"{percent(use.mean_use) or '-'} used, {coverage_percent(use.coverage) or '-'} measured"
    )
    note_cut_rows(view.count, len(view.groups))
    if not view.times and not by_step and view.groups:
        note_on_terminal("too many rows for sparklines: use -n, --limit or a longer --step")

"""``gpuctl usage waste``."""

from __future__ import annotations

from contextlib import closing

import click

from gpuctl.api.usage_answers import HeldIdleWorkload, IdleGpuList
from gpuctl.cli.command_target import command_here
from gpuctl.cli.commands.usage.usage_options import (
    RowFormat,
    TimeOptions,
    UsageSource,
    note_cut_rows,
    note_if_stale,
    note_on_terminal,
    open_usage_backend,
    parse_range,
    range_text,
    shape_options,
    show_csv,
    time_options,
    where_options,
)
from gpuctl.cli.options.connection_options import ConnectionOptions, kubeconfig_options
from gpuctl.cli.options.document_options import only_namespace_option
from gpuctl.cli.options.platform_option import platform_option, platform_settings
from gpuctl.cli.options.reading_options import reject_platform
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.cli.output.usage_amounts import gpus, percent
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.configuration import open_session
from gpuctl.objects.durations import HOUR, rough_duration
from gpuctl.reading.usage.usage_records import IdleGpuReport, IdleHolder
from gpuctl.usecases.queries.read_context import context_of
from gpuctl.usecases.usage.idle_gpus import idle_gpus, pausable_names, with_pauses
from gpuctl.usecases.usage.usage_backends import UsageService

HEADERS = ("NAME", "NAMESPACE", "KIND", "OWNER", "GPUS", "IDLE-FOR", "USE", "IDLE-GPU-HOURS")


@click.command(
    "waste",
    short_help="GPUs that are held and idle, since when, and how to free them.",
    epilog="Examples:\n\n  $ gpuctl usage waste\n\n  $ gpuctl usage waste --last 7d -n team-a -o json",
)
@only_namespace_option
@click.option(
    "--below",
    type=click.FloatRange(0, 100, min_open=True),
    default=5.0,
    show_default=True,
    metavar="PERCENT",
    help="An hour with less use than this is idle.",
)
@time_options
@shape_options
@platform_option("The platform's settings, with its prices. Default: platform.yaml here or above, up to the git root.")
@kubeconfig_options
@where_options
def command(
    namespace: str | None,
    below: float,
    times: TimeOptions,
    row_format: RowFormat,
    platform: str | None,
    connection: ConnectionOptions,
    source: UsageSource,
) -> int:
    """List workloads that hold GPUs now and have not used them for an hour or longer.

    IDLE-FOR is the number of consecutive idle hours until now; an hour counts only if at least half of it was measured.
    IDLE-GPU-HOURS and COST are of the time of --last. The commands below the table free the GPUs of jobs; a workload
    that gpuctl does not manage has to be scaled down by its owner.
    """
    with open_usage_backend(source, as_json=row_format.output == "json", connection=connection) as backend:
        asked = parse_range(times, backend.now, source.cluster, namespace)
        if isinstance(backend, UsageService):
            _reject_cluster_options(platform, connection)
        settings = platform_settings(platform)
        waste, now = idle_gpus(backend, asked, below, settings), backend.now()
        if not isinstance(backend, UsageService) and waste.workloads:
            waste = _with_pauses(waste, connection, platform)
    if row_format.output == "table":
        _show(waste, row_format)
        _print_notes(waste, row_format, range_text(asked))
    else:
        _show_values(waste, row_format)
    if not waste.workloads:
        click.echo("No workload that holds GPUs has been idle for an hour or longer.", err=True)
    note_if_stale(waste.known_until, "the list of GPU holders", now)
    return 0


def _reject_cluster_options(platform: str | None, connection: ConnectionOptions) -> None:
    """Reject options that select a cluster or a platform if a service is asked.

    :raises click.UsageError: such an option was given.
    """
    reject_platform(platform)
    for name, value in (("--context", connection.context), ("--kubeconfig", connection.kubeconfig)):
        if value is not None:
            raise click.UsageError(
                f"{name} needs a usage database, and a service is selected: name a database with --database."
            )


def _with_pauses(waste: IdleGpuReport, connection: ConnectionOptions, platform: str | None) -> IdleGpuReport:
    """Add the names of pausable jobs in the kubeconfig's cluster; matched by uid, so a wrong cluster adds none."""
    try:
        with closing(open_session(kubeconfig=connection.kubeconfig, context=connection.context)) as session:
            return with_pauses(waste, pausable_names(context_of(session, platform_settings(platform))))
    except ClusterError as error:
        click.echo(f"note: unknown which of them can be paused: {error.message}", err=True)
        return waste


def _shown(waste: IdleGpuReport, row_format: RowFormat) -> list[IdleHolder]:
    return list(waste.workloads[: row_format.limit])


def _show(waste: IdleGpuReport, row_format: RowFormat) -> None:
    priced = any(item.cost is not None for item in waste.workloads)
    money = [f"COST-{waste.currency}" if waste.currency else "COST"] if priced else []
    rows = []
    for item in _shown(waste, row_format):
        cells = [item.holder.name, item.holder.namespace, item.holder.kind, item.owner or "", gpus(item.gpus)]
        cells += [rough_duration(item.idle_hours * HOUR), percent(item.mean_use)]
        cells.append("" if item.idle_gpu_hours is None else f"{item.idle_gpu_hours:.1f}")
        cells += ["" if item.cost is None else f"{item.cost:.2f}"] if priced else []
        rows.append(cells)
    show_table([*HEADERS, *money], rows, headings=row_format.headings, droppable=("KIND", "USE", "OWNER"))
    # Below the table, whose cells are cut on a narrow terminal: these lines are copied.
    lines = [line for item in _shown(waste, row_format) if (line := pause_line(item))]
    for line in ["", "To free them:", *lines] if lines else []:
        click.echo(line)


def pause_line(item: IdleHolder) -> str:
    """Return the command that frees the GPUs; "" if gpuctl cannot pause the workload."""
    return command_here("pause", item.pause, "-n", item.holder.namespace) if item.pause else ""


def _print_notes(waste: IdleGpuReport, row_format: RowFormat, when: str) -> None:
    if waste.total_idle is not None:
        cost = "" if waste.total_cost is None else f", {waste.total_cost:.2f} {waste.currency}".rstrip()
        note_on_terminal(f"{when}: {waste.total_idle:.1f} GPU-hours were held and idle in total{cost}")
    note_cut_rows(len(waste.workloads), len(_shown(waste, row_format)))


def _show_values(waste: IdleGpuReport, row_format: RowFormat) -> None:
    items = [HeldIdleWorkload.of(item, pause_line(item) or None) for item in _shown(waste, row_format)]
    if row_format.output == "json":
        show_value(IdleGpuList.of(waste, items).as_json(), "json")
        return
    show_csv(HeldIdleWorkload.columns(), ({**item.as_json(), "models": _models_text(item.models)} for item in items))


def _models_text(models: dict[str, float]) -> str:
    return "; ".join(f"{number:g} x {model}" for model, number in models.items())

"""Options of the commands that show usage: the source, the time range, the form of rows; and notes on the result."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import click

from gpuctl.cli.command_target import is_server_stated
from gpuctl.cli.commands.usage.database_options import database_options, stated_database
from gpuctl.cli.options.bound_options import bound
from gpuctl.cli.options.connection_options import ConnectionOptions, cluster_errors, json_flag, named_format
from gpuctl.cli.options.server_option import server_option
from gpuctl.cli.options.service_choice import chosen_service
from gpuctl.cli.output.usage_amounts import gpu_hours, known_time_text
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.cluster_identity import kube_system_uid
from gpuctl.kube.configuration import open_session
from gpuctl.objects.durations import HOUR, parse_duration, rough_duration
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.gpu_time import GpuTime, KnownTime
from gpuctl.reading.usage.usage_records import UsageRange
from gpuctl.usecases.queries.read_context import ReadContext
from gpuctl.usecases.usage.usage_backends import UsageBackend, UsageService

FORMATS = ("table", "json", "csv")
STEPS = ("hour", "day", "week", "month")
_OLD = 900
"""Age in seconds above which a note calls data old; three snapshots are taken in that time."""
_SHORT = 600.0
"""Seconds of a range that may be missing without a note: the current hour is computed every 5 minutes."""
_SHOWN = 20
"""Default number of rows on a terminal."""


class UsageSource(NamedTuple):
    """A usage database, its settings, and the cluster in it; None and "": the default."""

    cluster: str
    database: str | None
    config: str | None


where_options = bound(
    "source",
    UsageSource,
    click.option(
        "--cluster",
        default="",
        metavar="NAME",
        help="The cluster. Default: the only one, or that of the kubeconfig.",
    ),
    database_options,
    server_option,
)
"""Adds the options that select a database or a service; the command gets a :class:`UsageSource`."""


class TimeOptions(NamedTuple):
    """The options of a time range, as they were given."""

    last: str | None
    start: str | None
    end: str | None
    tz: str


time_options = bound(
    "times",
    TimeOptions,
    click.option("--last", metavar="TIME", help="The last hours or days: 24h, 7d. Default: 24h."),
    click.option("--from", "start", metavar="TIME", help="Hours from this time on: 2026-10-01, or RFC 3339."),
    click.option("--to", "end", metavar="TIME", help="Hours before this time. Default: now."),
    click.option("--tz", default="UTC", metavar="ZONE", show_default=True, help="Time zone, such as Asia/Shanghai."),
)
"""Adds the options of the time range; the command gets :class:`TimeOptions`."""
KUBECTL = ConnectionOptions()
"""The cluster that kubectl would use."""


class RowFormat(NamedTuple):
    """The form of rows. ``output``: one of :data:`FORMATS`. ``limit``: maximum number of rows; None: all."""

    output: str
    headings: bool
    limit: int | None


def _row_format(output: str, as_json: bool, no_headers: bool, limit: int | None) -> RowFormat:
    output = named_format(output, as_json)
    default = _SHOWN if output == "table" and sys.stdout.isatty() else None
    return RowFormat(output, not no_headers, default if limit is None else limit or None)


shape_options = bound(
    "row_format",
    _row_format,
    click.option(
        "--limit", type=click.IntRange(0), help=f"Maximum number of rows; 0: all. Default: {_SHOWN} on a terminal."
    ),
    click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True, help="Format."),
    json_flag,
    click.option("--no-headers", is_flag=True, help="Omit the header line."),
)
"""Adds the options of format and number of rows; the command gets a :class:`RowFormat`."""


@contextmanager
def open_usage_backend(
    source: UsageSource, *, as_json: bool = False, connection: ConnectionOptions = KUBECTL
) -> Iterator[UsageBackend]:
    """Yield the stated database, else a service, else the database of the settings.

    Failures become messages and exit codes.

    :param connection: selects the default cluster of a database with several clusters.
    """
    if is_server_stated() and (source.database or source.config):
        raise click.UsageError(
            "--server selects a service, which has its own database: leave --database and --config out."
        )
    errors = cluster_errors(as_json=as_json, of_plan=False)
    with errors, closing(_backend(source, partial(_uid_at_hand, connection))) as backend:
        yield backend


def _backend(source: UsageSource, own_uid: Callable[[], str | None]) -> UsageBackend:
    if not source.database and not source.config and (service := chosen_service(())) is not None:
        return UsageService(service)
    return _open_database(stated_database(source.database, source.config), own_uid)


def _open_database(address: str, own_uid: Callable[[], str | None]) -> UsageBackend:
    # It needs the extra `usage`, which a client of a service may lack.
    from gpuctl.usecases.usage.usage_database import UsageDatabase

    return UsageDatabase(address, own_uid)


def _uid_at_hand(connection: ConnectionOptions) -> str | None:
    """Return the uid of the cluster of the kubeconfig; None if it cannot be read."""
    try:
        with closing(open_session(kubeconfig=connection.kubeconfig, context=connection.context)) as session:
            return kube_system_uid(session)
    except ClusterError:
        return None


@contextmanager
def configured_backend(read_context: ReadContext) -> Iterator[UsageBackend | None]:
    """Yield the usage source of a command that shows other things too: the service, or the database of the settings.

    None if neither is configured.

    :param read_context: its service is asked and stays open; without a service, its cluster is the database's default.
    :raises ClusterError: the source is configured, but cannot be used.
    """
    if read_context.service is not None:
        yield UsageService(read_context.service)
        return
    if not any(os.environ.get(name) for name in ("GPUCTL_SERVER_USAGE_DATABASE", "GPUCTL_SERVER_CONFIG")):
        # Reading the settings would take longer than the rest of the command.
        yield None
        return
    try:
        address = stated_database(None, None)
    except click.UsageError:
        # The file of settings does not name a database.
        yield None
        return
    with closing(_open_database(address, lambda: kube_system_uid(read_context.scope.session))) as backend:
        yield backend


def parse_range(
    options: TimeOptions, now: Callable[[], float], cluster: str = "", namespace: str | None = None
) -> UsageRange:
    """Return the time range of the options, in whole hours and including the current one.

    :param now: returns the time; it is called if no end is given, and the options are valid.
    :raises click.UsageError: the options contradict each other or are not times.
    """
    last, start, end, tz = options
    zone = zone_named(tz)
    if last is not None and start is not None:
        raise click.UsageError("--last counts back from --to or now, --from is a start time: not both.")
    length = parse_duration(last or "24h")
    if not length:
        raise click.UsageError(f"--last must be a duration such as 24h or 7d, got `{last}`.")
    begin = stated_time("--from", start, zone) if start is not None else None
    until = stated_time("--to", end, zone) if end is not None else now()
    # With the current hour the range has the requested length, in whole hours.
    since = (-(-until // HOUR) - -(-length // HOUR)) * HOUR if begin is None else begin
    if since >= until:
        raise click.UsageError("--from must be before --to, and before now.")
    return UsageRange(since, until, tz, cluster, namespace or "")


def zone_named(tz: str) -> tzinfo:
    """Return a time zone.

    :raises click.UsageError: it does not exist.
    """
    try:
        return ZoneInfo(tz)
    except (KeyError, ValueError, OSError):
        raise click.UsageError(f"--tz: there is no time zone `{tz[:64]}`; use a name such as Asia/Shanghai.") from None


def stated_time(option: str, text: str, zone: tzinfo) -> float:
    """Parse the time of an option, seconds since 1970; a time without a zone is in ``zone``.

    :raises click.UsageError: it is not a time.
    """
    try:
        return parse_timestamp(text, zone).timestamp()
    except (ValueError, OverflowError):
        raise click.UsageError(
            f"{option} must be a time such as 2026-10-01 or 2026-10-01T14:00:00Z, got `{text[:64]}`."
        ) from None


def range_text(asked: UsageRange) -> str:
    """Return a time range as text: ``2026-10-01 00:00 to 2026-11-01 00:00 (UTC)``."""
    zone = zone_named(asked.zone)
    start, end = (
        datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M") for moment in (asked.start, asked.end)
    )
    return f"{start} to {end} ({asked.zone})"


def show_csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print rows as CSV, with a header line even if there are no rows."""
    from gpuctl_usage.answers.rows_as_csv import as_csv

    click.echo(as_csv(names, rows, "\n"), nl=False)


def note_on_terminal(text: str) -> None:
    """Print a note to standard error if standard output is a terminal."""
    if sys.stdout.isatty():
        click.echo(text, err=True)


def note_cut_rows(count: int, shown: int) -> None:
    """Print to standard error, also in a pipe, the number of rows that were cut."""
    if count > shown:
        click.echo(f"note: {count - shown} more rows: `--limit 0` prints all {count}", err=True)


def note_known_time(known: KnownTime, asked: UsageRange, now: float) -> None:
    """Print to standard error which part of a range is known, and whether its figures may change.

    Missing or provisional hours are reported also in a pipe; complete and final hours only on a terminal.
    """
    passed = min(asked.end, now) - asked.start
    told = []
    if known.seconds < passed - _SHORT:
        told.append(f"known: {known_time_text(known, asked.seconds, zone_named(asked.zone))} ({asked.zone})")
    if known.provisional:
        told.append("provisional: the last hours may still change")
    if told:
        click.echo(f"note: {'; '.join(told)}", err=True)
    elif known.provisional is False:
        note_on_terminal("all hours are known and final")


def note_unsized(whole: GpuTime | None) -> None:
    """Print to standard error the GPU-hours that pods with an unknown share of a card may hold."""
    if whole is not None and whole.unsized:
        click.echo(
            f"note: {gpu_hours(whole.unsized)} GPU-hours of the capacity are held by pods with an unknown share of a "
            "card, or free; such pods are in no row. Label their nodes with nvidia.com/gpu.memory (MiB)",
            err=True,
        )


def note_if_stale(time_known: str, what: str, now: float) -> None:
    """Print a note if data is older than :data:`_OLD`; ``time_known`` is its time, RFC 3339."""
    age = now - parse_timestamp(time_known).timestamp()
    if age > _OLD:
        click.echo(f"note: {what} is {rough_duration(age)} old; is `gpuctl usage collect` running?", err=True)

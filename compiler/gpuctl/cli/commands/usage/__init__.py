"""``gpuctl usage``: collect and show GPU usage."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timezone
from typing import TYPE_CHECKING, Any, TypeVar

import click

from gpuctl.cli.command_target import is_server_stated
from gpuctl.cli.commands.usage.database_options import stated_settings
from gpuctl.cli.commands.usage.usage_options import stated_time
from gpuctl.cli.options.connection_options import ClusterFailure, kubeconfig_options
from gpuctl.cli.options.platform_option import platform_option
from gpuctl.cli.options.subcommand_groups import Subcommand, SubcommandGroup
from gpuctl.language.display_text import count_text

if TYPE_CHECKING:
    from gpuctl_usage.usage_settings import UsageSettings

Function = TypeVar("Function", bound=Callable[..., Any])
_STORES = "gpuctl.cli.commands.usage.exporting"
_TABLES = "gpuctl.cli.commands.usage.breakdowns"
SUBCOMMANDS = {
    "top": Subcommand("gpuctl.cli.commands.usage.top", "Workloads that hold GPUs now, and their use."),
    "cluster": Subcommand(_TABLES, "Use of the cluster's GPU capacity.", (), "cluster"),
    "namespaces": Subcommand(_TABLES, "By namespace.", ("namespace", "ns"), "namespaces"),
    "labels": Subcommand(_TABLES, "By the values of a label, such as team.", ("label",), "labels"),
    "workloads": Subcommand(_TABLES, "By workload.", ("workload",), "workloads"),
    "nodes": Subcommand(_TABLES, "By node.", ("node",), "nodes"),
    "models": Subcommand(_TABLES, "By model of GPU.", ("model",), "models"),
    "waste": Subcommand("gpuctl.cli.commands.usage.waste", "GPUs that are held and idle, and how to free them."),
    "idle": Subcommand("gpuctl.cli.commands.usage.idle_jobs", "Warn owners of idle jobs, or pause the jobs."),
    "report": Subcommand("gpuctl.cli.commands.usage.monthly_report", "Print a monthly usage report."),
    "collect": Subcommand("gpuctl.cli.commands.usage", "Collect usage into the database.", (), "collect"),
    "rollup": Subcommand("gpuctl.cli.commands.usage", "Compute hours again.", (), "rollup"),
    "export": Subcommand(_STORES, "Copy the database to a file, or its months to Parquet.", (), "export"),
    "import": Subcommand(_STORES, "Fill a new database with an exported file.", (), "import_"),
    "sql": Subcommand("gpuctl.cli.commands.usage.sql", "Query exported months with SQL."),
}
_OF_A_DATABASE = ("collect", "rollup", "idle", "export", "import", "sql")


def _options(function: Function) -> Function:
    """Add the options of ``collect`` and ``rollup``; the environment and the file of settings provide the rest."""
    for decorate in (
        click.option("--database", metavar="FILE", help="File or URL of the usage database."),
        click.option("--prometheus", metavar="URL", help="Address of Prometheus. Default: nothing is measured."),
        platform_option("The platform's settings."),
        click.option(
            "--config", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Settings as YAML."
        ),
        kubeconfig_options,
    ):
        function = decorate(function)
    return function


@click.group(
    "usage",
    cls=SubcommandGroup,
    subcommands=SUBCOMMANDS,
    short_help="GPU usage: holders, utilization, cost.",
    epilog="Examples:\n\n  $ gpuctl usage collect --database usage.db",
)
@click.pass_context
def command(context: click.Context) -> None:
    """Show who held the GPUs of a cluster, and how they were used.

    Usage is read from the database of --database, else from the service of `gpuctl login`, else from the database of
    the settings.
    """
    if is_server_stated(context) and context.invoked_subcommand in _OF_A_DATABASE:
        raise click.UsageError(
            f"`gpuctl usage {context.invoked_subcommand}` does not use a service: leave --server out.", context
        )


@command.command(
    "collect",
    epilog="Other settings come from the environment or the file of --config, the same as for `gpuctl serve`.\n\n"
    "Examples:\n\n  $ gpuctl usage collect --database usage.db\n\n"
    "  $ gpuctl usage collect --database usage.db --metrics 127.0.0.1:9464",
)
@click.option(
    "--metrics", "usage_metrics", metavar="ADDRESS", help="HOST:PORT for /metrics, /healthz and /readyz. Default: none."
)
@_options
def collect(**given: Any) -> int:
    """Collect usage until a signal ends the command: watch pods and nodes, and query GPU utilization from Prometheus.

    The collector can be stopped at any time, and resumes where it stopped. An hour is complete 90 seconds after its
    end.
    """
    settings = _settings(given)
    from gpuctl_server.request_log import set_up
    from gpuctl_usage.collector import collect
    from gpuctl_usage.collector_context import CannotCollect
    from gpuctl_usage.collector_health import CollectorHealth
    from gpuctl_usage.health_listener import HealthListener, ListenError

    set_up()
    health = CollectorHealth()
    try:
        with ExitStack() as stack:
            if settings.usage_metrics:
                stack.callback(HealthListener(settings.usage_metrics, health).close)
            collect(settings, stack.enter_context(_stopping()), health)
    except (ListenError, CannotCollect) as error:
        raise ClusterFailure(str(error)) from None
    return 0


@command.command(
    "rollup",
    epilog="Examples:\n\n  $ gpuctl usage rollup --from 2026-10-01 --to 2026-11-01",
)
@click.option(
    "--from",
    "start",
    metavar="TIME",
    required=True,
    help="Start of the first hour: 2026-10-01 (UTC), or RFC 3339.",
)
@click.option("--to", "end", metavar="TIME", required=True, help="End of the last hour.")
@click.option(
    "--even-if-less", is_flag=True, help="Also replace measured hours for which Prometheus now has fewer measurements."
)
@_options
def rollup(start: str, end: str, even_if_less: bool, **given: Any) -> int:
    """Compute the hours between two times again, for example after missing measurements were added to Prometheus.

    Unchanged hours are not written. Measurements that Prometheus no longer has are kept, and reported on standard
    error; --even-if-less drops them.
    """
    settings = _settings(given)
    from gpuctl_usage.collector_context import CannotCollect
    from gpuctl_usage.rollup_rerun import rerun_rollup

    first, last = (stated_time(*said, timezone.utc) for said in (("--from", start), ("--to", end)))
    if first >= last:
        raise click.UsageError("--from must be before --to.")
    try:
        hours, changed = rerun_rollup(settings, first, last, even_if_less=even_if_less)
    except CannotCollect as error:
        raise ClusterFailure(str(error)) from None
    click.echo(f"{count_text(hours, 'hour')} rolled up, {changed} changed")
    return 0


def _settings(given: dict[str, Any]) -> UsageSettings:
    config, database, connection = (given.pop(name) for name in ("config", "database", "connection"))
    return stated_settings(config, usage_database=database, **connection._asdict(), **given)


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM or SIGINT sets during the block; a second signal ends the process at once."""
    stopping = threading.Event()

    def stop(number: int, frame: object) -> None:
        stopping.set()
        signal.signal(number, signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

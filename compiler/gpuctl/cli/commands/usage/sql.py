"""``gpuctl usage sql``: query exported months with SQL."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from gpuctl.cli.commands.usage.database_options import database_options, stated_database
from gpuctl.cli.commands.usage.exporting import moving_errors
from gpuctl.cli.options.duration_values import read_timeout
from gpuctl.cli.output.printing import show_table, show_value
from gpuctl.language.display_text import visible

if TYPE_CHECKING:
    from gpuctl_usage.sql_queries import SqlResult

_FORMATS = ("table", "json", "csv")


@click.command(
    "sql",
    short_help="Query exported months with SQL.",
    epilog="Examples:\n\n  $ gpuctl usage sql --parquet months "
    "\"SELECT value, sum(alloc_gpu_s) / 3600 AS h FROM hours WHERE level = 'namespace' GROUP BY ALL\"",
)
@click.argument("question", metavar="SELECT")
@click.option(
    "--parquet",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Directory of `gpuctl usage export --parquet`. Default: read the database.",
)
@click.option(
    "--limit",
    type=click.IntRange(0, 1_000_000),
    default=1000,
    show_default=True,
    help="Maximum number of rows; 0: only the columns.",
)
@click.option(
    "--timeout",
    default="60s",
    show_default=True,
    callback=read_timeout,
    metavar="TIME",
    help="Time limit of the query, such as 90s or 1h30m.",
)
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="table", show_default=True, help="Format.")
@database_options
def command(
    question: str,
    parquet: Path | None,
    limit: int,
    timeout: float,
    output: str,
    database: str | None,
    config: str | None,
) -> int:
    """Run one SELECT of DuckDB over hours, holdings, capacities, quotas, snapshots and snapshot_workloads.

    It can read only these tables: no other file, no network; nothing is written.
    """
    with moving_errors():
        found = _found(question, parquet, limit, timeout, database, config)
    rows = [[_plain(value) for value in row] for row in found.rows]
    if output == "json":
        show_value([dict(zip(found.columns, row, strict=True)) for row in rows], output)
    elif output == "csv":
        from gpuctl_usage.answers.rows_as_csv import as_csv

        click.echo(as_csv(found.columns, [dict(zip(found.columns, row, strict=True)) for row in rows], "\n"), nl=False)
    else:
        heads = [name.upper() for name in found.columns]
        show_table(heads, [[visible(_text(value)) for value in row] for row in rows], with_blanks=True)
    if found.more and limit:
        click.echo(f"There are more rows than {limit}: --limit shows more.", err=True)
    return 0


def _found(
    question: str, parquet: Path | None, limit: int, timeout: float, database: str | None, config: str | None
) -> SqlResult:
    from gpuctl_usage.sql_queries import InvalidSql, check_sql, run_sql

    try:
        check_sql(question)
        if parquet is not None:
            return run_sql(parquet, question, limit, timeout)
        address = stated_database(database, config)
        with TemporaryDirectory(prefix="gpuctl-usage-") as directory:
            from gpuctl_usage.parquet_export import export_months
            from gpuctl_usage.store.database import open_database

            store = open_database(address)
            try:
                export_months(store, Path(directory), unsealed=True)
            finally:
                store.close()
            return run_sql(Path(directory), question, limit, timeout)
    except InvalidSql as error:
        raise click.UsageError(str(error)) from None


def _plain(value: Any) -> Any:
    """Return a value of DuckDB for JSON: times in UTC, NaN and infinity as null."""
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        if value.tzinfo is not None:
            # DuckDB returns times with a zone in the machine's zone; times of the tables have none and are UTC.
            value = value.astimezone(timezone.utc).replace(tzinfo=None)
        return value.isoformat(timespec="seconds" if not value.microsecond else "microseconds") + "Z"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item) for item in value]
    return str(value)


def _text(value: Any) -> str:
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)

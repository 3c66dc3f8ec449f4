"""Read-only SQL queries over exported Parquet months."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any, NamedTuple, TypeVar

from gpuctl.objects.durations import rough_duration
from gpuctl_usage.parquet_export import COLUMNS, DuckdbMissing

DEFAULT_TIMEOUT = 60.0
"""Default timeout of a query, seconds."""
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "temp_directory": "",
    # DuckDB's default is 80 % of the machine's memory, which other processes need as well.
    "memory_limit": "4GB",
}
_INTERRUPT_EVERY = 0.05


Result = TypeVar("Result")


class InvalidSql(Exception):
    """The query is invalid, failed or took too long; ``str()`` is the message for the user."""


class SqlResult(NamedTuple):
    """Rows of a query. ``more``: True if the limit cut off further rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


def check_sql(question: str) -> None:
    """Check that the text is one SELECT, before the data are exported.

    :raises InvalidSql: it is not one SELECT.
    :raises DuckdbMissing: DuckDB is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise DuckdbMissing from None
    with duckdb.connect(config=_SETTINGS) as connection:
        try:
            _statement(connection, question)
        except duckdb.Error as error:
            raise InvalidSql(str(error).strip()) from None


def run_sql(directory: Path, question: str, limit: int, seconds: float = DEFAULT_TIMEOUT) -> SqlResult:
    """Run one SELECT over the tables of a directory; each table is a view.

    The query cannot read other files, use the network, write or change settings.

    :param limit: maximum number of rows.
    :param seconds: timeout.
    :raises InvalidSql: it is not one SELECT, it fails or times out, or the directory has no months.
    :raises DuckdbMissing: DuckDB is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise DuckdbMissing from None
    if not any((directory / table).is_dir() for table in COLUMNS):
        raise InvalidSql(f"{directory} has no exported months; run `gpuctl usage export --parquet {directory}`")
    with duckdb.connect(config=_SETTINGS) as connection:
        try:
            statement = _statement(connection, question)
            _open(connection, directory)

            def answered() -> tuple[list[str], list[tuple[Any, ...]]]:
                answer = connection.execute(statement)
                return [column[0] for column in answer.description or []], answer.fetchmany(limit + 1)

            columns, rows = _within(connection, seconds, answered)
        except OverflowError:
            # DuckDB 1 raises it for times outside of Python's datetime range.
            raise InvalidSql("a time is before the year 1 or after 9999; CAST(... AS VARCHAR) shows it") from None
        except duckdb.Error as error:
            raise InvalidSql(str(error).strip()) from None
    return SqlResult(_unique_names(columns), rows[:limit], len(rows) > limit)


def _within(connection: Any, seconds: float, act: Callable[[], Result]) -> Result:
    """Run ``act``, and interrupt it on a timeout or Ctrl-C.

    :raises InvalidSql: it timed out.
    """
    with ThreadPoolExecutor(1, "gpuctl-duckdb") as pool:
        doing = pool.submit(act)
        try:
            if wait([doing], min(seconds, TIMEOUT_MAX)).not_done:
                raise InvalidSql(
                    f"the query took longer than {rough_duration(seconds)}; raise --timeout, or query fewer hours"
                )
        finally:
            # An interrupt before the query starts to compute has no effect: repeat it.
            while not doing.done():
                connection.interrupt()
                wait([doing], _INTERRUPT_EVERY)
        return doing.result()


def _statement(connection: Any, question: str) -> Any:
    import duckdb

    statements = connection.extract_statements(question)
    # Other statements are rejected: COPY, for example, would write to the readable directory.
    if [statement.type for statement in statements] != [duckdb.StatementType.SELECT]:
        raise InvalidSql("the query must be a single SELECT")
    return statements[0]


def _open(connection: Any, directory: Path) -> None:
    """Create the views, then allow only files below the directory and lock all settings."""
    below = str(directory.resolve())
    connection.execute(f"SET allowed_directories = [{_quoted(below + '/')}]")
    connection.execute("SET enable_external_access = false")
    for table, columns in COLUMNS.items():
        files = sorted((directory / table).glob("*.parquet"))
        if files:
            named = ", ".join(_quoted(str(file.resolve())) for file in files)
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet([{named}])")  # noqa: S608
        else:
            made = ", ".join(f'CAST(NULL AS {kind}) AS "{name}"' for name, kind in columns.items())
            connection.execute(f"CREATE VIEW {table} AS SELECT {made} WHERE false")
    connection.execute("SET lock_configuration = true")


def _unique_names(names: list[str]) -> list[str]:
    """Return distinct column names: a query may select several columns of one name."""
    found: list[str] = []
    for name in names:
        number = next(number for number in range(1, len(names) + 2) if _numbered(name, number) not in found)
        found.append(_numbered(name, number))
    return found


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"


def _quoted(text: str) -> str:
    """Return an SQL string literal: a view definition cannot have parameters."""
    return "'" + text.replace("'", "''") + "'"

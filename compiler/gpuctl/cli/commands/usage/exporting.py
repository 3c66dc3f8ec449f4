"""``gpuctl usage export`` and ``import``: copying the usage database, and exporting months as Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from gpuctl.cli.commands.usage.database_options import database_options, stated_database
from gpuctl.cli.options.connection_options import ClusterFailure


@click.command(
    "export",
    short_help="Copy the database to a file, or its months to Parquet.",
    epilog="Examples:\n\n  $ gpuctl usage export usage-copy.db --database postgresql://usage@db/usage\n\n"
    "  $ gpuctl usage export --parquet months",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--parquet",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write sealed months that are missing in this directory as Parquet.",
)
@click.option("--again", is_flag=True, help="With --parquet: also rewrite existing months.")
@database_options
def export(file: Path | None, parquet: Path | None, again: bool, database: str | None, config: str | None) -> int:
    """Copy the whole database to a new SQLite FILE, as a backup or for `gpuctl usage import`.

    A collector may run at the same time: the copy is one consistent state. It is written completely, or not at all.
    """
    if (file is None) == (parquet is None):
        raise click.UsageError("Name either a file, or a directory with --parquet.")
    if again and parquet is None:
        raise click.UsageError("--again belongs to --parquet: a copy is made to a new file.")
    address = stated_database(database, config)
    with moving_errors():
        if file is not None:
            from gpuctl_usage.store_transfer import export_store

            click.echo(f"{file}: {export_store(address, file)} rows")
        elif parquet is not None:
            _months(address, parquet, again=again)
    return 0


def _months(address: str, directory: Path, *, again: bool) -> None:
    from gpuctl_usage.parquet_export import export_months
    from gpuctl_usage.store.database import open_database

    store = open_database(address)
    try:
        found = export_months(store, directory, again=again)
    finally:
        store.close()
    for month in found.written:
        click.echo(f"{month}: written")
    for month in found.kept:
        click.echo(f"{month}: exists already (--again rewrites it)")
    for month, reason in found.open.items():
        click.echo(f"{month}: not yet: {reason}")


@click.command(
    "import",
    short_help="Fill a new database with an exported file.",
    epilog="Examples:\n\n  $ gpuctl usage import usage-copy.db --database postgresql://usage@db/usage",
)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@database_options
def import_(file: Path, database: str | None, config: str | None) -> int:
    """Copy FILE, which `gpuctl usage export` wrote, into a database without usage.

    Either everything is imported, or nothing.
    """
    address = stated_database(database, config)
    with moving_errors():
        from gpuctl_usage.store_transfer import import_store

        click.echo(f"{import_store(file, address)} rows")
    return 0


@contextmanager
def moving_errors() -> Iterator[None]:
    """Turn errors of databases and files into messages and exit code 3."""
    from gpuctl_usage.parquet_export import DuckdbMissing
    from gpuctl_usage.store.engines import DatabaseProblem
    from gpuctl_usage.store_transfer import TransferError

    try:
        yield
    except (TransferError, DatabaseProblem, DuckdbMissing) as error:
        raise ClusterFailure(str(error)) from None
    except OSError as error:
        raise ClusterFailure(f"{error.filename or 'a file'}: {error.strerror}") from None

"""All that is in one database into another, of whatever engine."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, select, text

from gpuctl_usage.store.database_tables import clusters, leases, metadata

_AT_ONCE = 2000


def is_empty(connection: Connection) -> bool:
    """Whether nothing was ever collected into it."""
    return connection.execute(select(func.count()).select_from(clusters)).scalar_one() == 0


def copy_rows(source: Connection, target: Connection) -> int:
    """Copy every row, with its numbers: ids that answers had are the same afterwards. How many rows that were.

    Who collects is not copied: it says who writes this database, and nobody else.

    :param source: one transaction, so that all rows are of one moment; ``target``: likewise, so that all or none come.
    """
    count = 0
    for table in metadata.sorted_tables:
        if table is leases:
            continue
        rows = source.execution_options(yield_per=_AT_ONCE).execute(select(table).order_by(*table.primary_key))
        for part in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in part])
            count += len(part)
        if target.dialect.name == "postgresql" and list(table.primary_key.columns.keys()) == ["id"]:
            # The next row that it numbers itself comes after those that brought their numbers.
            target.execute(
                text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM {table.name}")  # noqa: S608
            )
    return count

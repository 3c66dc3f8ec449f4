"""Copy of all rows of a database to another one, of any engine."""

from __future__ import annotations

from sqlalchemy import Connection, func, insert, select, text

from gpuctl_usage.store.database_tables import clusters, leases, metadata

_AT_ONCE = 2000


class NotEmpty(Exception):
    """The target of a copy already has a cluster."""


def is_empty(connection: Connection) -> bool:
    """Return True if the database has no cluster."""
    return connection.execute(select(func.count()).select_from(clusters)).scalar_one() == 0


def copy_rows(source: Connection, target: Connection) -> int:
    """Copy every row with its ids, so that ids in earlier answers stay valid; return the number of rows.

    Leases are not copied: they belong to the writers of this database.

    :param source: a transaction, so that the rows are consistent; ``target``: a transaction, so that all rows are
    copied or none, and no collector adds a cluster before its end.
    :raises NotEmpty: the target has a cluster.
    """
    if not is_empty(target):
        raise NotEmpty
    count = 0
    for table in metadata.sorted_tables:
        if table is leases:
            continue
        rows = source.execution_options(yield_per=_AT_ONCE).execute(select(table).order_by(*table.primary_key))
        for part in rows.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in part])
            count += len(part)
        if target.dialect.name == "postgresql" and list(table.primary_key.columns.keys()) == ["id"]:
            # Advance the sequence: copied rows do not.
            target.execute(
                text(f"SELECT setval(pg_get_serial_sequence('{table.name}', 'id'), max(id)) FROM {table.name}")  # noqa: S608
            )
    return count

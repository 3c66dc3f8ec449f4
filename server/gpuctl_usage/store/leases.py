"""Leases: of several collectors of a cluster only the one with the lease writes.

Clocks of different machines are not compared. The holder increments a beat; another collector takes over when it has
seen no change for a while, measured by its own monotonic clock. A holder that was suspended may wake up later, so each
lease has a term, and a write with an earlier term fails in its own transaction.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select, update

from gpuctl_usage.store.database_tables import leases
from gpuctl_usage.store.surrogate_keys import upsert


class Lease(NamedTuple):
    """The right to write usage of a cluster."""

    cluster: int
    term: int


class LeaseState(NamedTuple):
    """State of a cluster's lease.

    :param holder: "" if the lease was never taken or was given back.
    :param beat: changes with each renewal.
    """

    term: int
    beat: int
    holder: str


class LeaseLost(Exception):
    """Another collector has taken over; nothing was written."""


def state_of(connection: Connection, cluster: int) -> LeaseState:
    """Return the state of a cluster's lease."""
    row = connection.execute(select(leases).where(leases.c.cluster_id == cluster)).one_or_none()
    return LeaseState(0, 0, "") if row is None else LeaseState(row.term, row.beat, row.holder)


def take(connection: Connection, cluster: int, seen: LeaseState, holder: str) -> Lease | None:
    """Take the lease if its state is still ``seen``; return None if it was renewed or taken."""
    if state_of(connection, cluster) != seen:
        return None
    values = {"term": seen.term + 1, "beat": seen.beat + 1, "holder": holder}
    statement = upsert(connection, leases).values(cluster_id=cluster, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["cluster_id"], set_=values))
    return Lease(cluster, seen.term + 1)


def keep(connection: Connection, lease: Lease) -> None:
    """Renew the lease; no other collector can take it before the end of the transaction.

    :raises LeaseLost: another collector has taken over.
    """
    ours = leases.c.cluster_id == lease.cluster, leases.c.term == lease.term
    done = connection.execute(update(leases).where(*ours).values(beat=leases.c.beat + 1))
    if done.rowcount != 1:
        raise LeaseLost


def give_back(connection: Connection, lease: Lease) -> None:
    """Release the lease, so that waiting collectors take over at once."""
    connection.execute(update(leases).where(leases.c.cluster_id == lease.cluster).values(holder=""))

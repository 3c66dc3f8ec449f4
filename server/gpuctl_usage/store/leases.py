"""Which of several collectors collects a cluster: one has the lease, the others wait.

No clock of one machine is compared with that of another. Whoever has the lease counts its beat up; another takes over
when it has not seen it change for a while, by a clock of its own that only goes forward. That says nothing of one that
stands still and wakes up again: so each lease has a term, and what is written under a term that is over is refused, in
the transaction that would have written it.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select, update

from gpuctl_usage.store.database_tables import leases
from gpuctl_usage.store.surrogate_keys import upsert


class Lease(NamedTuple):
    """The right to write what is collected of a cluster."""

    cluster: int
    term: int


class LeaseState(NamedTuple):
    """Who has the lease of a cluster.

    :param holder: "" where nobody has: it was never taken, or was given back.
    :param beat: differs each time that the holder gives a sign of life.
    """

    term: int
    beat: int
    holder: str


class LeaseLost(Exception):
    """Another collector has taken over: what would have been written is not."""


def state_of(connection: Connection, cluster: int) -> LeaseState:
    """Who has it."""
    row = connection.execute(select(leases).where(leases.c.cluster_id == cluster)).one_or_none()
    return LeaseState(0, 0, "") if row is None else LeaseState(row.term, row.beat, row.holder)


def take(connection: Connection, cluster: int, seen: LeaseState, holder: str) -> Lease | None:
    """The lease, if it is still as it was seen; None where somebody has given a sign of life, or was faster."""
    if state_of(connection, cluster) != seen:
        return None
    values = {"term": seen.term + 1, "beat": seen.beat + 1, "holder": holder}
    statement = upsert(connection, leases).values(cluster_id=cluster, **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["cluster_id"], set_=values))
    return Lease(cluster, seen.term + 1)


def keep(connection: Connection, lease: Lease) -> None:
    """Give a sign of life, and see to it that nobody takes over before the end of the transaction.

    :raises LeaseLost: somebody has.
    """
    ours = leases.c.cluster_id == lease.cluster, leases.c.term == lease.term
    done = connection.execute(update(leases).where(*ours).values(beat=leases.c.beat + 1))
    if done.rowcount != 1:
        raise LeaseLost


def give_back(connection: Connection, lease: Lease) -> None:
    """Have others not wait."""
    connection.execute(update(leases).where(leases.c.cluster_id == lease.cluster).values(holder=""))

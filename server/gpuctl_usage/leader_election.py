"""Leader election: one of several collectors of a cluster collects, the others wait for its lease to expire."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from gpuctl.kube.lease_timer import LeaseTimer
from gpuctl.kube.process_identity import describe_holder, holder_identity, is_dead
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.store.leases import LeaseLost

LOG = logging.getLogger("gpuctl_usage")
LEASE_TIMEOUT = 20.0
"""Seconds without a renewal after which another collector takes over."""
RENEW_EVERY = 5.0
"""Seconds between renewals."""
_POLL_EVERY = 2.0


@contextmanager
def hold_leadership(
    database: Database, cluster: int, stopping: threading.Event, waiting: Callable[[], None]
) -> Iterator[Database | None]:
    """Wait for the lease of a cluster and yield the database with it; renew the lease until the end of the block, then
    give it back. Yield None if ``stopping`` is set first.

    :param waiting: called every few seconds while waiting.
    """
    led = _waited_for(database, cluster, stopping, waiting)
    if led is None:
        yield None
        return
    ended = threading.Event()
    keeper = threading.Thread(target=_keep, args=(led, ended), daemon=True)
    keeper.start()
    try:
        yield led
    finally:
        ended.set()
        keeper.join()
        with suppress(DatabaseProblem, LeaseLost):
            led.give_lease_back()


def _waited_for(
    database: Database, cluster: int, stopping: threading.Event, waiting: Callable[[], None]
) -> Database | None:
    timer = LeaseTimer()
    told = ""
    while not stopping.is_set():
        waiting()
        try:
            found = database.lease(cluster)
            if not found.holder or timer.unchanged(found) >= LEASE_TIMEOUT or is_dead(found.holder):
                lease = database.take_lease(cluster, found, holder_identity())
                if lease is not None:
                    return database.with_lease(lease)
            elif found.holder != told:
                told = found.holder
                LOG.info("another collector holds the lease; waiting", extra={"holder": describe_holder(told)})
        except DatabaseProblem as error:
            # Restart the timeout: without the database the holder cannot renew its lease either.
            timer = LeaseTimer()
            LOG.error("the lease cannot be read", extra={"problem": str(error)})
        stopping.wait(min(_POLL_EVERY, LEASE_TIMEOUT / 4))
    return None


def _keep(led: Database, ended: threading.Event) -> None:
    while not ended.wait(min(RENEW_EVERY, LEASE_TIMEOUT / 4)):
        try:
            led.keep_lease()
        except LeaseLost:
            # The next write of the collector raises LeaseLost as well.
            return
        except DatabaseProblem:
            # The collector reports the problem with its next write.
            continue

"""Leader election: one of several collectors of a cluster collects, the others wait for its lease to expire."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gpuctl_usage.store.database import Database
from gpuctl_usage.store.engines import DatabaseProblem
from gpuctl_usage.store.leases import LeaseLost, LeaseState

LOG = logging.getLogger("gpuctl_usage")
LEASE_TIMEOUT = 20.0
"""Seconds without a renewal after which another collector takes over."""
RENEW_EVERY = 5.0
"""Seconds between renewals."""
_POLL_EVERY = 2.0
_PROCESSES = Path("/proc")


class _Holder(NamedTuple):
    """Identity of a lease holder's process.

    :param place: boot id of the machine and PID namespace, within which the process id is unique; "" if unknown.
    :param began: start time of the process from /proc, because process ids are reused.
    """

    host: str
    process: int
    began: str
    place: str

    @classmethod
    def of(cls, text: str) -> _Holder | None:
        parts = text.split(" ")
        if len(parts) != len(cls._fields) or not parts[1].isdigit():
            return None
        return cls(parts[0], int(parts[1]), parts[2], parts[3])

    def __str__(self) -> str:
        return " ".join(map(str, self))


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
    ours = _ourselves()
    seen: LeaseState | None = None
    since = 0.0
    told = ""
    while not stopping.is_set():
        waiting()
        try:
            found = database.lease(cluster)
            now = time.monotonic()
            if found != seen:
                seen, since = found, now
            if not found.holder or now - since >= LEASE_TIMEOUT or _has_ended(found.holder, ours):
                lease = database.take_lease(cluster, found, str(ours))
                if lease is not None:
                    return database.with_lease(lease)
            elif found.holder != told:
                told = found.holder
                who = _Holder.of(told)
                more = {} if who is None else {"holder": f"{who.host}, process {who.process}"}
                LOG.info("another collector holds the lease; waiting", extra=more)
        except DatabaseProblem as error:
            # Restart the timeout: without the database the holder cannot renew its lease either.
            seen = None
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


def _ourselves() -> _Holder:
    host, process = socket.gethostname().replace(" ", ""), os.getpid()
    try:
        boot = (_PROCESSES / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
        place = f"{boot}/{os.stat(_PROCESSES / 'self' / 'ns' / 'pid').st_ino}"
    except OSError:
        place = ""
    return _Holder(host, process, _began(process), place)


def _began(process: int) -> str:
    try:
        text = (_PROCESSES / str(process) / "stat").read_text()
    except OSError:
        return ""
    # The process name in parentheses may contain anything.
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]


def _has_ended(holder: str, ours: _Holder) -> bool:
    """Return True if the holder's process is known to have ended: a killed process on this machine need not be waited
    for.
    """
    other = _Holder.of(holder)
    if other is None or not other.place or other.place != ours.place:
        return False
    return _began(other.process) != other.began

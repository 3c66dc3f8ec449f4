"""One apply at a time: a Lease (coordination.k8s.io) in each namespace that the plan deletes something in."""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path

from gpuctl.cluster.connection import Connection
from gpuctl.cluster.errors import ApiError, ClusterError
from gpuctl.cluster.resources import RESOURCES, Key, Object
from gpuctl.cluster.survey import OURS
from gpuctl.cluster.workload import age

NAMESPACE_LEASE = "gpuctl-apply"
DURATION = 15
"""Seconds after its last renewal when a lease counts as given up."""
_RENEWAL = 4
_SEPARATOR = "#"


class Held(ClusterError):
    """Somebody else is applying."""


def set_lease(name: str) -> str:
    """The lease of a set."""
    return f"gpuctl-set-{name}"


def _scope(key: Key) -> str:
    """What a lease keeps others from: ``in team-a``, ``the set web of team-a``."""
    name = key.name.removeprefix(set_lease(""))
    return f"the set {name} of {key.namespace}" if name != key.name else f"in {key.namespace}"


def identity() -> str:
    """Who we are: user@host, process, when it started, and which boot and process namespace that counts in.

    With these a later run on the same machine can tell at once that the process is dead, where others wait.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return _SEPARATOR.join((f"{user}@{socket.gethostname()}", str(pid), _started(pid) or "", _machine()))


def describe(holder: str) -> str:
    """A holder for people: ``alice@host (process 123)``."""
    who, *rest = holder.split(_SEPARATOR)
    return f"{who} (process {rest[0]})" if rest else who


def is_dead(holder: str) -> bool:
    """Whether the holder certainly runs no more: it was a process of this very machine, and is gone."""
    parts = holder.split(_SEPARATOR)
    if len(parts) != 4 or not parts[2] or parts[3] != _machine() or not parts[3]:
        return False
    return parts[1].isdigit() and _started(int(parts[1])) != parts[2]


def _machine() -> str:
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{os.readlink('/proc/self/ns/pid')}"
    return ""


def _started(pid: int) -> str | None:
    """When a living process started, in ticks since boot (proc(5), field 22); None for none or a zombie."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    return None


class Leases:
    """Leases that are held together, and renewed until they are released."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._identity = identity()
        self._held: dict[Key, Object] = {}
        self._taking: Key | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost: str | None = None

    def acquire(self, keys: Iterable[Key], wait: float, tell: Callable[[str], None]) -> None:
        """Take all, in one order everywhere so that two runs cannot block each other.

        A lease whose holder gave no sign for its duration is taken over; ``tell`` says that it is waited for.

        :raises Held: another run holds one for longer than ``wait`` seconds.
        """
        try:
            for key in sorted(keys):
                self._taking = key
                self._held[key] = self._take(key, wait, tell)
                self._taking = None
        except Held:
            # Perhaps by another run of this very process, whose lease looks like ours.
            self.release()
            raise
        except BaseException:
            self._look_for_taken()
            self.release()
            raise
        self._thread = threading.Thread(target=self._renew, daemon=True, name="gpuctl-lease")
        self._thread.start()

    def _look_for_taken(self) -> None:
        """A lease may be ours though the answer to its request never came: Ctrl-C, or a broken connection."""
        if self._taking is None:
            return
        self._connection.patience = min(self._connection.patience, 2.0)
        with contextlib.suppress(ClusterError):
            lease = self._connection.get(self._taking)
            if lease is not None and _holder(lease) == self._identity:
                self._held[self._taking] = lease

    def release(self) -> None:
        """Give all back that are still ours. A server that is away is not waited for: the leases expire."""
        self._stop.set()
        self._connection.patience = min(self._connection.patience, 2.0)
        if self._thread is not None:
            self._thread.join(timeout=2)
        for key, lease in self._held.items():
            with contextlib.suppress(ClusterError):
                version = lease["metadata"]["resourceVersion"]
                self._connection.delete(key, lease["metadata"]["uid"], version=version, foreground=False)
        self._held.clear()

    def _take(self, key: Key, wait: float, tell: Callable[[str], None]) -> Object:
        deadline = time.monotonic() + wait
        told = False
        while True:
            lease = self._connection.get(key)
            holder = ((lease or {}).get("spec") or {}).get("holderIdentity") or ""
            try:
                if lease is None:
                    return self._connection.create(self._body(key))
                if not holder or is_dead(holder) or _expired(lease):
                    body = self._body(key)
                    body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
                    return self._connection.replace(body)
            except ApiError as error:
                if not error.is_conflict and not error.is_missing:
                    raise
                continue
            if time.monotonic() > deadline:
                since = age(lease["spec"].get("acquireTime"))
                raise Held(
                    f"{describe(holder)} is applying {_scope(key)}, begun {since} ago",
                    "wait until it is done, and run this again",
                )
            if not told:
                told = True
                tell(f"waiting for {describe(holder)}, who is applying {_scope(key)}")
            time.sleep(0.5)

    def _body(self, key: Key) -> Object:
        now = _now()
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": key.name,
                "namespace": key.namespace,
                "labels": {"app.kubernetes.io/managed-by": "gpuctl"},
            },
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": DURATION,
                "acquireTime": now,
                "renewTime": now,
            },
        }

    def _renew(self) -> None:
        while not self._stop.wait(_RENEWAL):
            for key, lease in list(self._held.items()):
                body = {**lease, "spec": {**lease["spec"], "renewTime": _now()}}
                try:
                    self._held[key] = self._connection.replace(body)
                except ApiError as error:
                    if error.is_conflict or error.is_missing:
                        self.lost = f"the lease {key.name} in {key.namespace} was taken over by another run"
                        return
                except ClusterError:
                    # The server is away: others cannot take the lease over meanwhile either.
                    continue


def abandoned(connection: Connection, namespace: str | None) -> list[Object]:
    """Leases of gpuctl whose holders are dead or gave no sign for too long, in a namespace or (None) in all."""
    leases, _ = connection.list_objects(RESOURCES["Lease"], namespace, labels=OURS)
    mine = [lease for lease in leases if lease["metadata"]["name"] == NAMESPACE_LEASE or _is_of_set(lease)]
    return [lease for lease in mine if not _holder(lease) or is_dead(_holder(lease)) or _expired(lease)]


def _is_of_set(lease: Object) -> bool:
    return str(lease["metadata"]["name"]).startswith(set_lease(""))


def _holder(lease: Object) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _expired(lease: Object) -> bool:
    spec = lease.get("spec") or {}
    renewed = spec.get("renewTime") or spec.get("acquireTime")
    if not renewed:
        return True
    then = datetime.fromisoformat(renewed.replace("Z", "+00:00"))
    return (datetime.now(timezone.utc) - then).total_seconds() > (spec.get("leaseDurationSeconds") or DURATION)


@contextlib.contextmanager
def holding(connection: Connection, keys: Iterable[Key], wait: float, tell: Callable[[str], None]) -> Iterator[Leases]:
    """Hold leases for a block."""
    leases = Leases(connection)
    leases.acquire(keys, wait, tell)
    try:
        yield leases
    finally:
        leases.release()

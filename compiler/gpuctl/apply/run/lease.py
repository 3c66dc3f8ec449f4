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

from gpuctl.apply.run.interrupts import Interrupts
from gpuctl.apply.state.live_state import OURS
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Key, Object
from gpuctl.objects.ownership_metadata import set_lease
from gpuctl.objects.workload_state import age

NAMESPACE_LEASE = "gpuctl-apply"
DURATION = 15
"""Seconds for which a lease has to stay as it is until it counts as given up."""
_RENEWAL = 4
_SEPARATOR = "#"


class LeaseHeld(ClusterError):
    """Somebody else is applying."""


def _scope(key: Key) -> str:
    """What a lease keeps others from: ``in team-a``, ``the set web of team-a``."""
    name = key.name.removeprefix(set_lease(""))
    return f"the set {name} of {key.namespace}" if name != key.name else f"in {key.namespace}"


def holder_identity() -> str:
    """Who we are: user@host, process, when it started, and which boot and process namespace that counts in.

    With these a later run on the same machine can tell at once that the process is dead, where others wait.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return _SEPARATOR.join((f"{user}@{socket.gethostname()}", str(pid), _started(pid) or "", _machine()))


def describe_holder(holder: str) -> str:
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


class LeaseObserver:
    """How long leases have stayed as they are, by our own clock, as client-go's leader election does it.

    What a lease says about times was said by another machine's clock, and is never compared with ours.
    """

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[Object, float]] = {}

    def is_given_up(self, key: Key, lease: Object) -> bool:
        """Whether the holder of a lease, as it is now, has given no sign for the time that the lease lasts."""
        now = time.monotonic()
        record = {"uid": lease["metadata"]["uid"], "spec": lease.get("spec")}
        last, since = self._seen.get(key, (None, now))
        if last != record:
            self._seen[key] = (record, now)
            return False
        lasts = (lease.get("spec") or {}).get("leaseDurationSeconds") or DURATION
        return now - since >= float(lasts)


class Leases:
    """Leases that are held together, and renewed until they are released. :func:`hold_leases` makes them.

    ``lost`` says so when another run has taken one over. ``interrupts`` has to be let through by whoever holds them.
    """

    def __init__(self, session: Session, interrupts: Interrupts, sightings: LeaseObserver | None = None) -> None:
        self.interrupts = interrupts
        self.lost: str | None = None
        self._session = session
        self._sightings = sightings or LeaseObserver()
        self._renewing = threading.Lock()
        self._renewed = time.monotonic()
        self._identity = holder_identity()
        # As they were asked for: one may be ours though the answer never came.
        self._asked: dict[Key, Object] = {}
        self._held: dict[Key, Object] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, keys: Iterable[Key], wait: float, tell: Callable[[str], None]) -> None:
        """Take all, in one order everywhere so that two runs cannot block each other.

        A lease whose holder gave no sign for its duration is taken over; ``tell`` says that it is waited for. Whatever
        this raises, :meth:`release` has to follow.

        :raises LeaseHeld: another run holds one for longer than ``wait`` seconds.
        """
        for key in sorted(keys):
            self._acquire_one(key, wait, tell)
            if self._thread is None:
                # Others may be waited for, and what is held by then must not be taken for given up.
                self._renewed = time.monotonic()
                self._thread = threading.Thread(target=self._renew, daemon=True, name="gpuctl-lease")
                self._thread.start()

    def check(self) -> str | None:
        """Why nothing may be begun any more: None while all are ours.

        A process that was stopped for a while, or cut off from the server, may have been taken for dead.
        """
        if self._held and time.monotonic() - self._renewed >= DURATION:
            with contextlib.suppress(ClusterError):
                self._renew_all()
        return self.lost

    def release(self) -> None:
        """Give all back that are still ours. A server that is away is not waited for: the leases expire."""
        self._stop.set()
        session = self._session.with_time_limit(2.0)
        if self._thread is not None:
            self._thread.join(timeout=2)
        for key, asked in self._asked.items():
            with contextlib.suppress(ClusterError):
                self._give_back(session, key, asked)
        self._asked.clear()
        self._held.clear()

    def _give_back(self, session: Session, key: Key, asked: Object) -> None:
        lease = self._held.get(key) or session.get(key)
        # The last renewal may be still on its way, and then the version is another one.
        for _ in range(3):
            if lease is None or not _is_same_hold(lease, asked):
                return
            try:
                metadata = lease["metadata"]
                session.delete(key, metadata["uid"], version=metadata["resourceVersion"], foreground=False)
                return
            except ApiError as error:
                if not error.is_conflict:
                    raise
            lease = session.get(key)

    def _acquire_one(self, key: Key, wait: float, tell: Callable[[str], None]) -> None:
        deadline = time.monotonic() + wait
        told = False
        while key not in self._held:
            with self.interrupts.let_through():
                lease = self._session.get(key)
            asked = self._asked.pop(key, None)
            if lease is not None and asked is not None and _is_same_hold(lease, asked):
                self._asked[key], self._held[key] = asked, lease
                continue
            holder = _holder(lease) if lease is not None else ""
            if lease is None or not holder or is_dead(holder) or self._sightings.is_given_up(key, lease):
                self._try_take(key, lease)
                continue
            if time.monotonic() > deadline:
                since = age(lease["spec"].get("acquireTime"))
                raise LeaseHeld(
                    f"{describe_holder(holder)} is applying {_scope(key)}, begun {since} ago",
                    "wait until it is done, and run this again",
                )
            with self.interrupts.let_through():
                if not told:
                    told = True
                    tell(f"waiting for {describe_holder(holder)}, who is applying {_scope(key)}")
                time.sleep(0.5)

    def _try_take(self, key: Key, lease: Object | None) -> None:
        """Take a lease that is not there, or that nobody holds any more, unless somebody else is faster."""
        body = self._asked[key] = self._body(key)
        try:
            if lease is None:
                taken = self._session.create(body)
            else:
                body["metadata"]["resourceVersion"] = lease["metadata"]["resourceVersion"]
                taken = self._session.replace(body)
        except ApiError as error:
            if error.is_conflict or (error.is_missing and lease is not None):
                return
            if not error.is_transient:
                del self._asked[key]
            raise
        # A create that was sent twice may have found what another run created in between.
        if _is_same_hold(taken, body):
            self._held[key] = taken

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
        while self.lost is None and not self._stop.wait(_RENEWAL):
            with contextlib.suppress(ClusterError):
                self._renew_all()

    def _renew_all(self) -> None:
        with self._renewing:
            if self._stop.is_set() or self.lost is not None:
                return
            begun = time.monotonic()
            for key, lease in list(self._held.items()):
                body = {**lease, "spec": {**lease["spec"], "renewTime": _now()}}
                try:
                    self._held[key] = self._session.replace(body)
                except ApiError as error:
                    if not error.is_conflict and not error.is_missing:
                        raise
                    self._resolve_conflict(key)
            self._renewed = begun

    def _resolve_conflict(self, key: Key) -> None:
        """A renewal whose answer was lost is a conflict with itself; otherwise another run has the lease."""
        lease = self._session.get(key)
        if lease is None:
            self.lost = f"the lease {key.name} in {key.namespace} was deleted by somebody else"
        elif _is_same_hold(lease, self._asked[key]):
            self._held[key] = lease
        else:
            self.lost = f"the lease {key.name} in {key.namespace} was taken over by another run"


def abandoned_leases(session: Session, namespace: str | None) -> list[Object]:
    """Leases of gpuctl that nobody holds, or whose holders are dead for certain, in a namespace or (None) in all."""
    leases, _ = session.list_objects(RESOURCES["Lease"], namespace, labels=OURS)
    mine = [lease for lease in leases if lease["metadata"]["name"] == NAMESPACE_LEASE or _is_of_set(lease)]
    return [lease for lease in mine if not _holder(lease) or is_dead(_holder(lease))]


def lease_holders(session: Session, namespaces: Iterable[str], sightings: LeaseObserver) -> dict[str, str]:
    """Who holds the leases of namespaces, for people, as far as that may be read and they are not dead for certain."""
    found = {}
    for namespace in namespaces:
        key = Key("Lease", namespace, NAMESPACE_LEASE)
        with contextlib.suppress(ApiError):
            lease = session.get(key)
            holder = _holder(lease) if lease is not None else ""
            if lease is not None and holder and not is_dead(holder):
                sightings.is_given_up(key, lease)
                found[namespace] = describe_holder(holder)
    return found


def _is_of_set(lease: Object) -> bool:
    return str(lease["metadata"]["name"]).startswith(set_lease(""))


def _holder(lease: Object) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _is_same_hold(one: Object, two: Object) -> bool:
    """Whether a lease was taken by the same run at the same moment: two runs of one process have one identity."""
    return _holder(one) == _holder(two) and one["spec"].get("acquireTime") == two["spec"].get("acquireTime")


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@contextlib.contextmanager
def hold_leases(
    session: Session,
    keys: Iterable[Key],
    wait: float,
    tell: Callable[[str], None],
    *,
    optional: bool = False,
    sightings: LeaseObserver | None = None,
) -> Iterator[Leases]:
    """Hold leases for a block, whose inside lets interrupts through::

        with holding(connection, keys, wait, tell) as held, held.interrupts.let_through():

    While a lease is asked for or given back none breaks in: it would be left behind. With ``optional`` a user who may
    not take them works without, and is told. ``sightings`` are those of before, where somebody has looked already.
    """
    with Interrupts() as interrupts:
        leases = Leases(session, interrupts, sightings)
        try:
            try:
                leases.acquire(keys, wait, tell)
            except ApiError as error:
                # Where nothing can be created no other run can be at work either.
                if not optional or not (error.lacks_permission or error.lacks_namespace):
                    raise
                if error.lacks_permission:
                    tell(f"{error.message}, so nothing keeps two applies apart")
            yield leases
        finally:
            leases.release()

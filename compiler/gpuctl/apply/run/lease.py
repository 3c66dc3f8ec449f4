"""One apply at a time: a Lease (coordination.k8s.io) in each namespace in which the plan deletes objects."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from gpuctl.apply.run.interrupts import Interrupts
from gpuctl.apply.state.live_state import OURS
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.lease_timer import LeaseTimer
from gpuctl.kube.process_identity import describe_holder, holder_identity, is_dead
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, Key, Object
from gpuctl.objects.ownership_metadata import set_lease
from gpuctl.objects.timestamps import age, format_timestamp

NAMESPACE_LEASE = "gpuctl-apply"
DURATION = 15
"""Seconds without a renewal after which a lease counts as expired."""
_RENEWAL = 4


class LeaseHeld(ClusterError):
    """Another run holds the lease."""


def _scope(key: Key) -> str:
    """Return the scope of a lease in messages: ``in team-a``, ``the set web of team-a``."""
    name = key.name.removeprefix(set_lease(""))
    return (
        say("the set {name} of {namespace}", name=name, namespace=key.namespace)
        if name != key.name
        else say("in {namespace}", namespace=key.namespace)
    )


class LeaseObserver:
    """The leases that have been seen, each with a :class:`LeaseTimer`."""

    def __init__(self) -> None:
        self._timers: defaultdict[Key, LeaseTimer] = defaultdict(LeaseTimer)

    def is_given_up(self, key: Key, lease: Object) -> bool:
        """Return True if the holder has not renewed the lease for its duration."""
        spec = lease.get("spec") or {}
        lasts = spec.get("leaseDurationSeconds") or DURATION
        return self._timers[key].unchanged((lease["metadata"]["uid"], spec)) >= float(lasts)


class Leases:
    """Leases that are held together, and renewed until they are released. :func:`hold_leases` creates them.

    ``lost`` is a message if another run has taken one over. The code that holds them must run in
    ``interrupts.let_through()``.
    """

    def __init__(self, session: Session, interrupts: Interrupts, observer: LeaseObserver | None = None) -> None:
        self.interrupts = interrupts
        self.lost: str | None = None
        self._session = session
        self._observer = observer or LeaseObserver()
        self._renewing = threading.Lock()
        self._renewed = time.monotonic()
        self._identity = holder_identity()
        # The requested leases: one may be held though its response was lost.
        self._asked: dict[Key, Object] = {}
        self._held: dict[Key, Object] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, keys: Iterable[Key], wait: float, tell: Callable[[str], None]) -> None:
        """Acquire all, always in sorted order so that two runs cannot deadlock.

        A lease that its holder has not renewed for its duration is taken over. ``tell`` reports the wait.
        :meth:`release` must be called even after an exception.

        :raises LeaseHeld: another run holds one for longer than ``wait`` seconds.
        """
        for key in sorted(keys):
            self._acquire_one(key, wait, tell)
            if self._thread is None:
                # Start renewing now: the next lease may take a while, and this one must not expire.
                self._renewed = time.monotonic()
                self._thread = threading.Thread(target=self._renew, daemon=True, name="gpuctl-lease")
                self._thread.start()

    def check(self) -> str | None:
        """Return why no new step may start; None while all leases are held.

        Another run may have taken over the leases of a process that was stopped or disconnected for a while. Without
        the right to renew them, concurrent runs are not prevented.
        """
        late = time.monotonic() - self._renewed
        if self._held and late >= DURATION:
            try:
                self._renew_all()
            except ClusterError as error:
                if not (isinstance(error, ApiError) and error.lacks_permission):
                    return say(
                        "whether this run still holds its lease, not renewed for {seconds} s, is unknown: {error}",
                        seconds=f"{late:.0f}",
                        error=error.message,
                    )
        return self.lost

    def release(self) -> None:
        """Release all leases that are still held. Do not wait for an unreachable server: leases expire."""
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
        # The last renewal may still be in progress, which changes the version.
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
            if lease is None or not holder or is_dead(holder) or self._observer.is_given_up(key, lease):
                self._try_take(key, lease)
                continue
            if time.monotonic() > deadline:
                raise LeaseHeld(
                    say(
                        "{holder} is applying {scope}, begun {time} ago",
                        holder=describe_holder(holder),
                        scope=_scope(key),
                        time=age(lease["spec"].get("acquireTime"), self._session.server_time()),
                    ),
                    say("wait until it is done, and run this again"),
                )
            with self.interrupts.let_through():
                if not told:
                    told = True
                    tell(
                        say(
                            "waiting for {holder}, who is applying {scope}",
                            holder=describe_holder(holder),
                            scope=_scope(key),
                        )
                    )
                time.sleep(0.5)

    def _try_take(self, key: Key, lease: Object | None) -> None:
        """Take a lease that does not exist or has no live holder, unless another run takes it first."""
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
        # A create that was sent twice may return a lease that another run created in between.
        if _is_same_hold(taken, body):
            self._held[key] = taken

    def _body(self, key: Key) -> Object:
        now = self._now()
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

    def _now(self) -> str:
        # By the API server's clock: another run, on another machine, says how long ago it was.
        return format_timestamp(self._session.server_time(), "microseconds")

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
                body = {**lease, "spec": {**lease["spec"], "renewTime": self._now()}}
                try:
                    self._held[key] = self._session.replace(body)
                except ApiError as error:
                    if not error.is_conflict and not error.is_missing:
                        raise
                    self._resolve_conflict(key)
            self._renewed = begun

    def _resolve_conflict(self, key: Key) -> None:
        """Check who holds the lease after a conflict.

        It is this run if the response of a renewal was lost, else another one.
        """
        lease = self._session.get(key)
        if lease is None:
            self.lost = say(
                "the lease {name} in {namespace} was deleted by another client", name=key.name, namespace=key.namespace
            )
        elif _is_same_hold(lease, self._asked[key]):
            self._held[key] = lease
        else:
            self.lost = say(
                "the lease {name} in {namespace} was taken over by another run", name=key.name, namespace=key.namespace
            )


def abandoned_leases(session: Session, namespace: str | None) -> list[Object]:
    """Return gpuctl's leases without a holder or with a dead one, in a namespace or in all (None)."""
    leases, _ = session.list_objects(RESOURCES["Lease"], namespace, labels=OURS)
    mine = [lease for lease in leases if lease["metadata"]["name"] == NAMESPACE_LEASE or _is_of_set(lease)]
    return [lease for lease in mine if not _holder(lease) or is_dead(_holder(lease))]


def lease_holders(session: Session, namespaces: Iterable[str], observer: LeaseObserver) -> dict[str, str]:
    """Return the holders of the leases of namespaces, for messages.

    Dead holders, and leases that the user may not read, are left out.
    """
    found = {}
    for namespace in namespaces:
        key = Key("Lease", namespace, NAMESPACE_LEASE)
        with contextlib.suppress(ApiError):
            lease = session.get(key)
            holder = _holder(lease) if lease is not None else ""
            if lease is not None and holder and not is_dead(holder):
                observer.is_given_up(key, lease)
                found[namespace] = describe_holder(holder)
    return found


def _is_of_set(lease: Object) -> bool:
    return str(lease["metadata"]["name"]).startswith(set_lease(""))


def _holder(lease: Object) -> str:
    return (lease.get("spec") or {}).get("holderIdentity") or ""


def _is_same_hold(one: Object, two: Object) -> bool:
    """Return True if both leases were acquired by the same run: two runs in one process have the same identity."""
    return _holder(one) == _holder(two) and one["spec"].get("acquireTime") == two["spec"].get("acquireTime")


@contextlib.contextmanager
def hold_leases(
    session: Session,
    keys: Iterable[Key],
    wait: float,
    tell: Callable[[str], None],
    *,
    optional: bool = False,
    observer: LeaseObserver | None = None,
) -> Iterator[Leases]:
    """Hold leases for a block, whose inside lets interrupts through::

        with hold_leases(session, keys, wait, tell) as held, held.interrupts.let_through():

    Interrupts are held back while a lease is acquired or released: it would be left behind. With ``optional`` a user
    without the right to take them runs without, and gets a message. ``observer`` has earlier observations of the
    leases.
    """
    with Interrupts() as interrupts:
        leases = Leases(session, interrupts, observer)
        try:
            try:
                leases.acquire(keys, wait, tell)
            except ApiError as error:
                # If nothing can be created in the namespace, no other run can work there either.
                if not optional or not (error.lacks_permission or error.lacks_namespace):
                    raise
                if error.lacks_permission:
                    tell(say("{error}, so concurrent applies are not prevented", error=error.message))
            yield leases
        finally:
            leases.release()

"""Watch events of pods, nodes, namespaces and quotas, with the time at which they were received."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object
from gpuctl_usage.gathering.object_facts import FactMaker, Facts
from gpuctl_usage.gathering.server_clock import ServerClock

_KINDS = ("Node", "Namespace", "Pod")
_RETRY_AFTER = 15.0
"""Seconds between attempts to list a kind without permission."""
_WATCH_TIMEOUT = 150.0
"""Seconds without any message after which a watch counts as interrupted; it should receive a bookmark every minute."""
_CATCH_UP = 2.0
"""Seconds after an interruption within which the missed events arrive."""


class ClusterEvent(NamedTuple):
    """An event of a watch.

    :param type: PUT (added or modified), GONE (deleted), LISTED (the list is complete), REFUSED (the list cannot be
        read, ``text`` is the reason), ODD (an object that does not match its schema).
    :param at: time at which it was received, by the API server's clock.
    :param missed: time of the last message before, if the object was deleted while the watch was interrupted.
    """

    type: str
    kind: str
    at: float
    facts: Facts | None = None
    missed: float | None = None
    text: str = ""


def quota_kinds(settings: Settings) -> tuple[str, ...]:
    """Return the kinds that limit the GPUs of namespaces on a platform."""
    return ("ResourceQuota", "ClusterQueue") if settings.has_quota_queues else ("ResourceQuota",)


class ClusterEvents:
    """Watches a cluster and queues its events. Pods without GPUs are left out.

    :param quotas: the kinds of :func:`quota_kinds`.
    """

    def __init__(self, session: Session, clock: ServerClock, maker: FactMaker, quotas: Sequence[str]) -> None:
        self.kinds = (*_KINDS, *quotas)
        self._quota_kinds = quotas
        self._clock = clock
        self._maker = maker
        self._events: queue.SimpleQueue[ClusterEvent | None] = queue.SimpleQueue()
        self._reflectors = {
            kind: Reflector(
                session,
                [WatchedList(kind, None)],
                on_event=partial(self._handle, kind),
                transform=self._keep,
                retry_after=_RETRY_AFTER,
            )
            for kind in self.kinds
        }
        self._known: dict[str, dict[str, Facts]] = {kind: {} for kind in self.kinds}
        self._gaps = dict.fromkeys(self.kinds, (0.0, 0.0))

    def start(self) -> None:
        """Start watching all kinds, each in its own thread."""
        for reflector in self._reflectors.values():
            reflector.start()

    def stop(self) -> None:
        """Stop watching, and wake the caller of :meth:`next`."""
        for reflector in self._reflectors.values():
            reflector.stop()
        self._events.put(None)

    def next(self, timeout: float) -> ClusterEvent | None:
        """Return the next event; None after ``timeout`` seconds, or after :meth:`stop`."""
        try:
            return self._events.get(timeout=timeout) if timeout > 0 else self._events.get_nowait()
        except queue.Empty:
            return None

    def known_until(self) -> float | None:
        """Return the time until which all events of pods and nodes have been received; None before both are listed."""
        return self._all_until("Pod", "Node")

    def quotas_known_until(self) -> float | None:
        """Return the same for quotas and nodes. Quotas may be unreadable while pods are readable; nodes determine the
        sharing of cards.
        """
        return self._all_until(*self._quota_kinds, "Node")

    def _all_until(self, *kinds: str) -> float | None:
        times = [self._reflectors[kind].synced_until for kind in kinds]
        known = [time for time in times if time is not None]
        return self._clock.then(min(known)) if len(known) == len(times) else None

    def restarts(self) -> dict[str, int]:
        """Return the number of restarted watches by kind, including routine restarts."""
        return {kind: max(0, reflector.watches - 1) for kind, reflector in self._reflectors.items()}

    def _keep(self, obj: Object) -> Object:
        metadata = obj["metadata"]
        kept: Object = {"metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}
        try:
            facts = self._maker.of(obj)
        except ValueError as error:
            return {**kept, "odd": f"{str(metadata.get('name'))[:253]}: {str(error)[:200]}"}
        return kept if facts is None else {**kept, "facts": facts}

    def _handle(self, kind: str, event: Event | ClusterError) -> None:
        at = self._clock.now()
        if isinstance(event, ClusterError):
            self._events.put(ClusterEvent("REFUSED", kind, at, text=event.message))
            return
        if event.type == "LISTED":
            self._events.put(ClusterEvent("LISTED", kind, at))
            return
        gap = self._gap(kind, at)
        facts, uid = event.object.get("facts"), event.object["metadata"]["uid"]
        told = self._known[kind]
        if "odd" in event.object:
            self._events.put(ClusterEvent("ODD", kind, at, text=event.object["odd"]))
        if event.type != "DELETED":
            if facts is not None:
                told[uid] = facts
                self._events.put(ClusterEvent("PUT", kind, at, facts))
            return
        before = told.pop(uid, None)
        if facts is None:
            facts = before
        if facts is not None:
            # A repeated list reports a missing object with its last known facts: the time of its deletion is unknown.
            listed = facts is before
            self._events.put(ClusterEvent("GONE", kind, at, facts, gap if listed else self._missed(kind, at)))

    def _gap(self, kind: str, at: float) -> float:
        """Return the time of the last message of a kind; remember the interruption if that was too long ago."""
        known = self._reflectors[kind].synced_until
        before = at if known is None else self._clock.then(known)
        if at - before > _WATCH_TIMEOUT:
            self._gaps[kind] = (before, time.monotonic() + _CATCH_UP)
        return before

    def _missed(self, kind: str, at: float) -> float | None:
        before, until = self._gaps[kind]
        return min(before, at) if time.monotonic() < until else None

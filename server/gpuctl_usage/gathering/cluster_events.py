"""What is heard of pods, nodes, namespaces and quotas, with the time at which it was heard."""

from __future__ import annotations

import queue
import time
from functools import partial
from typing import NamedTuple

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object
from gpuctl_usage.gathering.object_facts import FactMaker, Facts
from gpuctl_usage.gathering.server_clock import ServerClock

KINDS = ("Node", "Namespace", "ResourceQuota", "Pod")
_RETRY_AFTER = 15.0
"""Seconds after which a list that may not be read is tried again."""
_WATCH_TIMEOUT = 150.0
"""Seconds: a watch that has said nothing for so long, when it should have once a minute, was interrupted."""
_CATCH_UP = 2.0
"""Seconds in which all comes that happened while it was."""


class ClusterEvent(NamedTuple):
    """An object came, has changed (PUT) or has gone (GONE); or its list was read whole (LISTED); or it cannot be read
    (REFUSED, with the reason in ``text``), or is no object of the API (ODD).

    :param at: when it was heard, by the API server's clock.
    :param missed: when something was last heard before, if the object has gone while nobody could hear it.
    """

    type: str
    kind: str
    at: float
    facts: Facts | None = None
    missed: float | None = None
    text: str = ""


class ClusterEvents:
    """Follows a cluster. Only what holds GPUs is told of pods."""

    def __init__(self, session: Session, clock: ServerClock, maker: FactMaker) -> None:
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
            for kind in KINDS
        }
        self._known: dict[str, dict[str, Facts]] = {kind: {} for kind in KINDS}
        self._gaps = dict.fromkeys(KINDS, (0.0, 0.0))

    def start(self) -> None:
        """Begin to follow: every kind, side by side."""
        for reflector in self._reflectors.values():
            reflector.start()

    def stop(self) -> None:
        """End; whoever waits for :meth:`next` goes on."""
        for reflector in self._reflectors.values():
            reflector.stop()
        self._events.put(None)

    def next(self, timeout: float) -> ClusterEvent | None:
        """What was heard next; None after so many seconds, and at the end."""
        try:
            return self._events.get(timeout=timeout) if timeout > 0 else self._events.get_nowait()
        except queue.Empty:
            return None

    def known_until(self) -> float | None:
        """Until when all that happened to pods and nodes has been heard; None before both were listed."""
        return self._all_until("Pod", "Node")

    def quotas_known_until(self) -> float | None:
        """Likewise of quotas, which may not be readable while pods are, and of nodes: who shares cards, they say."""
        return self._all_until("ResourceQuota", "Node")

    def _all_until(self, *kinds: str) -> float | None:
        times = [self._reflectors[kind].synced_until for kind in kinds]
        known = [time for time in times if time is not None]
        return self._clock.then(min(known)) if len(known) == len(times) else None

    def restarts(self) -> dict[str, int]:
        """By kind how many watches had to be begun again, for their age as well."""
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
            # A list that was read again tells what is missing in it, as it was known: when it went nobody has heard.
            listed = facts is before
            self._events.put(ClusterEvent("GONE", kind, at, facts, gap if listed else self._missed(kind, at)))

    def _gap(self, kind: str, at: float) -> float:
        """When a list last said something; it is noted when that was too long ago."""
        known = self._reflectors[kind].synced_until
        before = at if known is None else self._clock.then(known)
        if at - before > _WATCH_TIMEOUT:
            self._gaps[kind] = (before, time.monotonic() + _CATCH_UP)
        return before

    def _missed(self, kind: str, at: float) -> float | None:
        before, until = self._gaps[kind]
        return min(before, at) if time.monotonic() < until else None

"""What happens from now on: lists, then watches that survive whatever ends them."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuctl.backend.api_resources import RESOURCES, Object
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.connection import Connection
from gpuctl.kube.scope import is_absent

_PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
_SOON = 5.0
"""Seconds: a watch that ends earlier, without having told anything, was not ended for its age."""


class Watched(NamedTuple):
    """A list to follow: a kind, in a namespace or (None) in all, narrowed by labels."""

    kind: str
    namespace: str | None
    labels: str = ""


class Event(NamedTuple):
    """``type`` is ADDED, MODIFIED or DELETED, as the API's; LISTED (``object`` empty) when a list was read in full."""

    type: str
    kind: str
    object: Object


class Follower:
    """Follows lists in threads of its own until :meth:`stop`.

    A watch that breaks, or a version that is too old (410), leads to a fresh list, whose differences come as events:
    nothing is missed and nothing comes twice.
    """

    def __init__(self, connection: Connection, watched: Iterable[Watched]) -> None:
        self._connection = connection
        self._watched = list(watched)
        self._events: queue.Queue[Event | ClusterError] = queue.Queue()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Begin. Every list's objects come first, as ADDED, and LISTED after them."""
        for watched in self._watched:
            threading.Thread(target=self._follow, args=(watched,), daemon=True, name="gpuctl-follow").start()

    def stop(self) -> None:
        """End; the threads follow when the server next says something."""
        self._stopped.set()

    def events(self, timeout: float | None = None) -> Iterator[Event | None]:
        """Events as they come; None after each ``timeout`` seconds without one.

        :raises ClusterError: a list may not be read, or the cluster cannot be reached at the start.
        """
        while not self._stopped.is_set():
            try:
                event = self._events.get(timeout=timeout)
            except queue.Empty:
                yield None
                continue
            if isinstance(event, ClusterError):
                raise event
            yield event

    def _follow(self, watched: Watched) -> None:
        resource = RESOURCES[watched.kind]
        known: dict[str, Object] = {}
        listed = False
        failures = 0
        while not self._stopped.is_set():
            try:
                items, version = self._connection.list_objects(resource, watched.namespace, labels=watched.labels)
                self._compare(watched.kind, known, items)
                if not listed:
                    listed = True
                    self._events.put(Event("LISTED", watched.kind, {}))
                failures = 0 if self._watch(watched, known, version) else self._pause(failures)
            except ClusterError as error:
                if isinstance(error, ApiError) and is_absent(watched.kind, error):
                    self._events.put(Event("LISTED", watched.kind, {}))
                    return
                if not listed or (isinstance(error, ApiError) and error.status in (401, 403)):
                    self._events.put(error)
                    return
                failures = self._pause(failures)

    def _pause(self, failures: int) -> int:
        """Wait, longer after each failure in a row and never as long as others that failed with us."""
        self._stopped.wait(_PAUSES[min(failures, len(_PAUSES) - 1)] * (0.5 + random.random()))  # noqa: S311 - jitter
        return failures + 1

    def _watch(self, watched: Watched, known: dict[str, Object], version: str) -> bool:
        """Until the server says that a fresh list is needed; whether anything was told before that.

        A watch that ended in order goes on where it was: at once after its time, after a pause when it told nothing.
        """
        resource = RESOURCES[watched.kind]
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        failures, told = 0, False
        while not self._stopped.is_set():
            begun, before = time.monotonic(), version
            for event in self._connection.watch(resource, watched.namespace, version, labels=watched.labels):
                if self._stopped.is_set() or event["type"] == "ERROR":
                    return told
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                obj = {**head, **event["object"]}
                uid = obj["metadata"]["uid"]
                if event["type"] == "DELETED":
                    known.pop(uid, None)
                else:
                    known[uid] = obj
                self._events.put(Event(event["type"], watched.kind, obj))
            if version != before or time.monotonic() > begun + _SOON:
                failures, told = 0, True
            else:
                failures = self._pause(failures)
        return told

    def _compare(self, kind: str, known: dict[str, Object], items: list[Object]) -> None:
        now = {item["metadata"]["uid"]: item for item in items}
        for uid in [uid for uid in known if uid not in now]:
            self._events.put(Event("DELETED", kind, known.pop(uid)))
        for uid, item in now.items():
            before = known.get(uid)
            if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                known[uid] = item
                self._events.put(Event("ADDED" if before is None else "MODIFIED", kind, item))

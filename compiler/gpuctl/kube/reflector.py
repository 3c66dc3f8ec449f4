"""What happens to the objects of a list from now on: lists and watches that survive whatever ends them.

Rules: client-go's ``tools/cache/reflector.go``. A watch goes on where the last one was, also after its connection
broke; what the server does not remember any more (410, or a version it does not know yet after its storage was set
back) is listed again, and the differences are told as events.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpuctl.kube import backoff
from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed
from gpuctl.kube.response_streams import WatchStream
from gpuctl.kube.scope import is_absent
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Object

_SOON = 5.0
"""Seconds: a watch that ends earlier, without having told anything, was not ended for its age."""
_SILENT = 2
"""So many watches in a row that broke without a word: what lies in between may let no stream through."""


# Of a watch that the server does not take now. 504 is also its answer to a version that it has not seen yet.
_PASSING = (429, 500, 502, 503)


class WatchedList(NamedTuple):
    """A list to follow: a kind, in a namespace or (None) in all, narrowed by labels and fields.

    :param is_needed: False if its reader also works without the kind, and without the right to it.
    """

    kind: str
    namespace: str | None
    labels: str = ""
    fields: str = ""
    is_needed: bool = True


class Event(NamedTuple):
    """``type`` is ADDED, MODIFIED or DELETED, as the API's; LISTED (``object`` empty) when a list was read in full.

    ``watched`` is the list that it is about. A deleted object is as it was last known.
    """

    type: str
    kind: str
    object: Object
    watched: WatchedList


EventHandler = Callable[["Event | ClusterError"], None]


def _whole(obj: Object) -> Object:
    return obj


class Reflector:
    """Follows lists in threads of its own until :meth:`stop`; each change is reported once.

    ``on_event`` is called from these threads with each event, and with the error that ends a list: the list is
    forbidden, or the cluster cannot be reached at the start. Without ``on_event``, :meth:`events` yields them in order.
    ``transform`` reduces each object before it is reported and stored; it must keep ``metadata.uid`` and
    ``metadata.resourceVersion``.

    :param again: seconds after which a list that ended, because it may not be read or its kind is not installed, is
        tried again; LISTED is told again once it was read. None: it has ended for good.
    """

    def __init__(
        self,
        session: Session,
        watched: Iterable[WatchedList],
        on_event: EventHandler | None = None,
        transform: Callable[[Object], Object] = _whole,
        retry_after: float | None = None,
    ) -> None:
        self._session = session
        self._retry_after = retry_after
        self._transform = transform
        self._watched = list(watched)
        self._events: queue.SimpleQueue[Event | ClusterError | None] = queue.SimpleQueue()
        self._on_event = on_event or self._events.put
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._watches: set[WatchStream] = set()
        self._followed = [_Followed(item) for item in self._watched]

    @property
    def synced_until(self) -> float | None:
        """Until when everything that happened has been told, by the monotonic clock: each list was read, or its watch
        said something, at that time or later. None before every list was read once. A watch that has nothing to tell
        says so once a minute.
        """
        times = [followed.synced_until for followed in self._followed if followed.synced_until is not None]
        return min(times) if len(times) == len(self._followed) else None

    @property
    def watches(self) -> int:
        """How many watches were begun: one for each list, and one more whenever one of them had ended."""
        return sum(followed.watches for followed in self._followed)

    def start(self) -> None:
        """Begin. Every list's objects come first, as ADDED, and LISTED after them."""
        for followed in self._followed:
            threading.Thread(target=self._follow, args=(followed,), daemon=True, name="gpuctl-reflector").start()

    def stop(self) -> None:
        """End, at once: watches are cut, and whoever waits for :meth:`events` goes on."""
        self._stopped.set()
        self._events.put(None)
        with self._lock:
            for watch in self._watches:
                watch.close()

    def events(self, timeout: float | None = None) -> Iterator[Event | None]:
        """Events as they come, until :meth:`stop`; None after each ``timeout`` seconds without one.

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
            if event is not None:
                yield event

    def _emit(self, event: Event | ClusterError) -> None:
        if not self._stopped.is_set():
            self._on_event(event)

    def _follow(self, followed: _Followed) -> None:
        while not self._stopped.is_set():
            try:
                if not followed.version:
                    self._list(followed)
                if self._watch(followed):
                    followed.failures = 0
                    continue
            except ClusterError as error:
                if not self._ends(followed, error):
                    followed.note(error)
                elif self._retry_after is None:
                    return
                elif not isinstance(error, ConnectionFailed):
                    self._stopped.wait(self._retry_after)
                    continue
            followed.failures += 1
            self._stopped.wait(backoff.delay_after(followed.failures))

    def _ends(self, followed: _Followed, error: ClusterError) -> bool:
        """Whether a list ends with an error, which is told then; a kind that is not installed has no objects."""
        watched = followed.watched
        absent = isinstance(error, ApiError) and (
            is_absent(watched.kind, error) or (error.is_missing and not watched.is_needed)
        )
        if not absent and followed.listed and not _is_final(error):
            return False
        if not absent:
            self._emit(error)
        elif not followed.listed or self._retry_after is not None:
            for obj in followed.known.values():
                self._emit(Event("DELETED", watched.kind, obj, watched))
            self._emit(Event("LISTED", watched.kind, {}, watched))
            followed.known.clear()
        followed.version, followed.listed = "", False
        return True

    def _list(self, followed: _Followed) -> None:
        """Read the list, and tell what is different from what is known."""
        watched = followed.watched
        now: dict[str, Object] = {}
        versions: list[str] = []
        begun = time.monotonic()
        # Page by page: what is kept of a large list may be much less than what comes.
        for page in self._session.pages(
            RESOURCES[watched.kind],
            watched.namespace,
            labels=watched.labels,
            fields=watched.fields,
            on_version=versions.append,
            on_restart=now.clear,
        ):
            now.update((item["metadata"]["uid"], self._transform(item)) for item in page)
        known = followed.known
        for uid in [uid for uid in known if uid not in now]:
            self._emit(Event("DELETED", watched.kind, known.pop(uid), watched))
        for uid, item in now.items():
            before = known.get(uid)
            if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                known[uid] = item
                self._emit(Event("ADDED" if before is None else "MODIFIED", watched.kind, item, watched))
        followed.version = versions[-1]
        if not followed.listed:
            followed.listed = True
            self._emit(Event("LISTED", watched.kind, {}, watched))
        followed.synced_until = begun

    def _watch(self, followed: _Followed) -> bool:
        """One watch, until it ends; whether it did so in order: for its age, or after it had told something."""
        watched = followed.watched
        followed.told = False
        followed.watches += 1
        begun = time.monotonic()
        watch = self._session.watch(
            RESOURCES[watched.kind],
            watched.namespace,
            followed.version,
            labels=watched.labels,
            fields=watched.fields,
        )
        with self._lock:
            self._watches.add(watch)
        try:
            if self._stopped.is_set():
                watch.close()
            for event in watch:
                if event["type"] == "ERROR":
                    # Most often 410; whatever it is, a fresh list is right.
                    followed.version = ""
                    return followed.told
                on_event = time.monotonic()
                change = followed.take(event, self._transform)
                if change is not None:
                    self._emit(change)
                followed.synced_until = on_event
        finally:
            with self._lock:
                self._watches.discard(watch)
        return followed.told or time.monotonic() > begun + _SOON


class _Followed:
    """How far a list is followed: ``known`` are its objects by uid, ``version`` where the next watch begins.

    Without a version a list has to be read first. ``told`` is whether the watch has said anything, ``failures`` how
    many attempts in a row were in vain, ``watches`` how many were begun, ``synced_until`` when it last heard of it.
    """

    def __init__(self, watched: WatchedList) -> None:
        self.watched = watched
        self.known: dict[str, Object] = {}
        self.version = ""
        self.listed = False
        self.told = False
        self.failures = 0
        self.watches = 0
        self.synced_until: float | None = None
        self._silent = 0

    def take(self, event: Object, transform: Callable[[Object], Object]) -> Event | None:
        """Take up what a watch says; None when it says only how far it is."""
        self.told = True
        self.version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return None
        resource = RESOURCES[self.watched.kind]
        obj = transform({"apiVersion": resource.api_version, "kind": resource.kind, **event["object"]})
        if event["type"] == "DELETED":
            self.known.pop(obj["metadata"]["uid"], None)
        else:
            self.known[obj["metadata"]["uid"]] = obj
        return Event(event["type"], self.watched.kind, obj, self.watched)

    def note(self, error: ClusterError) -> None:
        """Decide where to go on after an attempt that failed: where it was, if the server will know it."""
        if self.told:
            self.failures = self._silent = 0
        self.told = False
        if isinstance(error, ConnectionFailed):
            self._silent += 1
            if self._silent >= _SILENT:
                self.version, self._silent = "", 0
        elif not (isinstance(error, ApiError) and error.status in _PASSING):
            self.version = ""


def _is_final(error: ClusterError) -> bool:
    """Whether trying again would not help: the user may not, or no longer."""
    return isinstance(error, ApiError) and error.status in (401, 403)

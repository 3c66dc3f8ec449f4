"""Following the objects of lists: list and watch, restarted after every interruption.

Rules: client-go's ``tools/cache/reflector.go``. A watch resumes at the last resource version, also after a broken
connection. If the server no longer has that version (410), or does not have it yet because its storage was restored,
the list is read again and the differences become events.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from gpuctl.kube import backoff
from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed, is_access_refusal
from gpuctl.kube.response_streams import WatchStream
from gpuctl.kube.scope import is_absent
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Object

_SOON = 5.0
"""Seconds. A watch that ends earlier without an event did not end because of its timeout."""
_SILENT = 2
"""After this number of consecutive watches that broke without an event the list is read again: a proxy may block
streams.
"""


# Statuses after which a watch resumes at the same version. Not 504, which the server also sends for a version that it
# has not seen yet.
_PASSING = (429, 500, 502, 503)


class WatchedList(NamedTuple):
    """A list to follow: a kind, in one namespace or (None) in all, selected by labels and fields.

    :param is_needed: False if the caller also works without the kind and without the right to list it.
    """

    kind: str
    namespace: str | None
    labels: str = ""
    fields: str = ""
    is_needed: bool = True


class Event(NamedTuple):
    """A change of a followed list.

    ``type`` is ADDED, MODIFIED or DELETED, as in the API, or LISTED (with an empty ``object``) after the list was read
    in full. ``object`` of DELETED is the last known state.
    """

    type: str
    kind: str
    object: Object
    watched: WatchedList


EventHandler = Callable[["Event | ClusterError"], None]


def _whole(obj: Object) -> Object:
    return obj


class Reflector:
    """Follows lists in its own threads until :meth:`stop`; each change is reported once.

    ``on_event`` is called from these threads with each event, and with the error that ends a list: the list is
    forbidden, or the cluster cannot be reached at the start. Without ``on_event``, :meth:`events` yields them in order.
    ``transform`` reduces each object before it is reported and stored; it must keep ``metadata.uid`` and
    ``metadata.resourceVersion``. Objects that the session does not show are left out; one that it no longer shows is
    reported as DELETED.

    :param retry_after: seconds until a list is tried again that ended because it is forbidden or its kind is not
        installed; LISTED is reported again after it was read. None: it has ended for good.
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
        self._followed = [_FollowedList(item) for item in self._watched]

    @property
    def synced_until(self) -> float | None:
        """The time up to which all changes have been reported, by the monotonic clock; None before every list was read
        once.

        It is the time of the last list or watch event of the slowest list. An idle watch sends a bookmark once a
        minute.
        """
        times = [followed.synced_until for followed in self._followed if followed.synced_until is not None]
        return min(times) if len(times) == len(self._followed) else None

    @property
    def interruption(self) -> ClusterError | None:
        """The error since which a list is not being watched, and is tried again; None while all are watched."""
        return next((followed.interruption for followed in self._followed if followed.interruption is not None), None)

    @property
    def watches(self) -> int:
        """Number of watches started: one for each list, and one for each restart."""
        return sum(followed.watches for followed in self._followed)

    def start(self) -> None:
        """Start the threads. Each list reports its objects as ADDED, then LISTED."""
        for followed in self._followed:
            threading.Thread(target=self._follow, args=(followed,), daemon=True, name="gpuctl-reflector").start()

    def stop(self) -> None:
        """Abort all watches and end :meth:`events` at once."""
        self._stopped.set()
        self._events.put(None)
        with self._lock:
            for watch in self._watches:
                watch.close()

    def events(self, timeout: float | None = None) -> Iterator[Event | None]:
        """Yield events until :meth:`stop`; None after each ``timeout`` seconds without an event.

        :raises ClusterError: a list is forbidden, or the cluster cannot be reached at the start.
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

    def _follow(self, followed: _FollowedList) -> None:
        while not self._stopped.is_set():
            try:
                if not followed.version:
                    self._list(followed)
                if self._watch(followed):
                    followed.failures = 0
                    continue
            except ClusterError as error:
                if not self._ends(followed, error):
                    followed.note_failure(error)
                elif self._retry_after is None:
                    return
                elif not isinstance(error, ConnectionFailed):
                    self._stopped.wait(self._retry_after)
                    continue
            followed.failures += 1
            self._stopped.wait(backoff.delay_after(followed.failures))

    def _ends(self, followed: _FollowedList, error: ClusterError) -> bool:
        """Return True if an error ends a list, and report it. A kind that is not installed counts as an empty list."""
        watched = followed.watched
        # Of a kind that is not needed, the caller distinguishes an absent list from a forbidden one.
        absent = isinstance(error, ApiError) and (
            is_absent(watched.kind, error) if watched.is_needed else error.is_missing
        )
        if not absent and followed.answered and not is_access_refusal(error):
            return False
        followed.answered = absent or is_access_refusal(error)
        if not absent:
            self._emit(error)
        elif not followed.listed or self._retry_after is not None:
            for obj in followed.known.values():
                self._emit(Event("DELETED", watched.kind, obj, watched))
            self._emit(Event("LISTED", watched.kind, {}, watched))
            followed.known.clear()
        followed.version, followed.listed, followed.interruption = "", False, None
        return True

    def _list(self, followed: _FollowedList) -> None:
        """Read the list and report the differences from the known objects."""
        watched = followed.watched
        now: dict[str, Object] = {}
        versions: list[str] = []
        begun = time.monotonic()
        # Page by page, to save memory: the transformed objects may be much smaller than the received ones.
        for page in self._session.pages(
            RESOURCES[watched.kind],
            watched.namespace,
            labels=watched.labels,
            fields=watched.fields,
            on_version=versions.append,
            on_restart=now.clear,
        ):
            shown = filter(self._session.shows, page)
            now.update((item["metadata"]["uid"], self._transform(item)) for item in shown)
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
            followed.listed = followed.answered = True
            self._emit(Event("LISTED", watched.kind, {}, watched))
        followed.synced_until = begun

    def _watch(self, followed: _FollowedList) -> bool:
        """Run one watch to its end. Return True if it ended normally: after an event, or because of its timeout."""
        watched = followed.watched
        followed.had_event = False
        followed.watches += 1
        begun = time.monotonic()
        watch = self._session.watch(
            RESOURCES[watched.kind],
            watched.namespace,
            followed.version,
            labels=watched.labels,
            fields=watched.fields,
        )
        followed.interruption = None
        with self._lock:
            self._watches.add(watch)
        try:
            if self._stopped.is_set():
                watch.close()
            for event in watch:
                if event["type"] == "ERROR":
                    # Usually 410; in every case the list is read again.
                    followed.version = ""
                    return followed.had_event
                on_event = time.monotonic()
                change = followed.store(event, self._transform, self._session.shows)
                if change is not None:
                    self._emit(change)
                followed.synced_until = on_event
        finally:
            with self._lock:
                self._watches.discard(watch)
        return followed.had_event or time.monotonic() > begun + _SOON


class _FollowedList:
    """The state of a followed list.

    ``known``: its objects by uid. ``version``: where the next watch starts; "" if the list has to be read first.
    ``had_event``: the current watch has sent an event. ``failures``: consecutive failed attempts. ``watches``: number
    of watches started. ``answered``: the server has returned the list, or that it is forbidden or does not exist; other
    errors pass. ``synced_until``: time of the last list or event. ``interruption``: why it is not being watched.
    """

    def __init__(self, watched: WatchedList) -> None:
        self.watched = watched
        self.known: dict[str, Object] = {}
        self.version = ""
        self.listed = False
        self.answered = False
        self.had_event = False
        self.failures = 0
        self.watches = 0
        self.synced_until: float | None = None
        self.interruption: ClusterError | None = None
        self._silent = 0

    def store(
        self, event: Object, transform: Callable[[Object], Object], shows: Callable[[Object], bool]
    ) -> Event | None:
        """Store a watch event and return it; None for a bookmark, which has only a resource version, and for an object
        that is not shown.
        """
        self.had_event = True
        self.version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return None
        resource = RESOURCES[self.watched.kind]
        received = {"apiVersion": resource.api_version, "kind": resource.kind, **event["object"]}
        if not shows(received):
            before = self.known.pop(received["metadata"]["uid"], None)
            return None if before is None else Event("DELETED", self.watched.kind, before, self.watched)
        obj = transform(received)
        if event["type"] == "DELETED":
            self.known.pop(obj["metadata"]["uid"], None)
        else:
            self.known[obj["metadata"]["uid"]] = obj
        return Event(event["type"], self.watched.kind, obj, self.watched)

    def note_failure(self, error: ClusterError) -> None:
        """Decide after a failed attempt where to resume: at the last version if the server may still have it, else with
        a new list.
        """
        self.interruption = error
        if self.had_event:
            self.failures = self._silent = 0
        self.had_event = False
        if isinstance(error, ConnectionFailed):
            self._silent += 1
            if self._silent >= _SILENT:
                self.version, self._silent = "", 0
        elif not (isinstance(error, ApiError) and error.status in _PASSING):
            self.version = ""

"""The copy itself: objects by kind, indexed by name and by the label of their job."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from functools import partial

from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.selector_parsing import LabelSelector
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key, Object, key_of, labels_of
from gpuctl_server.mirror.field_selectors import FieldSelector
from gpuctl_server.mirror.trimming import SkippedObject, Trimmer, malformed_reason
from gpuctl_server.request_log import LOG

APP = "app"
"""The label with the name of a job, on all objects of the job."""


class _MirroredList:
    """The objects of one watched list."""

    def __init__(self, watched: WatchedList) -> None:
        self.watched = watched
        self.selector = LabelSelector(watched.labels)
        self.fields = FieldSelector(watched.fields)
        self.listed = False
        self.failure: ClusterError | None = None
        self.version = 0
        self.newest = 0
        self.objects: dict[Key, Object] = {}
        self.left_out: set[str] = set()
        self._by_app: dict[str, dict[Key, Object]] = {}
        self._by_name: dict[str, dict[Key, Object]] = {}

    @property
    def is_left_to_the_server(self) -> bool:
        """True if the service may not read the list. Then each request asks the API server, and notes what is
        missing."""
        error = self.failure
        return not self.watched.is_needed and isinstance(error, ApiError) and error.lacks_permission

    def has_seen(self, key: Key, version: int) -> bool:
        """Return True if an object has this version or a later one, or was deleted since.

        A watch delivers the changes of a kind in the order of their versions.
        """
        obj = self.objects.get(key)
        return (self.newest if obj is None else version_of(obj)) >= version

    def take(self, event: Event) -> None:
        """Apply an event."""
        obj = event.object
        uid = obj["metadata"]["uid"]
        if isinstance(obj, SkippedObject) and event.type != "DELETED":
            if uid not in self.left_out:
                LOG.warning(
                    "a malformed object is left out", extra={"kind": event.kind, "uid": uid, "problem": obj.problem}
                )
            self.left_out.add(uid)
            for key in [key for key, known in self.objects.items() if known["metadata"]["uid"] == uid]:
                self.drop(key)
            return
        self.left_out.discard(uid)
        if event.type != "DELETED":
            self.put(obj)
        elif not isinstance(obj, SkippedObject):
            self.drop(key_of(obj))

    def put(self, obj: Object) -> None:
        key = key_of(obj)
        self.drop(key)
        self.objects[key] = obj
        self._by_name.setdefault(key.name, {})[key] = obj
        app = labels_of(obj).get(APP)
        if app is not None:
            self._by_app.setdefault(app, {})[key] = obj

    def drop(self, key: Key) -> None:
        obj = self.objects.pop(key, None)
        if obj is None:
            return
        for index, value in ((self._by_name, key.name), (self._by_app, labels_of(obj).get(APP))):
            found = index.get(value) if value is not None else None
            if value is not None and found is not None:
                found.pop(key, None)
                if not found:
                    del index[value]

    def select(self, namespace: str | None, labels: LabelSelector, fields: FieldSelector) -> list[Object]:
        name, apps = fields.value("metadata.name"), labels.one_of(APP)
        found: Iterable[Object]
        if name is not None:
            found = self._by_name.get(name, {}).values()
        elif apps is not None:
            found = [obj for app in dict.fromkeys(apps) for obj in self._by_app.get(app, {}).values()]
        else:
            found = self.objects.values()
        return [
            obj
            for obj in found
            if (namespace is None or obj["metadata"].get("namespace") == namespace)
            and labels.matches(obj)
            and fields.matches(obj)
        ]


def version_of(obj: Object) -> int:
    """Return the resource version as a number. Source: KEP-5504, versions are numbers that grow with every write."""
    text = str(obj["metadata"].get("resourceVersion") or "")
    return int(text) if text.isdigit() else 0


class Mirror:
    """The objects of watched lists. Safe to use from several threads.

    ``version`` grows with every change. Objects are never modified: a change replaces the object. Malformed objects are
    left out and counted.

    :param again: seconds until the next attempt to read a list that is forbidden, or whose kind does not exist.
    """

    def __init__(self, session: Session, watched: Iterable[WatchedList], *, again: float = 15.0) -> None:
        self._kept = {item.kind: _MirroredList(item) for item in watched}
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._trimmer = Trimmer()
        self.version = 0
        self.updated_at = time.monotonic()
        # One for each list, so that an error can be assigned to its list.
        self._reflectors = [
            Reflector(
                session, [kept.watched], on_event=partial(self._receive, kept), transform=self._trim, retry_after=again
            )
            for kept in self._kept.values()
        ]

    def start(self) -> None:
        """Start watching."""
        for reflector in self._reflectors:
            reflector.start()

    def stop(self) -> None:
        """Stop watching, without waiting for the threads."""
        for reflector in self._reflectors:
            reflector.stop()
        with self._changed:
            self._changed.notify_all()

    @property
    def failure(self) -> ClusterError | None:
        """The reason for which a list is not being watched; None if all are."""
        failed = (kept for kept in self._kept.values() if kept.failure is not None and not kept.is_left_to_the_server)
        return next((kept.failure for kept in failed), None)

    @property
    def listed(self) -> bool:
        """True if every list was read once. A list that failed later keeps its last state."""
        return all(kept.listed or kept.is_left_to_the_server for kept in self._kept.values())

    @property
    def ready(self) -> bool:
        """True if every list was read and is being watched."""
        return self.failure is None and self.listed

    @property
    def interruption(self) -> ClusterError | None:
        """The reason for which a list is not being watched now; None if all are."""
        return self.failure or next(filter(None, (reflector.interruption for reflector in self._reflectors)), None)

    @property
    def age(self) -> float | None:
        """Seconds since the last list or event of those that are not being watched, the longest; None while all are."""
        read = [
            reflector.synced_until
            for kept, reflector in zip(self._kept.values(), self._reflectors, strict=True)
            if reflector.interruption is not None or (kept.failure is not None and not kept.is_left_to_the_server)
        ]
        return max((time.monotonic() - at for at in read if at is not None), default=None)

    @property
    def left_out(self) -> int:
        """Number of malformed objects that are left out."""
        return sum(len(kept.left_out) for kept in self._kept.values())

    def changes_of(self, *kinds: str) -> int:
        """Return a number that grows with every change of an object of these kinds."""
        return sum(self._kept[kind].version for kind in kinds)

    def wait_until_changed(self, version: int, timeout: float) -> int:
        """Return the version once it differs from ``version``, or after ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self.version != version, timeout)
            return self.version

    def wait_for(self, kind: str, key: Key, resource_version: str, timeout: float) -> bool:
        """Wait until the mirror has a write, so that a client reads its own write. Return False after the timeout.

        :param resource_version: that of the written object; of a deletion, the version before it.
        :param timeout: seconds. A watch that is interrupted may take longer.
        """
        kept = self._kept.get(kind)
        if kept is None or not resource_version.isdigit():
            return False
        with self._changed:
            return self._changed.wait_for(lambda: kept.has_seen(key, int(resource_version)), timeout)

    def covers(self, kind: str, namespace: str | None, labels: LabelSelector, fields: FieldSelector) -> bool:
        """Return True if the mirror has all objects that a list request selects."""
        kept = self._kept.get(kind)
        return (
            kept is not None
            and kept.listed
            and not kept.is_left_to_the_server
            and kept.watched.namespace in (None, namespace)
            and all(labels.demands(item["key"]) for item in kept.selector.requirements)
            and set(kept.fields.requirements) <= set(fields.requirements)
        )

    def select(self, kind: str, namespace: str | None, labels: LabelSelector, fields: FieldSelector) -> list[Object]:
        """Return the objects that a list request selects."""
        with self._lock:
            return self._kept[kind].select(namespace, labels, fields)

    def names(self, kind: str) -> list[str]:
        """Return the names of the objects of a kind."""
        with self._lock:
            return [key.name for key in self._kept[kind].objects]

    def find(self, key: Key) -> Object | None:
        """Return an object; None if it does not exist."""
        with self._lock:
            return self._kept[key.kind].objects.get(key)

    def kinds(self) -> Iterator[tuple[str, int]]:
        """Yield each kind and its number of objects."""
        for kind, kept in self._kept.items():
            yield kind, len(kept.objects)

    def _trim(self, obj: Object) -> Object:
        problem = malformed_reason(obj)
        if problem is not None:
            return SkippedObject(obj, problem)
        with self._lock:
            return self._trimmer.trim(obj)

    def _receive(self, kept: _MirroredList, event: Event | ClusterError) -> None:
        with self._changed:
            if isinstance(event, ClusterError):
                if kept.failure is None:
                    problem = event.detail if isinstance(event, ConnectionFailed) else event.message
                    LOG.error("a list cannot be watched", extra={"kind": kept.watched.kind, "problem": problem})
                kept.failure = event
            elif event.type == "LISTED":
                kept.listed, kept.failure = True, None
            else:
                kept.newest = max(kept.newest, version_of(event.object))
                kept.take(event)
            kept.version += 1
            self.version += 1
            self.updated_at = time.monotonic()
            self._changed.notify_all()

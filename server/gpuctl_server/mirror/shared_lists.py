"""Lists of the whole cluster that plans need whole: read once for all requests that ask at the same time.

The mirror leaves out what only the scheduler's rules need (affinity, tolerations, ports). A plan reads all pods and
nodes instead; sixteen plans at a time would hold sixteen copies, and a batch of a hundred entries would read them a
hundred times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, Resource
from gpuctl_server.mirror.selector_matching import LabelSelector

SHARED = frozenset({"Pod", "Node"})
READING = 60.0
"""Seconds for which a request that writes nothing goes by one look at the cluster, from its beginning."""


class _Listed(NamedTuple):
    """A list: when its reading began (monotonic), its resource version, and its objects, which are never changed."""

    begun: float
    version: str
    objects: list[Object]


class SharedLists:
    """The newest list of each kind. A caller gets one whose reading began after the caller asked, and no older one."""

    def __init__(self) -> None:
        self._reading = {kind: threading.Lock() for kind in SHARED}
        self._lists: dict[str, tuple[str, _Listed]] = {}

    def list_of(
        self, kind: str, since: float, read: Callable[[], tuple[list[Object], str]], fields: str = ""
    ) -> _Listed:
        """Return a list, by its field selector, whose reading began at ``since`` (monotonic) or later."""
        found = self._found(kind, fields, since)
        if found is None:
            with self._reading[kind]:
                # Another request may have read it while this one waited.
                found = self._found(kind, fields, since)
                if found is None:
                    begun = time.monotonic()
                    objects, version = read()
                    found = _Listed(begun, version, objects)
                    self._lists[kind] = (fields, found)
        return found

    def _found(self, kind: str, fields: str, since: float) -> _Listed | None:
        known, found = self._lists.get(kind, ("", None))
        return found if found is not None and known == fields and found.begun >= since else None


class MaxListAge:
    """How old the lists of a session may be: not at all, or a few seconds, but never from before the session.

    :param seconds: the age.
    """

    def __init__(self, seconds: float = 0.0) -> None:
        self._seconds = seconds
        self._begun = time.monotonic()

    def since(self) -> float:
        """Return the earliest time at which the reading of a list may have begun."""
        return max(self._begun, time.monotonic() - self._seconds) if self._seconds else time.monotonic()


class ListSharingSession(Session):
    """Asks the API server; after :meth:`share`, lists of all pods and nodes are shared with other requests."""

    _shared_lists: SharedLists | None = None
    _max_age = MaxListAge()

    def share(self, shared_lists: SharedLists, max_age: MaxListAge | None) -> None:
        """Share lists: only where the service's own rights decide what they have, not the caller's."""
        self._shared_lists = shared_lists
        self._max_age = max_age or MaxListAge()

    def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        on_version: Callable[[str], None] = lambda version: None,
        on_restart: Callable[[], None] | None = None,
    ) -> Iterator[list[Object]]:
        """As :meth:`Session.pages`."""
        # A few pods by their labels are read alone; nodes are few, and a batch asks for them once an entry.
        is_shared = resource.kind in SHARED and namespace is None and (not labels or resource.kind == "Node")
        if self._shared_lists is None or not is_shared:
            yield from super().pages(
                resource, namespace, labels=labels, fields=fields, on_version=on_version, on_restart=on_restart
            )
            return
        found = self._shared_lists.list_of(
            resource.kind, self._max_age.since(), lambda: self._read(resource, fields), fields
        )
        on_version(found.version)
        yield list(filter(LabelSelector(labels).matches, found.objects)) if labels else found.objects

    def _read(self, resource: Resource, fields: str) -> tuple[list[Object], str]:
        versions: list[str] = []
        objects: list[Object] = []
        for page in super().pages(resource, None, fields=fields, on_version=versions.append, on_restart=objects.clear):
            # Of a node they say when a label was set.
            objects += map(_without_managers, page) if resource.kind == "Pod" else page
        return objects, versions[-1]


def _without_managers(obj: Object) -> Object:
    """Leave out who set which field: a third of a pod, which nothing needs of other jobs' pods."""
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}

"""Lists of all pods and nodes from the API server, shared by concurrent requests.

The mirror does not keep the fields that only the scheduler needs (preferences, tolerations, ports), so a plan reads all
pods and nodes itself. Without sharing, sixteen concurrent plans would hold sixteen copies, and a batch of a hundred
entries would read them a hundred times.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gpuctl.kube.selector_parsing import LabelSelector
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Object, Resource
from gpuctl_server.mirror.trimming import Trimmer

SHARED = frozenset({"Pod", "Node"})
READ_ONLY_AGE = 60.0
"""Maximum age of the lists of a request that writes nothing, seconds. Older than the request only if it permits it."""


class _Listed(NamedTuple):
    """A list: the time at which its reading began (monotonic), its resource version, and its objects, never
    modified."""

    begun: float
    version: str
    objects: list[Object]


class SharedLists:
    """The newest list of each kind. A request never gets a list whose reading began before the time that it demands."""

    def __init__(self) -> None:
        self._reading = {kind: threading.Lock() for kind in SHARED}
        self._lists: dict[str, tuple[str, _Listed]] = {}

    def list_of(
        self, kind: str, since: float, read: Callable[[], tuple[list[Object], str]], fields: str = ""
    ) -> _Listed:
        """Return the list of a kind and field selector whose reading began at ``since`` (monotonic) or later."""
        found = self._found(kind, fields, since)
        if found is None:
            with self._reading[kind]:
                # Another request may have read it during the wait for the lock.
                found = self._found(kind, fields, since)
                if found is None:
                    self.forget_outdated()
                    begun = time.monotonic()
                    objects, version = read()
                    found = _Listed(begun, version, objects)
                    self._lists[kind] = (fields, found)
        return found

    def forget_outdated(self) -> None:
        """Remove the lists that are too old for every request."""
        for kind, (_, found) in list(self._lists.items()):
            if found.begun < time.monotonic() - READ_ONLY_AGE:
                self._lists.pop(kind, None)

    def _found(self, kind: str, fields: str, since: float) -> _Listed | None:
        known, found = self._lists.get(kind, ("", None))
        return found if found is not None and known == fields and found.begun >= since else None


class MaxListAge:
    """Maximum age of the lists of a session.

    :param seconds: the age; 0: a new list each time.
    :param before: seconds by which a list may be older than the session.
    """

    def __init__(self, seconds: float = 0.0, before: float = 0.0) -> None:
        self._seconds = seconds
        self._begun = time.monotonic() - before

    def since(self) -> float:
        """Return the earliest time at which the reading of a list may have begun (monotonic)."""
        return max(self._begun, time.monotonic() - self._seconds) if self._seconds else time.monotonic()


class ListSharingSession(Session):
    """A session that, after :meth:`share`, shares lists of all pods and nodes with other requests."""

    # Python returns little of the memory of a page to the system, because some of its objects are kept.
    page_size = 100
    _shared_lists: SharedLists | None = None
    _max_age = MaxListAge()

    def share(self, shared_lists: SharedLists, max_age: MaxListAge | None) -> None:
        """Share lists. Only for sessions with the service's own rights: with other rights, a list may have fewer
        objects.
        """
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
        # Lists of pods by labels are small, and read separately. Nodes are few, and a batch lists them once per entry.
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
        trimmer = Trimmer()
        for page in super().pages(resource, None, fields=fields, on_version=versions.append, on_restart=objects.clear):
            # The managed fields of a node are kept: they have the time at which a label was set.
            objects += (_reduced(pod, trimmer) for pod in page) if resource.kind == "Pod" else page
        return objects, versions[-1]


def _reduced(pod: Object, trimmer: Trimmer) -> Object:
    """Return a pod without its managed fields, which are a third of it; pods with equal parts of a spec share them."""
    metadata = {key: value for key, value in pod["metadata"].items() if key != "managedFields"}
    return {**pod, "metadata": metadata, "spec": {key: trimmer.shared(value) for key, value in pod["spec"].items()}}

"""Waiting until deleted objects are gone: one watch a kind and namespace, however many objects."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable

from gpuctl.apply.state.live_state import OURS
from gpuctl.backend.api_resources import RESOURCES, WORKLOADS, Key, Object, Resource, key_of
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.connection import Connection

_PAUSE = 0.5


class Departures:
    """Watches that report, once each, the objects that are gone.

    :param gone: called from a watch's thread with the key of each object whose uid is no more.
    """

    def __init__(self, connection: Connection, live: Iterable[Object], gone: Callable[[Key], None]) -> None:
        self._connection = connection
        self._gone = gone
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._awaited: dict[tuple[Resource, str], dict[str, Key]] = {}
        unlabelled: set[tuple[Resource, str]] = set()
        for obj in live:
            key = key_of(obj)
            group = (RESOURCES[key.kind], key.namespace)
            self._awaited.setdefault(group, {})[obj["metadata"]["uid"]] = key
            if (obj["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") != "gpuctl":
                unlabelled.add(group)
        self._labels = {group: "" if group in unlabelled else OURS for group in self._awaited}

    def start(self) -> list[Object]:
        """Look at all objects once more and start the watches; the objects as they are now."""
        groups = list(self._awaited)
        found: list[Object] = []
        for group, (items, version) in zip(groups, self._connection.each(self._list, groups), strict=True):
            awaited = self._awaited[group]
            found += [item for item in items if item["metadata"]["uid"] in awaited]
            threading.Thread(target=self._follow, args=(group, version), daemon=True, name="gpuctl-watch").start()
        return found

    def look(self) -> set[Key]:
        """Report what is gone though no watch has said so; the keys of what is still there.

        :raises ClusterError: the server does not tell.
        """
        for group, awaited in self._awaited.items():
            if awaited:
                self._report_missing(group, awaited)
        return {key for awaited in self._awaited.values() for key in list(awaited.values())}

    def stop(self) -> None:
        """End the watches; their threads follow when the server next says something."""
        self._stopped.set()

    def _list(self, group: tuple[Resource, str]) -> tuple[list[Object], str]:
        resource, namespace = group
        return self._connection.list_objects(resource, namespace, labels=self._labels[group])

    def _follow(self, group: tuple[Resource, str], version: str) -> None:
        resource, namespace = group
        awaited = self._awaited[group]
        while not self._stopped.is_set() and awaited:
            before = version
            try:
                for event in self._connection.watch(resource, namespace, version, labels=self._labels[group]):
                    if self._stopped.is_set():
                        return
                    if event.get("type") == "ERROR":
                        break
                    metadata = event["object"]["metadata"]
                    version = metadata["resourceVersion"]
                    if event["type"] == "DELETED":
                        self._report(awaited, metadata["uid"])
                        if not awaited:
                            return
                if version == before:
                    # It ended without having told anything: a server that ends every watch would be asked all the time.
                    self._stopped.wait(_PAUSE)
                version = self._look_again(group, awaited) or version
            except ClusterError:
                time.sleep(_PAUSE)
                version = self._look_again(group, awaited) or version

    def _look_again(self, group: tuple[Resource, str], awaited: dict[str, Key]) -> str | None:
        """A watch that broke may have missed something."""
        with contextlib.suppress(ClusterError):
            return self._report_missing(group, awaited)
        return None

    def _report_missing(self, group: tuple[Resource, str], awaited: dict[str, Key]) -> str:
        items, version = self._list(group)
        there = {item["metadata"]["uid"] for item in items}
        for uid in list(awaited):
            if uid not in there:
                self._report(awaited, uid)
        return version

    def _report(self, awaited: dict[str, Key], uid: str) -> None:
        with self._lock:
            key = awaited.pop(uid, None)
        if key is not None and not self._stopped.is_set():
            self._gone(key)


def held_by(connection: Connection, key: Key) -> str:
    """Which finalizer, or whose pods, keep an object from going."""
    try:
        live = connection.get(key)
    except ClusterError:
        return ""
    if live is None:
        return ""
    finalizers = [name for name in live["metadata"].get("finalizers") or [] if name != "foregroundDeletion"]
    if finalizers:
        return f": finalizer {', '.join(finalizers)} holds it"
    selector = ((live.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    if key.kind in WORKLOADS and selector:
        labels = ",".join(f"{name}={value}" for name, value in selector.items())
        try:
            pods, _ = connection.list_objects(RESOURCES["Pod"], key.namespace, labels=labels)
        except ClusterError:
            return ""
        held = [pod["metadata"]["name"] for pod in pods[:3]]
        keeping = sorted({name for pod in pods for name in pod["metadata"].get("finalizers") or []})
        if held:
            why = f" (finalizer {', '.join(keeping)})" if keeping else ""
            return f": its pods are still ending: {', '.join(held)}{why}"
    return ""

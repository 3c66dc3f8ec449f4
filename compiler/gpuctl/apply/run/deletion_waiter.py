"""Waiting until deleted objects are gone: one list a kind and namespace is followed, however many objects."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable

from gpuctl.apply.state.live_state import OURS
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Key, Object, key_of
from gpuctl.objects.workload_state import is_pod_of, pod_labels


class DeletionWaiter:
    """Reports, once each, the objects that are gone.

    :param gone: called from a watch's thread with the key of each object whose uid is no more.
    """

    def __init__(self, session: Session, live: Iterable[Object], gone: Callable[[Key], None]) -> None:
        self._session = session
        self._gone = gone
        self._lock = threading.Lock()
        groups: dict[tuple[str, str], dict[str, Key]] = {}
        unlabelled: set[tuple[str, str]] = set()
        for obj in live:
            key = key_of(obj)
            groups.setdefault((key.kind, key.namespace), {})[obj["metadata"]["uid"]] = key
            if (obj["metadata"].get("labels") or {}).get("app.kubernetes.io/managed-by") != "gpuctl":
                unlabelled.add((key.kind, key.namespace))
        self._awaited = {
            WatchedList(kind, namespace, "" if (kind, namespace) in unlabelled else OURS): awaited
            for (kind, namespace), awaited in groups.items()
        }
        self._starting = True
        self._first: queue.SimpleQueue[Event | ClusterError] = queue.SimpleQueue()
        self._reflector = Reflector(session, self._awaited, self._on_event)

    def start(self) -> list[Object]:
        """Look at all objects once more, and follow them from then on; the objects as they are now.

        :raises ClusterError: they cannot be listed.
        """
        self._reflector.start()
        found: dict[str, Object] = {}
        unlisted = len(self._awaited)
        while unlisted:
            event = self._first.get()
            if isinstance(event, ClusterError):
                raise event
            if event.type == "LISTED":
                unlisted -= 1
            elif event.type == "ADDED" and event.object["metadata"]["uid"] in self._awaited[event.watched]:
                found.setdefault(event.object["metadata"]["uid"], event.object)
        self._starting = False
        return list(found.values())

    def poll(self) -> set[Key]:
        """Report what is gone though no watch has said so; the keys of what is still there.

        :raises ClusterError: the server does not tell.
        """
        for watched, awaited in self._awaited.items():
            if awaited:
                self._report_missing(watched, awaited)
        return {key for awaited in self._awaited.values() for key in list(awaited.values())}

    def stop(self) -> None:
        """End the watches."""
        self._reflector.stop()

    def _on_event(self, event: Event | ClusterError) -> None:
        # What ends a watch later on does not end the waiting: now and then somebody looks.
        if self._starting:
            self._first.put(event)
        if isinstance(event, Event) and event.type == "DELETED":
            self._report(self._awaited[event.watched], event.object["metadata"]["uid"])

    def _report_missing(self, watched: WatchedList, awaited: dict[str, Key]) -> None:
        resource = next(iter(awaited.values())).resource
        items, _ = self._session.list_objects(resource, watched.namespace, labels=watched.labels)
        there = {item["metadata"]["uid"] for item in items}
        for uid in list(awaited):
            if uid not in there:
                self._report(awaited, uid)

    def _report(self, awaited: dict[str, Key], uid: str) -> None:
        with self._lock:
            key = awaited.pop(uid, None)
        if key is not None:
            self._gone(key)


def deletion_blockers(session: Session, key: Key) -> str:
    """Which finalizer, or whose pods, keep an object from going."""
    try:
        live = session.get(key)
    except ClusterError:
        return ""
    if live is None:
        return ""
    finalizers = [name for name in live["metadata"].get("finalizers") or [] if name != "foregroundDeletion"]
    if finalizers:
        return f": finalizer {', '.join(finalizers)} holds it"
    labels = pod_labels(live) if key.kind in WORKLOADS else ""
    if labels:
        try:
            listed, _ = session.list_objects(RESOURCES["Pod"], key.namespace, labels=labels)
        except ClusterError:
            return ""
        pods = [pod for pod in listed if is_pod_of(pod, live)]
        held = [pod["metadata"]["name"] for pod in pods[:3]]
        keeping = sorted({name for pod in pods for name in pod["metadata"].get("finalizers") or []})
        if held:
            why = f" (finalizer {', '.join(keeping)})" if keeping else ""
            return f": its pods are still ending: {', '.join(held)}{why}"
    return ""

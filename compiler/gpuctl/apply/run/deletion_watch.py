"""Watches that report deleted objects once they are gone, one for each kind and namespace."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterable

from gpuctl.apply.state.live_state import OURS, read_version
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import RESOURCES, WORKLOADS, Key, Object, key_of
from gpuctl.objects.workload_state import is_pod_of, pod_labels


class DeletionWatch:
    """Reports each awaited object once when it is gone.

    :param gone: called from a watch's thread with the key of each object whose uid no longer exists.
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
        """Start the watches, and return the current versions of the awaited objects.

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
        """List the awaited objects, report those that are gone, and return the keys of the others.

        :raises ClusterError: they cannot be listed.
        """
        for watched, awaited in self._awaited.items():
            if awaited:
                self._report_missing(watched, awaited)
        return {key for awaited in self._awaited.values() for key in list(awaited.values())}

    def stop(self) -> None:
        """End the watches."""
        self._reflector.stop()

    def _on_event(self, event: Event | ClusterError) -> None:
        # A watch that fails later does not end the waiting: the caller also polls.
        if self._starting:
            self._first.put(event)
        if isinstance(event, Event) and event.type == "DELETED":
            # If the object cannot be read now, the next poll reports it.
            with contextlib.suppress(ClusterError):
                self._report_if_gone(self._awaited[event.watched], event.object["metadata"]["uid"])

    def _report_missing(self, watched: WatchedList, awaited: dict[str, Key]) -> None:
        resource = next(iter(awaited.values())).resource
        items, _ = self._session.list_objects(resource, watched.namespace, labels=watched.labels)
        there = {item["metadata"]["uid"] for item in items}
        for uid in list(awaited):
            if uid not in there:
                self._report_if_gone(awaited, uid)

    def _report_if_gone(self, awaited: dict[str, Key], uid: str) -> None:
        """Report an object that left a list, unless it still exists: another client may have removed its label."""
        key = awaited.get(uid)
        if key is None or read_version(self._session, key, uid) is not None:
            return
        with self._lock:
            is_new = awaited.pop(uid, None) is not None
        if is_new:
            self._gone(key)


def deletion_blockers(session: Session, key: Key) -> str:
    """Return the finalizers, or the pods, that block the deletion of an object, as text; "" if unknown."""
    try:
        live = session.get(key)
    except ClusterError:
        return ""
    if live is None:
        return ""
    finalizers = [name for name in live["metadata"].get("finalizers") or [] if name != "foregroundDeletion"]
    if finalizers:
        return say(": blocked by finalizer {names}", names=finalizers)
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
            if keeping:
                return say(": its pods are still terminating: {pods} (finalizer {names})", pods=held, names=keeping)
            return say(": its pods are still terminating: {pods}", pods=held)
    return ""

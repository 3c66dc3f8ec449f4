"""Recorded writes of an apply, sent again in other namespaces to create the objects that run before a test begins.

    recordings = Recordings()
    for write in recordings.of(documents, record).writes("team-a"):
        api.call(write.method, write.path, write.body, write.content_type)

The requests are those that gpuctl sent, with its field manager, so the server cannot distinguish the two. Only the
namespace differs, and with it each object's hash.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from fault_tools.proxy import Record
from fault_tools.world import HASH, HISTORY, Object
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records, stamp

_KEYS = records(Settings())


class Write(NamedTuple):
    """A request to send."""

    method: str
    path: str
    body: Object
    content_type: str


@dataclass(frozen=True)
class Recording:
    """The writes of an apply that created everything in one namespace."""

    namespace: str
    requests: tuple[Write, ...]

    def writes(self, namespace: str) -> list[Write]:
        """The same writes for another namespace."""
        return [
            write._replace(
                path=write.path.replace(f"/namespaces/{self.namespace}/", f"/namespaces/{namespace}/"),
                body=_stamped(json.loads(json.dumps(write.body).replace(self.namespace, namespace))),
            )
            for write in self.requests
        ]

    def hashes(self, namespace: str) -> dict[tuple[str, str], str]:
        """The hash of each object in a namespace."""
        bodies = [write.body for write in self.writes(namespace)]
        return {(body["kind"], body["metadata"]["name"]): body["metadata"]["annotations"][HASH] for body in bodies}


def recording(namespace: str, done: Iterable[Record]) -> Recording:
    """The writes in a namespace among what a proxy has recorded; what all namespaces share is there afterwards."""
    requests = []
    for record in done:
        request = record.request
        if not request.is_write or f"/namespaces/{namespace}/" not in request.path:
            continue
        body = json.loads(request.body)
        if HISTORY in body["metadata"].get("labels", {}):
            continue
        if record.status != 201 or _stamped(body) != body:
            raise ValueError(
                f"{record} is not the creation of an object with its hash: it cannot be done again elsewhere"
            )
        content_type = next(value for key, value in request.headers if key.lower() == "content-type")
        requests.append(Write(request.method, request.target, body, content_type))
    return Recording(namespace, tuple(requests))


class Recordings:
    """Each document's recording, made when it is first asked for. Safe to use from several threads."""

    def __init__(self) -> None:
        self._made: dict[str, Recording] = {}
        self._lock = threading.Lock()

    def of(self, documents: str, record: Callable[[str], Recording]) -> Recording:
        """The recording of an apply of documents."""
        with self._lock:
            if documents not in self._made:
                self._made[documents] = record(documents)
            return self._made[documents]


def _stamped(body: Object) -> Object:
    """An object with the hash that gpuctl gives it; who has applied it is not part of that."""
    annotations = body["metadata"]["annotations"]
    stated = {key: value for key, value in annotations.items() if not _KEYS.is_record(key)}
    metadata = {key: value for key, value in body["metadata"].items() if key != "annotations"}
    if stated:
        metadata["annotations"] = stated
    made = stamp({**body, "metadata": metadata}, _KEYS, None)
    if _KEYS.applied_by in annotations:
        made["metadata"]["annotations"][_KEYS.applied_by] = annotations[_KEYS.applied_by]
    return made

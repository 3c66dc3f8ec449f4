"""The journal of a plan: the old objects and the new, written before the first delete, so that nothing can be lost.

It lives in Secrets (specs may hold passwords in variables) in the namespaces concerned. Progress is not written to it:
the uids in the cluster tell how far a plan came.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone

from gpuctl.backend.metadata import managed_labels
from gpuctl.cluster.connection import Connection
from gpuctl.cluster.errors import ApiError, ClusterError
from gpuctl.cluster.plan import Step
from gpuctl.cluster.records import Records
from gpuctl.cluster.resources import RESOURCES, Key, Object, key_of
from gpuctl.cluster.workload import recreatable

# A Secret may hold 1 MiB (core/v1 MaxSecretSize).
_CHUNK = 256 * 1024
_DATA = "journal"


@dataclass(frozen=True)
class Entry:
    """One object that goes away: how it was, without the server's fields, and what comes instead (None: nothing).

    ``companion_of`` is the workload it belonged to: it goes, and comes back, with that one.
    """

    uid: str
    old: Object
    new: Object | None
    method: str
    companion_of: Key | None = None

    @property
    def key(self) -> Key:
        """The old object's key."""
        return key_of(self.old)


@dataclass
class Journal:
    """The entries of one plan in one namespace, and the Secrets they are in. Incomplete: it was never finished
    writing, so nothing was deleted yet."""

    id: str
    namespace: str
    entries: list[Entry]
    complete: bool
    secrets: list[Object] = field(default_factory=list)
    written: str = ""


def entries_of(steps: Iterable[Step]) -> list[Entry]:
    """What has to be remembered of a plan."""
    result = []
    for step in steps:
        if step.is_remembered and step.live is not None:
            new = step.desired if step.action == "replace" else None
            uid = step.live["metadata"]["uid"]
            result.append(Entry(uid, recreatable(step.live), new, step.method, step.companion_of))
    return result


def write(connection: Connection, entries: Iterable[Entry], keys: Records) -> list[Journal]:
    """Write a journal of the entries, one a namespace."""
    identifier = secrets.token_hex(5)
    namespaces: dict[str, list[Entry]] = {}
    for entry in entries:
        namespaces.setdefault(entry.key.namespace, []).append(entry)
    planned = {namespace: _secrets(identifier, namespace, group, keys) for namespace, group in namespaces.items()}
    try:
        return [
            Journal(identifier, namespace, group, True, connection.each(connection.create, planned[namespace]))
            for namespace, group in namespaces.items()
        ]
    except BaseException:
        # Nothing was deleted yet. Which of them were written is not known when a create was cut off.
        for secret in (secret for group in planned.values() for secret in group):
            with contextlib.suppress(ClusterError):
                written = connection.get(key_of(secret))
                if written is not None:
                    connection.delete(key_of(secret), written["metadata"]["uid"], foreground=False)
        raise


def remove(connection: Connection, journal: Journal) -> None:
    """Take a journal away: its plan is finished. Without one of its parts it counts as never written."""
    for secret in reversed(journal.secrets):
        connection.delete(key_of(secret), secret["metadata"]["uid"], foreground=False)


def find(
    connection: Connection, keys: Records, namespaces: Iterable[str] | None, *, strict: bool = False
) -> list[Journal]:
    """The journals that are there, in some namespaces or (None) in all.

    A namespace whose Secrets may not be listed is passed over, unless ``strict``: its journals are somebody else's to
    finish.
    """
    resource = RESOURCES["Secret"]
    found: list[Object] = []
    for namespace in [None] if namespaces is None else sorted(set(namespaces)):
        try:
            found += connection.list_objects(resource, namespace, labels=keys.journal)[0]
        except ApiError as error:
            if strict or namespace is None or not error.lacks_permission:
                raise
    groups: dict[tuple[str, str], list[Object]] = {}
    for secret in found:
        metadata = secret["metadata"]
        groups.setdefault((metadata["labels"][keys.journal], metadata["namespace"]), []).append(secret)
    return [_parse(identifier, namespace, group, keys) for (identifier, namespace), group in sorted(groups.items())]


def _secrets(identifier: str, namespace: str, entries: list[Entry], keys: Records) -> list[Object]:
    values = [
        {
            "uid": entry.uid,
            "old": entry.old,
            "new": entry.new,
            "method": entry.method,
            "companionOf": list(entry.companion_of) if entry.companion_of else None,
        }
        for entry in entries
    ]
    packed = gzip.compress(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode(), 6, mtime=0)
    parts = [packed[start : start + _CHUNK] for start in range(0, len(packed), _CHUNK)]
    written = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": f"gpuctl-journal-{identifier}-{number}",
                "namespace": namespace,
                "labels": {**managed_labels(), keys.journal: identifier},
                "annotations": {
                    f"{keys.journal}-part": str(number),
                    f"{keys.journal}-parts": str(len(parts)),
                    f"{keys.journal}-written": written,
                },
            },
            "data": {_DATA: base64.b64encode(part).decode()},
        }
        for number, part in enumerate(parts, 1)
    ]


def _parse(identifier: str, namespace: str, found: list[Object], keys: Records) -> Journal:
    def number(secret: Object, name: str) -> int:
        return int(secret["metadata"]["annotations"][f"{keys.journal}-{name}"])

    try:
        found.sort(key=lambda secret: number(secret, "part"))
        if len(found) < number(found[0], "parts"):
            return Journal(identifier, namespace, [], complete=False, secrets=found)
        packed = b"".join(base64.b64decode(secret["data"][_DATA]) for secret in found)
        entries = [
            Entry(
                item["uid"],
                item["old"],
                item["new"],
                item["method"],
                Key(*item["companionOf"]) if item["companionOf"] else None,
            )
            for item in json.loads(gzip.decompress(packed))
        ]
        written = found[0]["metadata"]["annotations"].get(f"{keys.journal}-written", "")
    except (KeyError, TypeError, ValueError, OSError, EOFError) as error:
        raise ClusterError(
            f"the journal {identifier} in {namespace} is damaged ({type(error).__name__})",
            f"look at the Secrets labelled {keys.journal}={identifier}, and delete them when nothing is missing",
        ) from None
    return Journal(identifier, namespace, entries, complete=True, secrets=found, written=written)

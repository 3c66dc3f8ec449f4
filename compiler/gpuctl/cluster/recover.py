"""Finishing what a killed run left: each object that a journal remembers is the old or the new one afterwards."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterable
from concurrent import futures
from typing import NamedTuple

from gpuctl.cluster import journal as journals
from gpuctl.cluster.connection import Connection
from gpuctl.cluster.errors import ApiError, ClusterError
from gpuctl.cluster.journal import Entry, Journal
from gpuctl.cluster.lease import NAMESPACE_LEASE, abandoned, holding
from gpuctl.cluster.records import Records
from gpuctl.cluster.resources import Key, Object, annotations_of, key_of

_POLL = 0.2
_QUOTA_POLL = 1.0
_LAST_REQUESTS = 5.0
"""Seconds that an interrupted recovery waits for the requests that are under way."""


class Recovered(NamedTuple):
    """What became of one object: ``outcome`` is ``new``, ``old`` (kept or created again), ``gone`` or ``failed``."""

    key: Key
    outcome: str
    message: str


class _Interrupted(ClusterError):
    """Somebody does not want to wait any longer."""


class _Waiting:
    """How long what is going away and quotas that lag are waited for; once interrupted, no longer."""

    def __init__(self, timeout: float, tell: Callable[[str], None]) -> None:
        self.timeout = timeout
        self.tell = tell
        self.interrupted = threading.Event()

    def pause(self, seconds: float) -> None:
        """Wait a moment.

        :raises _Interrupted: the recovery is to end.
        """
        if self.interrupted.wait(seconds):
            raise _Interrupted("interrupted")


def unfinished(connection: Connection, keys: Records, namespaces: Iterable[str]) -> list[Journal]:
    """The journals in some namespaces, complete or not."""
    return journals.find(connection, keys, namespaces)


def find(connection: Connection, keys: Records, namespace: str | None) -> list[Journal]:
    """The journals of a namespace, or of all; where that is forbidden, of the context's namespace."""
    for where in dict.fromkeys((namespace, namespace or connection.namespace)):
        try:
            return journals.find(connection, keys, None if where is None else {where}, strict=True)
        except ApiError as error:
            if namespace is not None or not error.lacks_permission:
                raise
            refusal = error
    raise ClusterError(refusal.message, "say where with -n NAMESPACE")


def recover(
    connection: Connection,
    keys: Records,
    found: Iterable[Journal],
    *,
    timeout: float,
    wait: float,
    tell: Callable[[str], None],
) -> list[Recovered]:
    """Complete what can be completed, else restore; then take the journals away.

    A journal of a run that is still under way is not touched: its lease is waited for, ``wait`` seconds.

    :raises Held: the run that wrote a journal is still at work.
    """
    found = list(found)
    leases = {Key("Lease", journal.namespace, NAMESPACE_LEASE) for journal in found}
    results: list[Recovered] = []
    if not found:
        return results
    connection.patience = max(connection.patience, min(timeout, 120.0))
    with holding(connection, leases, wait, tell) as held, held.interrupts.let_through():
        # The run may have finished, and taken its journal away, while its lease was waited for.
        for journal in journals.find(connection, keys, {journal.namespace for journal in found}):
            outcome = _finish(connection, journal, _Waiting(timeout, tell))
            results += outcome
            if all(item.outcome != "failed" for item in outcome):
                journals.remove(connection, journal)
    return results


def _finish(connection: Connection, journal: Journal, waiting: _Waiting) -> list[Recovered]:
    if not journal.complete:
        return []
    main = [entry for entry in journal.entries if entry.companion_of is None]
    tasks = [connection.executor.submit(_entry, connection, entry, waiting) for entry in main]
    try:
        results = [task.result() for task in tasks]
    except BaseException:
        # Nothing goes on when the lease is given back.
        waiting.interrupted.set()
        for task in tasks:
            task.cancel()
        futures.wait(tasks, _LAST_REQUESTS)
        raise
    outcomes = {result.key: result.outcome for result in results}
    for entry in journal.entries:
        if entry.companion_of is not None:
            results.append(_companion(connection, entry, outcomes.get(entry.companion_of), waiting))
    return results


def _entry(connection: Connection, entry: Entry, waiting: _Waiting) -> Recovered:
    new = entry.new
    key = key_of(new) if new is not None else entry.key
    try:
        if key != entry.key and connection.get(key) is not None:
            return Recovered(key, "new", "the new object is there")
        live = connection.get(entry.key)
        if live is not None and live["metadata"]["uid"] == entry.uid:
            if not live["metadata"].get("deletionTimestamp"):
                return Recovered(key, "old", "was not yet deleted: the old object is there")
            _wait_until_gone(connection, entry, waiting)
        elif live is not None:
            if new is not None and annotations_of(new).items() <= annotations_of(live).items():
                return Recovered(key, "new", "the new object is there")
            return Recovered(key, "old", "had been created again")
        if new is None:
            return Recovered(key, "gone", "was deleted, as it was meant to be")
        return _create(connection, entry, new, key, waiting)
    except ClusterError as error:
        return Recovered(key, "failed", error.message)


def _create(connection: Connection, entry: Entry, new: Object, key: Key, waiting: _Waiting) -> Recovered:
    try:
        _put_up(connection, new, waiting, apply=entry.method == "apply")
    except _Interrupted:
        raise
    except ClusterError as error:
        _put_up(connection, entry.old, waiting)
        return Recovered(
            key, "old", f"the old object was created again, because the new one is refused: {error.message}"
        )
    return Recovered(key, "new", "the new object was created")


def _put_up(connection: Connection, obj: Object, waiting: _Waiting, *, apply: bool = False) -> None:
    """Create; a quota may still count what has gone."""
    deadline = time.monotonic() + waiting.timeout
    while True:
        try:
            if apply:
                connection.apply(obj)
            else:
                connection.create(obj)
            return
        except ApiError as error:
            if error.exists_already:
                return
            if not error.exceeds_quota or time.monotonic() > deadline:
                raise
        waiting.pause(_QUOTA_POLL)


def _wait_until_gone(connection: Connection, entry: Entry, waiting: _Waiting) -> None:
    deadline = time.monotonic() + waiting.timeout
    told = False
    while True:
        live = connection.get(entry.key)
        if live is None or live["metadata"]["uid"] != entry.uid:
            return
        if time.monotonic() > deadline:
            finalizers = ", ".join(live["metadata"].get("finalizers") or []) or "none"
            raise ClusterError(
                f"{entry.key} is still there after {waiting.timeout:.0f} s; its finalizers: {finalizers}"
            )
        if not told:
            told = True
            waiting.tell(f"waiting until {entry.key} is gone")
        waiting.pause(_POLL)


def _companion(connection: Connection, entry: Entry, main: str | None, waiting: _Waiting) -> Recovered:
    """What left with its workload comes back when the old workload does."""
    try:
        live = connection.get(entry.key)
        if live is not None and not live["metadata"].get("deletionTimestamp"):
            return Recovered(entry.key, "old", "was not yet deleted")
        if main != "old":
            return Recovered(entry.key, "gone", "left with the change, as it was meant to")
        _wait_until_gone(connection, entry, waiting)
        _put_up(connection, entry.old, waiting)
        return Recovered(entry.key, "old", "was created again with its workload")
    except ClusterError as error:
        return Recovered(entry.key, "failed", error.message)


def drop_leases(connection: Connection, namespace: str | None) -> None:
    """Take away the leases that killed runs left, where that is allowed: nobody has to wait for them to expire."""
    try:
        leases = abandoned(connection, namespace)
    except ApiError as error:
        if not error.lacks_permission:
            raise
        leases = abandoned(connection, connection.namespace) if namespace is None else []
    for lease in leases:
        version = lease["metadata"]["resourceVersion"]
        with contextlib.suppress(ApiError):
            connection.delete(key_of(lease), lease["metadata"]["uid"], version=version, foreground=False)


def render_json(results: Iterable[Recovered]) -> str:
    """What was recovered, as one JSON value."""
    steps = [
        {
            "kind": result.key.kind,
            "apiVersion": result.key.resource.api_version,
            "namespace": result.key.namespace,
            "name": result.key.name,
            "outcome": result.outcome,
            "message": result.message,
        }
        for result in results
    ]
    return json.dumps({"recovered": steps}, ensure_ascii=False, indent=2) + "\n"

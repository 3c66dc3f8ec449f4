"""The record of delivered events: a ConfigMap, so that each event is posted once by all replicas and after restarts.

A replica claims an event before it posts it: the write applies to the version that was read, so that one of them wins.
A claim without a result expires, and another replica tries again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.session import Session
from gpuctl.language.names import SYSTEM_NAMESPACE
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.durations import DAY
from gpuctl.objects.label_names import managed_labels
from gpuctl_server.request_log import LOG

NAME = "gpuctl-notifications"
OLDEST = DAY
"""Events that were due for longer than this are not reported, seconds. Their records are removed."""
CLAIM = 90.0
"""Seconds after which a claim expires: longer than a request may take."""
RETRIES = (30.0, 60.0, 120.0, 240.0, 480.0, 960.0, *(1800.0,) * 5)
"""Seconds from each failure to the next attempt, about 3 hours together."""
_MOST = 10_000
"""Number of events in the record: about 500 KB."""
_KEPT = 9_000
"""Number of events that stay in a full record."""
_DELIVERED = -1
_CONFLICTS = 5


class _Entry(NamedTuple):
    """The state of an event in a channel.

    :param began: see :class:`~gpuctl_server.notifications.job_events.JobEvent`.
    :param due: time from which it is reported.
    :param attempts: number of attempts; -1: delivered, or given up.
    :param until: time before which no replica tries again.
    """

    began: float
    due: float
    attempts: int
    until: float


class Claim(NamedTuple):
    """A claimed event. ``attempt`` counts from 1; ``id`` is the same for all attempts."""

    id: str
    began: float
    due: float
    attempt: int


def event_id(channel: str, key: str) -> str:
    """Return the identity of an event in a channel: 16 characters."""
    digest = hashlib.sha256(f"{channel}/{key}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:12]).decode()


class DeliveryRecord:
    """The record, with its last known state. Safe to use from several threads.

    Times are of the API server's clock, as those of events: replicas with different clocks agree.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._object: Object | None = None
        self._entries: dict[str, _Entry] = {}
        self._channels: dict[str, float] = {}

    def open(self, channels: list[str], now: float) -> None:
        """Read the record, and note the time at which a channel was first used: earlier events are not reported.

        :raises ClusterError: the record cannot be read or written.
        """
        with self._lock:
            if self._object is None:
                self._read()
            if any(name not in self._channels for name in channels):
                self._change(lambda: self._channels.update({name: self._channels.get(name, now) for name in channels}))

    def is_open(self, id: str, began: float, due: float, now: float, channel: str) -> bool:
        """Return True if an event is to be posted now, as far as the last known state says."""
        if not max(now - OLDEST, self._channels.get(channel, now)) < due <= now:
            return False
        entry = self._entries.get(id)
        if entry is None or began > entry.due:
            return True
        return entry.attempts != _DELIVERED and entry.until <= now

    def claim(self, id: str, began: float, due: float, channel: str) -> Claim | None:
        """Claim an event; None if another replica has it.

        :raises ClusterError: the record cannot be written.
        """
        with self._lock:
            attempt = 0

            def take() -> bool:
                nonlocal attempt
                now = self._session.server_time()
                if not self.is_open(id, began, due, now, channel):
                    return False
                known = self._entries.get(id)
                attempt = 1 if known is None or began > known.due else known.attempts + 1
                self._entries[id] = _Entry(began, due, attempt, now + CLAIM)
                return True

            return Claim(id, began, due, attempt) if self._change(take) else None

    def delivered(self, claim: Claim) -> None:
        """Record that an event was posted."""
        self._finish(claim, _DELIVERED, 0.0)

    def failed(self, claim: Claim) -> float | None:
        """Record a failed attempt. Return the seconds until the next one; None if there is none."""
        pause = RETRIES[claim.attempt - 1] if claim.attempt <= len(RETRIES) else None
        self._finish(
            claim, _DELIVERED if pause is None else claim.attempt, self._session.server_time() + (pause or 0.0)
        )
        return pause

    def _finish(self, claim: Claim, attempts: int, until: float) -> None:
        def put() -> bool:
            known = self._entries.get(claim.id)
            recorded = claim.attempt if known is None else known.attempts
            # Other numbers are of another replica, which has taken the event after the claim had expired.
            if recorded != claim.attempt and (attempts != _DELIVERED or recorded == _DELIVERED):
                return False
            self._entries[claim.id] = _Entry(claim.began, claim.due, attempts, until)
            return True

        with self._lock:
            self._change(put)

    def _change(self, change: Callable[[], bool | None]) -> bool:
        """Change the state and write it; read it again and repeat the change if another replica has written."""
        for left in reversed(range(_CONFLICTS)):
            before = dict(self._entries), dict(self._channels)
            if change() is False:
                return False
            self._forget(self._session.server_time())
            try:
                self._write()
            except ApiError as error:
                self._entries, self._channels = before
                if not (error.is_conflict or error.is_missing) or not left:
                    raise
                self._read()
            except BaseException:
                self._entries, self._channels = before
                raise
            else:
                return True
        return False

    def _forget(self, now: float) -> None:
        """Remove the entries of events that are too old to be reported.

        If there are very many, the oldest are too old before a day is over: with a full record, no namespace would be
        reported.
        """
        expired = now - OLDEST - CLAIM
        if len(self._entries) > _MOST:
            expired = max(expired, sorted(entry.due for entry in self._entries.values())[-_KEPT - 1])
            self._channels = {name: max(since, expired) for name, since in self._channels.items()}
            LOG.warning("too many events of jobs: those before the last %d s are not reported any more", now - expired)
        self._entries = {id: entry for id, entry in self._entries.items() if entry.due > expired}

    def _read(self) -> None:
        self._object = self._session.get(Key("ConfigMap", SYSTEM_NAMESPACE, NAME))
        data = (self._object or {}).get("data") or {}
        self._entries = {id: _Entry(*item) for id, item in _lists(data.get("events"), 4).items()}
        self._channels = {name: float(item[0]) for name, item in _lists(data.get("channels"), 1).items()}

    def _write(self) -> None:
        data = {
            "channels": _text({name: [round(since, 3)] for name, since in self._channels.items()}),
            "events": _text({id: [round(item, 3) for item in entry] for id, entry in self._entries.items()}),
        }
        if self._object is None:
            metadata = {"name": NAME, "namespace": SYSTEM_NAMESPACE, "labels": managed_labels()}
            self._object = self._session.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            )
        else:
            self._object = self._session.replace({**self._object, "data": data})


def _text(value: dict[str, list[float]]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _lists(text: str | None, length: int) -> dict[str, list[Any]]:
    """Return a JSON object of lists of numbers; entries that are something else are left out."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    items = found.items() if isinstance(found, dict) else ()
    return {
        str(name): item
        for name, item in items
        if isinstance(item, list) and len(item) == length and all(type(one) in (int, float) for one in item)
    }

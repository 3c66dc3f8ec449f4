"""Progress of trainings, read from the last lines of their logs in the background."""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from typing import NamedTuple

from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.reading.jobs.pod_selection import select_container
from gpuctl.reading.logs.log_streams import has_log
from gpuctl_server.mirror.job_board import ListedJob

FRESH = 30.0
"""Seconds until a value is read again."""
_THREADS = 4
_MOST_ASKED = 256
_MOST_KNOWN = 10_000
_TAIL = 20
_BYTES = 1_000_000
_PATIENCE = 5.0
_SAID = re.compile(
    r"(?P<percent>\d{1,3})(?:\.\d+)?%\|"
    r"|\b(?:epoch|step)[\s:]*[\[(]?\s*(?P<done>\d{1,12})\s*/\s*(?P<all>\d{1,12})\b",
    re.IGNORECASE,
)


class _Known(NamedTuple):
    percent: int | None
    at: float


class ProgressReader:
    """The last known progress of trainings. Safe to use from several threads; ``version`` grows when a value
    changes."""

    def __init__(self, connection: Connection) -> None:
        self._session = Session(connection, threads=_THREADS, patience=_PATIENCE)
        self._lock = threading.Lock()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._requested: set[str] = set()
        self.version = 0

    def stop(self) -> None:
        """Stop the threads."""
        self._session.close()

    def of(self, item: ListedJob) -> int | None:
        """Return the progress of a training, percent; None if unknown. Never waits: an old value is read in the
        background.
        """
        if item.row.identity.kind != "training":
            return None
        if item.row.state.phase == "succeeded":
            return 100
        pod = _logging_pod(item)
        if pod is None:
            return None
        uid = str(pod["metadata"]["uid"])
        with self._lock:
            known = self._known.get(uid)
            is_old = known is None or time.monotonic() > known.at + FRESH
            if is_old and uid not in self._requested and len(self._requested) < _MOST_ASKED:
                self._requested.add(uid)
                self._session.executor.submit(self._ask, uid, pod)
        return None if known is None else known.percent

    def _ask(self, uid: str, pod: Object) -> None:
        percent: int | None = None
        try:
            percent = last_percentage(self._tail(pod))
        except ClusterError:
            # Unknown until the next attempt, when this value is old.
            percent = None
        finally:
            with self._lock:
                self._requested.discard(uid)
                before = self._known.pop(uid, None)
                self._known[uid] = _Known(percent, time.monotonic())
                if len(self._known) > _MOST_KNOWN:
                    self._known.popitem(last=False)
                if (before.percent if before is not None else None) != percent:
                    self.version += 1

    def _tail(self, pod: Object) -> str:
        path = f"{RESOURCES['Pod'].path(pod['metadata']['namespace'], pod['metadata']['name'])}/log"
        query = {"container": select_container(pod, None), "tailLines": str(_TAIL), "limitBytes": str(_BYTES)}
        return self._session.text(path, query)


def last_percentage(text: str) -> int | None:
    """Return the last percentage in a log: ``65%|`` of a progress bar, ``Epoch 1/3`` or ``step 650/1000``."""
    for match in reversed(list(_SAID.finditer(text))):
        if match["percent"] is not None:
            percent = int(match["percent"])
        else:
            done, whole = int(match["done"]), int(match["all"])
            percent = done * 100 // whole if whole > 0 else 101
        if percent <= 100:
            return percent
    return None


def _logging_pod(item: ListedJob) -> Object | None:
    """Return the pod whose log has the progress: the first one by name, which has rank 0."""
    pods = [pod for pod in item.job.pods if pod["spec"].get("containers") and has_log(pod, select_container(pod, None))]

    def order(pod: Object) -> tuple[bool, str]:
        return "deletionTimestamp" in pod["metadata"], str(pod["metadata"]["name"])

    return min(pods, key=order, default=None)

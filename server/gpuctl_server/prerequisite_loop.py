"""The thread of the service that starts trainings whose prerequisites (`job.after`) are met.

Each replica of the service may run it: a patch applies to the version that was read, so that one of them releases a
training.
"""

from __future__ import annotations

import threading
import time

from gpuctl.apply.run.prerequisite_release import WaitingTraining, release, waiting_trainings
from gpuctl.kube.api_errors import ApiError, ClusterError
from gpuctl.kube.connection import Connection
from gpuctl.kube.selector_parsing import LabelSelector
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import TRAININGS, Key, Object, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl_server.mirror.field_selectors import FieldSelector
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.request_log import LOG

_PAUSE = 0.5
"""Minimum interval between two looks at the mirror, seconds."""
_NAP = 1.0
_RETRY = 60.0
"""Seconds until a training is tried again whose release was refused."""


class PrerequisiteLoop:
    """Watches the mirror, and releases trainings."""

    def __init__(self, connection: Connection, mirror: Mirror, keys: Records) -> None:
        self._connection = connection
        self._mirror = mirror
        self._keys = keys
        self._stopped = threading.Event()
        self._refused: dict[str, float] = {}
        self._thread = threading.Thread(target=self._work, daemon=True, name="gpuctl-prerequisites")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def _work(self) -> None:
        version = -1
        session = Session(self._connection, threads=1)
        while not self._stopped.is_set():
            self._mirror.wait_until_changed(self._mirror.version, _NAP)
            # Jobs alone: their versions do not change with each pod of the cluster.
            now = self._mirror.changes_of(*TRAININGS)
            if not self._mirror.listed or (now == version and not self._refused):
                continue
            version = now
            try:
                self._release(session)
            except Exception:
                # A single malformed object must not end the thread for all users.
                LOG.exception("waiting jobs could not be released")
            self._stopped.wait(_PAUSE)

    def _release(self, session: Session) -> None:
        now = time.monotonic()
        self._refused = {uid: until for uid, until in self._refused.items() if until > now}
        for training in waiting_trainings(self._trainings(), self._keys):
            uid = training.workload["metadata"]["uid"]
            if uid not in self._refused and not self._release_one(session, training):
                self._refused[uid] = now + _RETRY

    def _trainings(self) -> list[Object]:
        everything = LabelSelector(""), FieldSelector("")
        found: list[Object] = []
        for kind in sorted(TRAININGS):
            found += self._mirror.select(kind, None, *everything)
        return found

    def _release_one(self, session: Session, training: WaitingTraining) -> bool:
        """Release a training if it can start. Return False if the API server refuses it."""
        key = key_of(training.workload)
        try:
            released = release(session, training, self._keys)
        except ClusterError as error:
            hint = "; deploy/service/starting.yaml allows it" if _lacks_rights(error) else ""
            LOG.warning(
                "a job is not started though its prerequisites are met: %s%s", error.message, hint, extra=_job(key)
            )
            return False
        if released is not None:
            names = ", ".join(one.name for one in training.prerequisites)
            LOG.info("a job is started, its prerequisites are met: %s", names, extra=_job(key))
        return True


def _job(key: Key) -> dict[str, str]:
    return {"job": f"{key.namespace}/{key.name}"}


def _lacks_rights(error: ClusterError) -> bool:
    return isinstance(error, ApiError) and error.lacks_permission

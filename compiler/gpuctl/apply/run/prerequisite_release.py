"""The release of trainings whose prerequisites (`job.after`) are met. Any number of processes may do it at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from gpuctl.apply.state.live_state import OURS
from gpuctl.kube.api_errors import ApiError
from gpuctl.kube.reflector import Event, WatchedList
from gpuctl.kube.session import Session
from gpuctl.language.prerequisite_text import describe_prerequisite
from gpuctl.language.sentences import clauses
from gpuctl.objects.api_resources import TRAININGS, Key, Object, annotations_of, key_of
from gpuctl.objects.ownership_metadata import Records
from gpuctl.objects.prerequisites import Prerequisite, ends_of, is_waiting, judge, release_patch
from gpuctl.objects.timestamps import format_timestamp


class WaitingTraining(NamedTuple):
    """A training that has not been released before, and its prerequisites."""

    workload: Object
    prerequisites: list[Prerequisite]

    @property
    def unmet(self) -> str:
        """Description of the prerequisites whose end keeps it from starting; empty without any."""
        return clauses(*(describe_prerequisite(one) for one in self.prerequisites if one.state == "unmet"))

    @property
    def left(self) -> list[str]:
        """The names of the prerequisites that are not met."""
        return [one.name for one in self.prerequisites if one.state != "met"]


def waiting_trainings(trainings: Iterable[Object], keys: Records) -> list[WaitingTraining]:
    """Return the trainings that wait, among all trainings of their namespaces."""
    trainings = list(trainings)
    waiting = [obj for obj in trainings if is_waiting(obj, keys) and not obj["metadata"].get("deletionTimestamp")]
    ends = ends_of(trainings if waiting else (), keys)
    return [WaitingTraining(obj, judge(obj, ends, keys)) for obj in waiting]


class Releaser:
    """Releases the trainings of some namespaces while a run waits for them, from the events of a watch."""

    def __init__(self, session: Session, keys: Records, namespaces: Iterable[str]) -> None:
        self._session = session
        self._keys = keys
        self._namespaces = frozenset(namespaces)
        self._trainings: dict[Key, Object] = {}

    @property
    def watched(self) -> set[WatchedList]:
        """The lists whose events :meth:`note` needs."""
        return {WatchedList(kind, namespace, OURS) for kind in TRAININGS for namespace in self._namespaces}

    def note(self, event: Event) -> None:
        """Update a training from an event."""
        if event.object["kind"] not in TRAININGS:
            return
        if event.type == "DELETED":
            self._trainings.pop(key_of(event.object), None)
        else:
            self._trainings[key_of(event.object)] = event.object

    def release(self, awaited: Collection[Key]) -> dict[Key, WaitingTraining]:
        """Release the awaited trainings whose prerequisites are met. Return those that wait."""
        found = {}
        for training in waiting_trainings(self._trainings.values(), self._keys):
            key = key_of(training.workload)
            if key in awaited and release(self._session, training, self._keys) is None:
                found[key] = training
        return found


def release(session: Session, training: WaitingTraining, keys: Records) -> Object | None:
    """Release a training if its prerequisites are met, and return it as released; None if they are not.

    The patch applies to the version that was read, so that it has an effect once; another process may be faster.

    :raises ApiError: the patch is not allowed, or the API server fails.
    """
    workload = training.workload
    now = format_timestamp(session.server_time())
    patch = release_patch(workload, training.prerequisites, keys, now)
    if patch is None:
        return None
    version = {key: workload["metadata"][key] for key in ("uid", "resourceVersion")}
    try:
        changed = session.patch(key_of(workload), {**patch, "metadata": {**patch["metadata"], **version}})
    except ApiError as error:
        if error.is_conflict or error.is_missing:
            return None
        raise
    return changed if keys.released in annotations_of(changed) else None

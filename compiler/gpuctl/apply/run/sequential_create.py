"""Sequential creation of competing workloads: the next one is created when the pods of the one before exist.

``apply/plan/contested_creations.py`` decides which compete. Creating the objects in sequence is not enough: controllers
process several objects at once, and some create another object before any pod.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from gpuctl.apply.plan.plan import Step
from gpuctl.apply.state.live_state import OURS
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session
from gpuctl.objects.api_resources import Key, controller_of
from gpuctl.objects.pod_templates import pod_templates
from gpuctl.objects.workload_state import intermediate_owners, possible_owners

_PATIENCE = 3.0
"""Maximum seconds to wait for the pods of one workload: a webhook or a quota may refuse all of them."""
_TOTAL_PATIENCE = 30.0
"""Maximum seconds of all waits that ended without pods; after that workloads are created without waiting."""
_QUEUED = "CreatedWorkload"
"""Reason of Kueue's event for a workload that is now in its queue; the queue decides when its pods are created."""
_POD_REFUSED = "FailedCreate"
"""Reason of a controller's event for a pod that the API server rejected."""


@dataclass
class _Lane:
    """A group of steps in their order.

    :param left: steps that have not been started.
    :param started: the last started step; None if the next one need not wait.
    :param finished_at: the time at which that step finished, by the monotonic clock; None while it is in progress.
    """

    left: list[Step]
    started: Step | None = None
    finished_at: float | None = None


class SequentialCreation:
    """Decides which steps of a plan may run, depending on the pods of the steps before them.

    :param lanes: groups of steps that create workloads, each in its order.
    :param wake: called from a watch's thread if the next step of a group may be due.
    """

    def __init__(self, session: Session, lanes: Iterable[Sequence[Step]], wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lanes = [_Lane(list(steps)) for steps in lanes if steps]
        self._lane_of = {step.key: lane for lane in self._lanes for step in lane.left}
        self._workload_by_owner = {
            (step.key.namespace, made): step.key
            for lane in self._lanes
            for step in lane.left
            if step.desired is not None
            for made in intermediate_owners(step.desired)
        }
        self._waited_without_pods = 0.0
        self._lock = threading.Lock()
        self._pods: Counter[Key] = Counter()
        self._without_wait: set[Key] = set()
        namespaces = sorted({key.namespace for key in self._lane_of})
        watched = [WatchedList("Pod", namespace, OURS) for namespace in namespaces]
        for reason in (_QUEUED, _POD_REFUSED):
            watched += [WatchedList("Event", namespace, fields=f"reason={reason}") for namespace in namespaces]
        self._unlisted = len(watched)
        # Number of namespaces whose pods have not been listed; if the user may not list them, there is no wait.
        self._unseen = len(namespaces)
        self._listed = threading.Event()
        self._reflector = Reflector(session, watched, self._on_event)

    def start(self) -> None:
        """Start watching pods and events."""
        if self._unlisted:
            self._reflector.start()
            self._listed.wait(_PATIENCE)

    def stop(self) -> None:
        """End the watches."""
        self._reflector.stop()

    def __contains__(self, step: Step) -> bool:
        return step.key in self._lane_of

    @property
    def left(self) -> int:
        """Return the number of steps that are held back."""
        return sum(len(lane.left) for lane in self._lanes)

    @property
    def awaited(self) -> list[Key]:
        """Return the workloads whose pods are awaited."""
        waiting = [lane.started for lane in self._lanes if lane.left and lane.finished_at is not None]
        return [step.key for step in waiting if step is not None]

    def due(self, *, at_once: bool = False) -> list[Step]:
        """Return the steps to run now, each once. ``at_once``: all remaining steps."""
        result = []
        for lane in self._lanes:
            if at_once:
                result += lane.left
                lane.left = []
            elif lane.left and self._is_ready(lane):
                lane.started, lane.finished_at = lane.left.pop(0), None
                result.append(lane.started)
        return result

    def finished(self, step: Step) -> None:
        """Record that a step has run: if it created its workload, wait for the pods from now on."""
        lane = self._lane_of.get(step.key)
        if lane is not None and lane.started is step:
            lane.finished_at = time.monotonic()
            if step.result != "done":
                lane.started = None

    def _is_ready(self, lane: _Lane) -> bool:
        """Return True if the next step of a group need not wait for the one before."""
        if lane.started is None or self._unseen:
            return True
        if lane.finished_at is None:
            return False
        key = lane.started.key
        with self._lock:
            if key in self._without_wait or self._pods[key] >= _first_pods(lane.started):
                return True
        waited = time.monotonic() - lane.finished_at
        if waited < _PATIENCE and self._waited_without_pods < _TOTAL_PATIENCE:
            return False
        self._waited_without_pods += waited
        return True

    def _on_event(self, event: Event | ClusterError) -> None:
        with self._lock:
            if isinstance(event, ClusterError) or event.type == "LISTED":
                self._unlisted -= 1
                self._unseen -= isinstance(event, Event) and event.kind == "Pod"
                if not self._unlisted:
                    self._listed.set()
                    self._pods.clear()
                    self._without_wait.clear()
                return
            if event.kind == "Pod" and event.type != "ADDED":
                return
            key = self._workload_of(event)
            if key is None:
                return
            if event.kind == "Pod":
                self._pods[key] += 1
            else:
                self._without_wait.add(key)
        self._wake()

    def _workload_of(self, event: Event) -> Key | None:
        """Return the workload in sequence that an event belongs to; None for other workloads."""
        metadata = event.object["metadata"]
        named = (controller_of(event.object) if event.kind == "Pod" else event.object.get("involvedObject")) or {}
        key = Key(str(named.get("kind")), metadata["namespace"], str(named.get("name")))
        if key in self._lane_of:
            return key
        owners = ((key.namespace, one) for one in possible_owners(key.kind, key.name))
        return next((self._workload_by_owner[one] for one in owners if one in self._workload_by_owner), None)


def _first_pods(step: Step) -> int:
    """Return the number of pods that are created before any of them runs."""
    assert step.desired is not None
    if step.key.kind == "StatefulSet" and step.desired["spec"].get("podManagementPolicy") != "Parallel":
        return 1
    return sum(number for _, number in pod_templates(step.desired))

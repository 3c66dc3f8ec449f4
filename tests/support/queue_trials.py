"""Random queues on a control plane where Kueue runs: what it admits of the jobs that come."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from gpuctl.kube.configuration import open_session
from support.queue_worlds import API, QueueTrial, priorities

Object = dict[str, Any]
_GROUP = f"/apis/{API}"
_PATIENCE = 240
_TRIES = 4
"""Number of failed attempts after which a Workload that Kueue retries for ever counts as waiting."""
_METRIC = re.compile(
    r"^kueue_(pending_workloads|reserving_active_workloads|admission_attempts_total){(.*)} (\S+)$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Seen:
    """A world as Kueue left it: who was ``admitted``, and who had quota before and was stopped, though it may have been
    admitted again (``lost``)."""

    trial: QueueTrial
    snapshot: Snapshot
    admitted: set[str]
    lost: set[str]

    def answers(self) -> dict[str, Fit]:
        """Our verdicts by the names of jobs."""
        return {answer.demand.name: answer for answer in fit(self.snapshot, self.trial.coming)}


class _Queued(NamedTuple):
    """The jobs of a world that have quota, and those that Kueue had stopped or requeued at that time."""

    held: set[str]
    stopped: dict[str, str]


class _Job(NamedTuple):
    """A job's Workload: its LocalQueue, whether it has quota, and is about to lose it; ``stopped`` is when it did."""

    queue: str
    held: bool
    leaves: bool
    stopped: str


class _Counts(NamedTuple):
    """For each ClusterQueue, the numbers of Workloads that have quota, are active, and are pending, and Kueue's
    attempts.
    """

    held: dict[str, int]
    active: dict[str, int]
    waiting: dict[str, int]
    attempts: int


def run_trials(plane: ControlPlane, trials: list[QueueTrial]) -> list[Seen]:
    """Make the queues, let jobs settle, read the state, add the other jobs, and read which ones Kueue admits."""
    api = Api(plane)
    for item in priorities():
        # Earlier trials on the same control plane have made them.
        api.request("POST", f"{_GROUP}/workloadpriorityclasses", item)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda item: _build(api, item), trials))
        _await_active(api, trials)
        list(pool.map(lambda item: _submit(api, item.namespace, item.settled), trials))
        before = _quiet(plane, api, trials, {item.namespace: len(item.settled) for item in trials})
        session = open_session(kubeconfig=str(plane.kubeconfig()))
        whole = load(render(take_snapshot(session)))
        session.close()
        list(pool.map(lambda item: _submit(api, item.namespace, item.coming), trials))
        after = _quiet(plane, api, trials, {item.namespace: len(item.settled) + len(item.coming) for item in trials})
    return [_seen(item, whole, before[item.namespace], after[item.namespace]) for item in trials]


def _seen(item: QueueTrial, whole: Snapshot, before: _Queued, after: _Queued) -> Seen:
    lost = {job for job in before.held if after.stopped.get(job) != before.stopped.get(job)}
    return Seen(item, _placed(whole, item), after.held, lost)


def _placed(whole: Snapshot, item: QueueTrial) -> Snapshot:
    """Return the snapshot with enough nodes: each pod is on a node of its flavor."""
    pods = [pod for pod in whole.pods if pod["namespace"] == item.namespace]
    return replace(
        whole, nodes=item.nodes, pods=[{**pod, "node": pod["wants"]["nodeSelector"]["card"]} for pod in pods]
    )


def _build(api: Api, item: QueueTrial) -> None:
    api.create_namespace(item.namespace)
    for plural, objects in (
        ("resourceflavors", item.flavors),
        ("cohorts", item.cohorts),
        ("clusterqueues", item.cluster_queues),
        (f"namespaces/{item.namespace}/localqueues", item.local_queues),
    ):
        for obj in objects:
            api.call("POST", f"{_GROUP}/{plural}", obj)


def _await_active(api: Api, trials: list[QueueTrial]) -> None:
    """Wait until Kueue has looked at every ClusterQueue."""
    names = {obj["metadata"]["name"] for item in trials for obj in item.cluster_queues}
    began = time.monotonic()
    while names:
        for obj in api.call("GET", f"{_GROUP}/clusterqueues")["items"]:
            states = {state["type"]: state["status"] for state in (obj.get("status") or {}).get("conditions") or []}
            stopped = obj["spec"].get("stopPolicy", "None") != "None"
            if states.get("Active") == ("False" if stopped else "True"):
                names.discard(obj["metadata"]["name"])
        assert time.monotonic() - began < _PATIENCE, f"Kueue says nothing of {names}"
        time.sleep(0.2)


def _submit(api: Api, namespace: str, jobs: list[Object]) -> None:
    for job in jobs:
        api.call("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", job)


def _quiet(plane: ControlPlane, api: Api, trials: list[QueueTrial], wanted: dict[str, int]) -> dict[str, _Queued]:
    """Wait until nothing changes; return the jobs by namespace."""
    last: object = None
    since, rests = 0, False
    began = time.monotonic()
    while True:
        found = _found(api, {item.namespace for item in trials})
        counts = _counts(plane.kueue_metrics())
        moving = any(job.leaves for own in found.values() for job in own.values())
        if found != last or moving or {name: len(own) for name, own in found.items()} != wanted:
            last, since, rests, unrest = found, counts.attempts, False, "Workloads come and change"
        else:
            unrest = _unrest(counts, trials, found, since)
            # What has just been given back is counted as waiting a moment later: it has to be so twice.
            if rests and not unrest:
                return {name: _queued(own) for name, own in found.items()}
            rests = not unrest
        assert time.monotonic() - began < _PATIENCE, f"the queues do not come to rest: {unrest}"
        time.sleep(0.5)


def _found(api: Api, spaces: set[str]) -> dict[str, dict[str, _Job]]:
    found: dict[str, dict[str, _Job]] = {name: {} for name in spaces}
    for obj in api.call("GET", f"{_GROUP}/workloads")["items"]:
        conditions = (obj.get("status") or {}).get("conditions") or []
        states = {item["type"]: item["status"] for item in conditions}
        stopped = "".join(item["lastTransitionTime"] for item in conditions if item["type"] == "Evicted")
        owner = next(iter(obj["metadata"].get("ownerReferences") or []), None)
        if owner is not None and obj["metadata"]["namespace"] in spaces:
            held = states.get("QuotaReserved") == "True"
            # One that has lost its quota keeps the condition that it was evicted until it has it again.
            leaves = held and states.get("Evicted") == "True"
            job = _Job(obj["spec"].get("queueName", ""), held, leaves, stopped)
            found[obj["metadata"]["namespace"]][owner["name"]] = job
    return found


def _counts(metrics: str) -> _Counts:
    """Return Kueue's own metrics. Source: Kueue 0.19, ``pkg/metrics/metrics.go``."""
    held: dict[str, int] = {}
    active: dict[str, int] = {}
    waiting: dict[str, int] = {}
    attempts = 0
    for name, labels, value in _METRIC.findall(metrics):
        told, number = dict(_LABEL.findall(labels)), int(float(value))
        if name == "admission_attempts_total":
            attempts += number
        elif name == "reserving_active_workloads":
            held[told["cluster_queue"]] = number
        else:
            waiting[told["cluster_queue"]] = waiting.get(told["cluster_queue"], 0) + number
            active[told["cluster_queue"]] = (
                number if told["status"] == "active" else active.get(told["cluster_queue"], 0)
            )
    return _Counts(held, active, waiting, attempts)


def _unrest(counts: _Counts, trials: list[QueueTrial], found: dict[str, dict[str, _Job]], since: int) -> str:
    """Return a job that Kueue has not seen yet, or would still act on; "" if it would do nothing more.

    The head of a ClusterQueue with StrictFIFO is retried for ever while it waits: a few attempts are enough.
    """
    tries = ""
    for item in trials:
        behind = {obj["metadata"]["name"]: obj["spec"]["clusterQueue"] for obj in item.local_queues}
        for obj in item.cluster_queues:
            name = obj["metadata"]["name"]
            own = [job.held for job in found[item.namespace].values() if behind.get(job.queue) == name]
            jobs, known = (sum(own), len(own) - sum(own)), (counts.held.get(name, 0), counts.waiting.get(name, 0))
            if jobs != known:
                return f"of {name}, {jobs} jobs have quota and wait, and Kueue says {known}"
            if counts.active.get(name):
                tries = f"Kueue tries jobs of {name}"
                if obj["spec"]["queueingStrategy"] != "StrictFIFO":
                    return tries
    return tries if counts.attempts < since + _TRIES else ""


def _queued(jobs: dict[str, _Job]) -> _Queued:
    held = {name for name, job in jobs.items() if job.held}
    return _Queued(held, {name: job.stopped for name, job in jobs.items() if job.stopped})

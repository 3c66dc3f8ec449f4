"""Random queues on a control plane where Kueue runs: what it admits of the jobs that come."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit import Fit, fit
from gpuctl.capacity.snapshot import Snapshot, load, render
from gpuctl.kube.configuration import open_session
from support.queue_worlds import API, QueueTrial, priorities

Object = dict[str, Any]
_GROUP = f"/apis/{API}"
_QUIET = 4.0
_PATIENCE = 240


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
    """The jobs of a world that have quota, and of those that Kueue has stopped when that was told, or taken back."""

    held: set[str]
    stopped: dict[str, str]


def run_trials(plane: ControlPlane, trials: list[QueueTrial]) -> list[Seen]:
    """Make the queues, let jobs settle, look, let the others come, and see whom Kueue admits."""
    api = Api(plane)
    for item in priorities():
        api.call("POST", f"{_GROUP}/workloadpriorityclasses", item)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda item: _build(api, item), trials))
        _await_active(api, trials)
        list(pool.map(lambda item: _submit(api, item.namespace, item.settled), trials))
        before = _quiet(api, trials, {item.namespace: len(item.settled) for item in trials})
        session = open_session(kubeconfig=str(plane.kubeconfig()))
        whole = load(render(take_snapshot(session)))
        session.close()
        list(pool.map(lambda item: _submit(api, item.namespace, item.coming), trials))
        after = _quiet(api, trials, {item.namespace: len(item.settled) + len(item.coming) for item in trials})
    return [_seen(item, whole, before[item.namespace], after[item.namespace]) for item in trials]


def _seen(item: QueueTrial, whole: Snapshot, before: _Queued, after: _Queued) -> Seen:
    lost = {job for job in before.held if after.stopped.get(job) != before.stopped.get(job)}
    return Seen(item, _placed(whole, item), after.held, lost)


def _placed(whole: Snapshot, item: QueueTrial) -> Snapshot:
    """The snapshot as it would be with nodes for everybody: each pod on that of its flavor."""
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


def _quiet(api: Api, trials: list[QueueTrial], wanted: dict[str, int]) -> dict[str, _Queued]:
    """Wait until nothing happens any more; the jobs by namespace."""
    spaces = {item.namespace for item in trials}
    last: object = None
    since = began = time.monotonic()
    while True:
        found: dict[str, dict[str, tuple[bool, bool, str]]] = {name: {} for name in spaces}
        for obj in api.call("GET", f"{_GROUP}/workloads")["items"]:
            conditions = (obj.get("status") or {}).get("conditions") or []
            states = {item["type"]: item["status"] for item in conditions}
            stopped = "".join(item["lastTransitionTime"] for item in conditions if item["type"] == "Evicted")
            owner = next(iter(obj["metadata"].get("ownerReferences") or []), None)
            if owner is not None and obj["metadata"]["namespace"] in spaces:
                held = states.get("QuotaReserved") == "True"
                # One that has lost its quota keeps the condition that it was evicted until it has it again.
                leaves = held and states.get("Evicted") == "True"
                found[obj["metadata"]["namespace"]][owner["name"]] = (held, leaves, stopped)
        moment = time.monotonic()
        moving = any(leaves for own in found.values() for _, leaves, _ in own.values())
        if found != last or moving or {name: len(own) for name, own in found.items()} != wanted:
            last, since = found, moment
        if moment - since > _QUIET:
            return {name: _queued(own) for name, own in found.items()}
        assert moment - began < _PATIENCE, f"the queues do not come to rest: {found}"
        time.sleep(0.5)


def _queued(jobs: dict[str, tuple[bool, bool, str]]) -> _Queued:
    held = {job for job, (holds, _, _) in jobs.items() if holds}
    return _Queued(held, {job: stopped for job, (*_, stopped) in jobs.items() if stopped})

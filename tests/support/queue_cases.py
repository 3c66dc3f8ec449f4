"""Small worlds of Kueue queues, written by hand, and the answers for jobs in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.kueue.kueue_configuration import configuration_entry
from gpuctl.capacity.snapshot.kueue_entries import workload_entry
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from support.queue_worlds import GPU, QueueTrial, queue_job

Object = dict[str, Any]


def flavor(name: str = "card", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"nodeLabels": {"card": name}, **spec}}


def queue(name: str, nominal: int | dict[str, Object], **spec: Any) -> tuple[Object, Object]:
    """A ClusterQueue, and the LocalQueue of the same name in front of it."""
    amounts = {"card": {"nominalQuota": nominal}} if isinstance(nominal, int) else nominal
    flavors = [{"name": key, "resources": [{"name": GPU, **amount}]} for key, amount in amounts.items()]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    local = {"metadata": {"name": name, "namespace": "team"}, "spec": {"clusterQueue": name}}
    return {"metadata": {"name": name}, "spec": {"namespaceSelector": {}, "resourceGroups": groups, **spec}}, local


def world(
    *queues: tuple[Object, Object], flavors: tuple[Object, ...] = (), cohorts: tuple[Object, ...] = ()
) -> QueueTrial:
    return QueueTrial(
        0,
        "team",
        list(flavors or (flavor(),)),
        list(cohorts),
        [item[0] for item in queues],
        [item[1] for item in queues],
    )


def job(name: str, target: str, gpus: int, priority: str = "queue-low", **spec: Any) -> Object:
    return queue_job(name, "team", target, gpus, priority=priority, **spec)


def workload(
    name: str, target: str, gpus: int, *, priority: int = 0, since: str = "", card: str = "card", created: str = "2025"
) -> Object:
    """A Workload that has quota (``since``), or waits."""
    spec = job(name, target, gpus)["spec"]["template"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}
    metadata = {"name": f"job-{name}", "namespace": "team", "uid": name, "creationTimestamp": created}
    status: Object = {}
    if since:
        usage = {"name": "main", "flavors": {GPU: card}, "resourceUsage": {GPU: gpus}, "count": 1}
        status["admission"] = {"clusterQueue": target, "podSetAssignments": [usage]}
        status["conditions"] = [{"type": "QuotaReserved", "status": "True", "lastTransitionTime": since}]
    pod_sets = [{"name": "main", "count": 1, "template": spec}]
    body = {"queueName": target, "priority": priority, "podSets": pod_sets}
    return {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": body, "status": status}


def pod_of(name: str, priority: int = 0) -> Object:
    """The pod of a job that runs."""
    owner = {"group": "batch", "kind": "Job", "name": name}
    own = {"namespace": "team", "name": f"{name}-0", "labels": {}, "priority": priority, "requests": {GPU: "1"}}
    return {**own, "node": "card", "owner": owner}


def snapshot(trial: QueueTrial, *workloads: Object, pods: tuple[Object, ...] = ()) -> Snapshot:
    """Return the snapshot of a world with these Workloads, read back from its file."""
    found = trial.snapshot()
    lists = {**(found.kueue or {}), "workloads": [workload_entry(item) for item in workloads]}
    return load(render(replace(found, pods=list(pods), kueue=lists)))


def judged(have: Snapshot, *jobs: Object) -> dict[str, Fit]:
    return {answer.demand.name: answer for answer in fit(have, jobs)}


def verdict(have: Snapshot, *jobs: Object) -> tuple[str, bool]:
    """The verdict on the last of some jobs, and whether it is certain."""
    found = judged(have, *jobs)[jobs[-1]["metadata"]["name"]]
    return found.verdict, found.certain


def configured(have: Snapshot, text: Object, release: str = "") -> Snapshot:
    """With Kueue's Configuration and release."""
    value = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **text}
    lists = {**(have.kueue or {}), "configuration": configuration_entry(value, release)}
    return load(render(replace(have, kueue=lists)))

"""The fit of the pending pods of a snapshot: their workloads are judged like new jobs.

The pods exist already: quotas have been charged and admission has accepted them, so neither is checked again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.kueue.kueue_requests import NamespaceDefaults
from gpuctl.capacity.kueue.queued_objects import queued_objects
from gpuctl.capacity.pods.incoming_pods import waiting_spec
from gpuctl.capacity.pods.pod_deadlines import group_of
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Key, Object
from gpuctl.objects.label_names import LEADER_WORKER_SET_NAME
from gpuctl.objects.role_jobs import JOBSET_LABEL

_POD_SECURITY = "pod-security.kubernetes.io/"
_GROUP = "waiting.gpuctl/v1"
"""An invented API group, so that running pods of the same job are not treated as replaced."""
_KINDS = frozenset({"Job", "Deployment", "StatefulSet"})


_STAND_INS = {"JobSet": "Job", "LeaderWorkerSet": "StatefulSet"}
"""Kinds with several pod templates, and the kinds that stand for them."""


def fit_waiting(snapshot: Snapshot, namespace: str | None = None) -> list[Fit]:
    """Judge the pending pods by workload, sorted by descending priority.

    :param namespace: return the answers of this namespace only; pods of other namespaces still compete.
    """
    waiting = [pod for pod in snapshot.pods if "node" not in pod]
    groups: dict[tuple[Key, Hashable], list[Object]] = {}
    for pod in waiting:
        groups.setdefault((_workload_of(pod), _placement_key(pod)), []).append(pod)
    objects = [_workload(workload, pods) for (workload, _), pods in groups.items()]
    cluster = _without_waiting(snapshot, waiting)
    if snapshot.kueue is not None:
        defaults = NamespaceDefaults(snapshot.limit_ranges, snapshot.runtime_classes)
        queued, lists = queued_objects(snapshot.kueue, defaults)
        objects += queued
        cluster = replace(cluster, kueue=lists)
    found = fit(cluster, objects)
    answers = [_with_own_kind(answer) for answer in found]
    return [answer for answer in answers if namespace in (None, answer.demand.namespace)]


def _workload_of(pod: Object) -> Key:
    """Return the workload of a pod; a pod of an unknown kind of workload stands for itself."""
    owner = pod.get("owner") or {}
    jobset = (pod.get("labels") or {}).get(JOBSET_LABEL)
    if jobset and owner.get("kind") == "Job":
        return Key("JobSet", pod["namespace"], jobset)
    group = group_of(pod)
    if group is not None:
        return Key("LeaderWorkerSet", *group[:2])
    if owner.get("kind") in _KINDS:
        return Key(owner["kind"], pod["namespace"], owner["name"])
    return Key("Pod", pod["namespace"], pod["name"])


def _placement_key(pod: Object) -> Hashable:
    """Return a value that is equal for pods that may go to the same nodes."""
    names = ("requests", "wants", "priority", "priorityClass", "hostPorts", "antiAffinity", "claims", "deviceClaims")
    return _hashable([pod.get(name) for name in (*names, "hasDeadline")])


def _hashable(value: Any) -> Hashable:
    """Return a hashable copy of a value. Its text would not do: different hidden names have the same text."""
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    found: Hashable = value
    return found


def _workload(workload: Key, pods: list[Object]) -> Object:
    """Return an object that creates such pods. A JobSet is represented by a Job, a LeaderWorkerSet by a StatefulSet."""
    first = pods[0]
    spec = {**waiting_spec(first), "priorityClassName": _class_of(first)}
    metadata = {"namespace": workload.namespace, "name": workload.name}
    labels = first.get("labels") or {}
    if workload.kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": labels}, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    kind = _STAND_INS.get(workload.kind, workload.kind)
    count = {"parallelism": len(pods)} if kind == "Job" else {"replicas": len(pods)}
    return {"apiVersion": _GROUP, "kind": kind, "metadata": metadata, "spec": {**count, "template": template}}


def _class_of(pod: Object) -> str:
    """Return the name of an invented class with the pod's priority: its own may be unreadable or may have changed."""
    return f"{pod.get('priorityClass', '')}={pod.get('priority', 0)}"


def _without_waiting(snapshot: Snapshot, waiting: list[Object]) -> Snapshot:
    """Return the snapshot without the pending pods, and without quotas, LimitRanges and Pod Security levels."""
    out = {id(pod) for pod in waiting}
    known = {item["name"]: item for item in snapshot.priority_classes}
    ranked = {
        _class_of(pod): {
            **known.get(pod.get("priorityClass", ""), {}),
            "name": _class_of(pod),
            "value": pod.get("priority", 0),
            "globalDefault": False,
        }
        for pod in waiting
    }
    return replace(
        snapshot,
        pods=[_grouped(pod) for pod in snapshot.pods if id(pod) not in out],
        namespaces=[_without_pod_security(item) for item in snapshot.namespaces],
        priority_classes=[*snapshot.priority_classes, *ranked.values()],
        quotas=[],
        limit_ranges=[],
    )


def _grouped(pod: Object) -> Object:
    """Return a pod whose owner has an API group; older snapshots lack it."""
    return {**pod, "owner": {"group": "", **pod["owner"]}} if pod.get("owner") else pod


def _without_pod_security(namespace: Object) -> Object:
    labels = {key: value for key, value in (namespace.get("labels") or {}).items() if not key.startswith(_POD_SECURITY)}
    return {**{key: value for key, value in namespace.items() if key != "deleting"}, "labels": labels}


def _with_own_kind(answer: Fit) -> Fit:
    """Return the answer with the workload's own kind."""
    demand = answer.demand
    for kind, label in (("JobSet", JOBSET_LABEL), ("LeaderWorkerSet", LEADER_WORKER_SET_NAME)):
        labelled = any(group.incoming.pod.labels.get(label) == demand.name for group, _ in demand.groups)
        if labelled and demand.kind == _STAND_INS[kind]:
            return replace(answer, demand=demand._replace(kind=kind))
    return answer

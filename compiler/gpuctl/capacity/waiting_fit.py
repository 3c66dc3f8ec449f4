"""Whether the pods that wait in a snapshot find room: judged as jobs that come would be, with what is theirs already.

Their pods exist: quotas count them, and admission has let them through. Neither is asked a second time.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, NamedTuple

from gpuctl.capacity.incoming_pods import waiting_spec
from gpuctl.capacity.job_fit import Fit, fit
from gpuctl.capacity.kueue_requests import NamespaceDefaults
from gpuctl.capacity.queued_objects import queued_objects
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Object

_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_POD_SECURITY = "pod-security.kubernetes.io/"
_GROUP = "waiting.gpuctl/v1"
"""An API group that no workload has: pods of the same job that run already are not given back."""
_KINDS = frozenset({"Job", "Deployment", "StatefulSet"})


class _Whose(NamedTuple):
    """The workload that pods belong to; one of a kind that is not known is a pod by itself."""

    kind: str
    namespace: str
    name: str


def fit_waiting(snapshot: Snapshot, namespace: str | None = None) -> list[Fit]:
    """Judge the pods that wait for a node, by their workloads, those with the highest priority first.

    :param namespace: whose answers are wanted; the others wait all the same, and may come first.
    """
    waiting = [pod for pod in snapshot.pods if "node" not in pod]
    groups: dict[tuple[_Whose, Hashable], list[Object]] = {}
    for pod in waiting:
        groups.setdefault((_whose(pod), _kind(pod)), []).append(pod)
    objects = [_workload(whose, pods) for (whose, _), pods in groups.items()]
    cluster = _without_waiting(snapshot, waiting)
    if snapshot.kueue is not None:
        defaults = NamespaceDefaults(snapshot.limit_ranges, snapshot.runtime_classes)
        queued, lists = queued_objects(snapshot.kueue, defaults)
        objects += queued
        cluster = replace(cluster, kueue=lists)
    found = fit(cluster, objects)
    answers = [_as_it_is(answer) for answer in found]
    return [answer for answer in answers if namespace in (None, answer.demand.namespace)]


def _whose(pod: Object) -> _Whose:
    owner = pod.get("owner") or {}
    jobset = (pod.get("labels") or {}).get(_JOBSET_LABEL)
    if jobset and owner.get("kind") == "Job":
        return _Whose("JobSet", pod["namespace"], jobset)
    if owner.get("kind") in _KINDS:
        return _Whose(owner["kind"], pod["namespace"], owner["name"])
    return _Whose("Pod", pod["namespace"], pod["name"])


def _kind(pod: Object) -> Hashable:
    """Pods with the same of this go to the same nodes."""
    names = ("requests", "wants", "priority", "priorityClass", "hostPorts", "antiAffinity", "claims", "hasDeadline")
    return _hashable([pod.get(name) for name in names])


def _hashable(value: Any) -> Hashable:
    """Return a value to compare by. Its text would not do: hidden names read alike."""
    if isinstance(value, dict):
        return tuple(sorted((key, _hashable(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(map(_hashable, value))
    found: Hashable = value
    return found


def _workload(whose: _Whose, pods: list[Object]) -> Object:
    """An object that makes such pods: a JobSet's are a Job's here."""
    first = pods[0]
    spec = {**waiting_spec(first), "priorityClassName": _class_of(first)}
    metadata = {"namespace": whose.namespace, "name": whose.name}
    labels = first.get("labels") or {}
    if whose.kind == "Pod":
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "labels": labels}, "spec": spec}
    template = {"metadata": {"labels": labels}, "spec": spec}
    kind = "Job" if whose.kind == "JobSet" else whose.kind
    count = {"parallelism": len(pods)} if kind == "Job" else {"replicas": len(pods)}
    return {"apiVersion": _GROUP, "kind": kind, "metadata": metadata, "spec": {**count, "template": template}}


def _class_of(pod: Object) -> str:
    """A class of the pod's priority: its own may not be readable, or may have another value by now."""
    return f"{pod.get('priorityClass', '')}={pod.get('priority', 0)}"


def _without_waiting(snapshot: Snapshot, waiting: list[Object]) -> Snapshot:
    """The cluster without the pods that wait, and without what admission has done with them."""
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
        namespaces=[_open(item) for item in snapshot.namespaces],
        priority_classes=[*snapshot.priority_classes, *ranked.values()],
        quotas=[],
        limit_ranges=[],
    )


def _grouped(pod: Object) -> Object:
    """A pod whose owner has an API group, also where an older snapshot left it out."""
    return {**pod, "owner": {"group": "", **pod["owner"]}} if pod.get("owner") else pod


def _open(namespace: Object) -> Object:
    labels = {key: value for key, value in (namespace.get("labels") or {}).items() if not key.startswith(_POD_SECURITY)}
    return {**{key: value for key, value in namespace.items() if key != "deleting"}, "labels": labels}


def _as_it_is(answer: Fit) -> Fit:
    """The answer with the workload's own kind."""
    demand = answer.demand
    jobset = demand.kind == "Job" and any(
        group.incoming.pod.labels.get(_JOBSET_LABEL) == demand.name for group, _ in demand.groups
    )
    return replace(answer, demand=demand._replace(kind="JobSet")) if jobset else answer

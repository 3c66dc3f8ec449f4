"""Random queues of Kueue with jobs that hold quota, and others that come: as objects of a cluster, and as a snapshot."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from gpuctl.capacity.snapshot.kueue_entries import (
    cluster_queue_entry,
    cohort_entry,
    flavor_entry,
    local_queue_entry,
    queue_priority_entry,
)
from gpuctl.capacity.snapshot.snapshot_document import Snapshot

Object = dict[str, Any]
API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
RANKS = {"queue-low": 0, "queue-medium": 100, "queue-high": 200}
_PREEMPTS = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
_RECLAIMS = ("Never", "LowerPriority", "Any")


@dataclass
class QueueTrial:
    """The objects of one world: ``settled`` are jobs that are there, in this order, ``coming`` come together then."""

    seed: int
    namespace: str
    flavors: list[Object] = field(default_factory=list)
    cohorts: list[Object] = field(default_factory=list)
    cluster_queues: list[Object] = field(default_factory=list)
    local_queues: list[Object] = field(default_factory=list)
    settled: list[Object] = field(default_factory=list)
    coming: list[Object] = field(default_factory=list)

    @property
    def nodes(self) -> list[Object]:
        """Return the nodes of a snapshot with room for all pods in each flavor."""
        room = {"cpu": "100000", "memory": "100Ti", "pods": "10000", GPU: "10000"}
        return [
            {
                "name": item["metadata"]["name"],
                "labels": item["spec"]["nodeLabels"],
                "taints": item["spec"].get("nodeTaints", []),
                "allocatable": room,
            }
            for item in self.flavors
        ]

    def snapshot(self) -> Snapshot:
        """Return the world before any job is submitted."""
        lists = {
            "workloads": [],
            "localqueues": list(map(local_queue_entry, self.local_queues)),
            "clusterqueues": list(map(cluster_queue_entry, self.cluster_queues)),
            "cohorts": list(map(cohort_entry, self.cohorts)),
            "resourceflavors": list(map(flavor_entry, self.flavors)),
            "workloadpriorityclasses": list(map(queue_priority_entry, priorities())),
        }
        spaces = [{"name": self.namespace, "labels": {"kubernetes.io/metadata.name": self.namespace}}]
        return Snapshot("2026-01-01T00:00:00Z", self.nodes, [], namespaces=spaces, kueue=lists)


def priorities() -> list[Object]:
    """The WorkloadPriorityClasses of all worlds."""
    kind = {"apiVersion": API, "kind": "WorkloadPriorityClass"}
    return [{**kind, "metadata": {"name": name}, "value": value} for name, value in RANKS.items()]


def queue_job(
    name: str, namespace: str, queue: str, gpus: int, pods: int = 1, priority: str = "queue-low", **spec: Any
) -> Object:
    """A Job whose pods never end."""
    labels = {"kueue.x-k8s.io/queue-name": queue, "kueue.x-k8s.io/priority-class": priority}
    resources = {"requests": {GPU: gpus}, "limits": {GPU: gpus}}
    container = {"name": "main", "image": "none", "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **spec}}
    body = {"parallelism": pods, "completions": pods, "template": template}
    metadata = {"name": name, "namespace": namespace, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def queue_trial(seed: int) -> QueueTrial:
    """A world with one to six ClusterQueues in no cohort, in one, or in a tree of them."""
    rng = random.Random(seed)
    found = QueueTrial(seed, f"queues-{seed}")
    flavors = [f"flavor-{seed}-{letter}" for letter in "abc"[: rng.choice((1, 1, 2, 3))]]
    for name in flavors:
        spec: Object = {"nodeLabels": {"card": name}}
        if len(flavors) > 1 and rng.random() < 0.25:
            spec["nodeTaints"] = [{"key": "reserved", "value": name, "effect": "NoSchedule"}]
            if rng.random() < 0.5:
                spec["tolerations"] = [{"key": "reserved", "operator": "Exists"}]
        found.flavors.append({"apiVersion": API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec})
    parents = _cohorts(rng, found, flavors)
    for number, parent in enumerate(parents):
        name = f"queue-{seed}-{number}"
        found.cluster_queues.append(_cluster_queue(rng, name, parent, flavors))
        metadata = {"name": f"team-{number}", "namespace": found.namespace}
        spec = {"clusterQueue": name if rng.random() < 0.97 else f"{name}-absent"}
        found.local_queues.append({"apiVersion": API, "kind": "LocalQueue", "metadata": metadata, "spec": spec})
    settled, coming = rng.randrange(4, 26), rng.randrange(4, 24)
    for number in range(settled + coming):
        target = found.settled if number < settled else found.coming
        target.append(_job(rng, f"job-{number:02d}", found, flavors))
    return found


def lone_job_trial(seed: int) -> QueueTrial:
    """Such a world where only the most important of the jobs comes: most answers for it are certain."""
    found = queue_trial(seed)
    found.coming = [max(found.coming, key=_importance)]
    return found


def _importance(job: Object) -> tuple[int, str]:
    metadata = job["metadata"]
    return RANKS[metadata["labels"]["kueue.x-k8s.io/priority-class"]], metadata["name"]


def _cohorts(rng: random.Random, found: QueueTrial, flavors: list[str]) -> list[str]:
    """The cohorts; the cohort of each ClusterQueue, "" for none."""
    kind = rng.choice(("alone", "flat", "flat", "flat", "deep", "deep"))
    if kind == "alone":
        return [""] * rng.randrange(1, 3)
    root = f"lab-{found.seed}"
    if kind == "flat":
        return [root] * rng.randrange(2, 5)
    parts = [f"{root}-{letter}" for letter in "xy"]
    for name in parts:
        found.cohorts.append(_cohort(name, {"parentName": root, **_own_quota(rng, flavors, 0.4)}))
    if rng.random() < 0.5:
        found.cohorts.append(_cohort(root, _own_quota(rng, flavors, 1.0, limits=False)))
    return [rng.choice((*parts, *parts, root)) for _ in range(rng.randrange(3, 7))]


def _cohort(name: str, spec: Object) -> Object:
    return {"apiVersion": API, "kind": "Cohort", "metadata": {"name": name}, "spec": spec}


def _own_quota(rng: random.Random, flavors: list[str], chance: float, *, limits: bool = True) -> Object:
    if rng.random() >= chance:
        return {}
    return {"resourceGroups": [_group(rng, flavors, limits=limits)]}


def _group(rng: random.Random, flavors: list[str], *, limits: bool) -> Object:
    quotas = []
    for flavor in flavors:
        nominal = rng.choice((0, 2, 3, 4, 6, 8))
        item: Object = {"name": GPU, "nominalQuota": str(nominal)}
        if limits and rng.random() < 0.3:
            item["borrowingLimit"] = str(rng.randrange(0, 5))
        if limits and rng.random() < 0.3:
            item["lendingLimit"] = str(rng.randrange(0, nominal + 1))
        quotas.append({"name": flavor, "resources": [item]})
    return {"coveredResources": [GPU], "flavors": quotas}


def _cluster_queue(rng: random.Random, name: str, parent: str, flavors: list[str]) -> Object:
    mine = rng.sample(flavors, rng.randrange(1, len(flavors) + 1))
    spec: Object = {
        "namespaceSelector": {},
        "resourceGroups": [_group(rng, mine, limits=bool(parent))],
        "queueingStrategy": "StrictFIFO" if rng.random() < 0.3 else "BestEffortFIFO",
    }
    preemption: Object = {"withinClusterQueue": rng.choice(_PREEMPTS)}
    if parent:
        spec["cohortName"] = parent
        preemption["reclaimWithinCohort"] = rng.choice(_RECLAIMS)
        if preemption["reclaimWithinCohort"] != "Never" and rng.random() < 0.4:
            preemption["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if rng.random() < 0.5:
                preemption["borrowWithinCohort"]["maxPriorityThreshold"] = rng.choice((0, 100))
    if rng.random() < 0.75:
        spec["preemption"] = preemption
    if rng.random() < 0.5:
        stops = ("MayStopSearch", "TryNextFlavor")
        spec["flavorFungibility"] = {"whenCanBorrow": rng.choice(stops), "whenCanPreempt": rng.choice(stops)}
    if rng.random() < 0.04:
        spec["stopPolicy"] = "Hold"
    if rng.random() < 0.04:
        spec["namespaceSelector"] = {"matchLabels": {"who": "others"}}
    return {"apiVersion": API, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def _job(rng: random.Random, name: str, found: QueueTrial, flavors: list[str]) -> Object:
    spec: Object = {}
    if rng.random() < 0.15:
        spec["nodeSelector"] = {"card": rng.choice(flavors)}
    if rng.random() < 0.3:
        spec["tolerations"] = [{"key": "reserved", "operator": "Exists"}]
    queue = rng.choice(found.local_queues)["metadata"]["name"]
    gpus, pods = rng.choice((1, 1, 1, 2, 2, 3, 4, 5)), rng.choice((1, 1, 1, 1, 2))
    return queue_job(name, found.namespace, queue, gpus, pods, rng.choice(list(RANKS)), **spec)

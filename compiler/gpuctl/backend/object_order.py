"""The order of emission and application: objects that others need come first."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object

# kind -> rank, with the reason for its place.
RANKS: dict[str, int] = {
    "CustomResourceDefinition": 0,  # its objects are rejected without it
    "Namespace": 10,  # contains all namespaced objects
    "PriorityClass": 20,  # a pod that names an absent one is rejected
    "WorkloadPriorityClass": 21,  # Kueue does not process a job that names an absent one
    "ResourceFlavor": 22,  # a ClusterQueue with an absent one admits nothing
    "ClusterQueue": 23,
    "LocalQueue": 24,
    "ResourceQuota": 30,  # limits must hold before the first pod
    "LimitRange": 31,
    "Node": 40,  # labels that pods select on
    "ConfigMap": 50,  # mounted by pods
    "Secret": 51,
    "PersistentVolume": 60,
    "PersistentVolumeClaim": 61,
    "ResourceClaimTemplate": 62,  # a pod's claims are created from it
    "Service": 70,  # its variables reach only pods that start later
    "PodDisruptionBudget": 71,  # limits evictions from the first pod on
    "Job": 80,
    "Deployment": 81,
    "StatefulSet": 82,
    "JobSet": 83,
    "CronJob": 84,
    "LeaderWorkerSet": 85,
    "HorizontalPodAutoscaler": 90,  # scales an existing workload
    "ScaledObject": 91,
    "HTTPRoute": 92,  # sends requests to a Service
    "Ingress": 93,
}
_LAST = 100


_WORKLOADS = range(RANKS["Job"], RANKS["HorizontalPodAutoscaler"])


def rank_of(kind: str) -> int:
    """Return the rank of a kind for creation; unknown kinds come last."""
    return RANKS.get(kind, _LAST)


def deletion_rank(kind: str) -> int:
    """Return the rank for deletion: workloads of all kinds first, then their autoscalers, then what they need.

    A job that cannot be deleted thus keeps the objects around it.
    """
    rank = rank_of(kind)
    return 0 if rank in _WORKLOADS else _LAST - rank // 10 * 10


def sort_key(obj: Object) -> tuple[int, str, str, str]:
    """Return the sort key: rank, namespace, name and kind. The order does not depend on that of the documents."""
    metadata = obj["metadata"]
    return (rank_of(obj["kind"]), metadata.get("namespace", ""), metadata["name"], obj["kind"])

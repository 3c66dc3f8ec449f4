"""Order of emission, which is the order of application: what others need comes first."""

from __future__ import annotations

from gpuctl.objects.api_resources import Object

# kind -> rank, with the reason for its place.
RANKS: dict[str, int] = {
    "CustomResourceDefinition": 0,  # its objects are refused without it
    "Namespace": 10,  # everything namespaced lives in one
    "PriorityClass": 20,  # a pod that names an absent one is refused
    "ResourceQuota": 30,  # limits hold before the first pod
    "LimitRange": 31,
    "Node": 40,  # labels that pods select on
    "ConfigMap": 50,  # mounted by pods
    "Secret": 51,
    "PersistentVolume": 60,
    "PersistentVolumeClaim": 61,
    "Service": 70,  # its variables reach only pods that start later
    "Job": 80,
    "Deployment": 81,
    "StatefulSet": 82,
    "JobSet": 83,
    "HorizontalPodAutoscaler": 90,  # scales a workload that exists
}
_LAST = 100


_WORKLOADS = range(RANKS["Job"], RANKS["HorizontalPodAutoscaler"])


def deletion_rank(kind: str) -> int:
    """In which order objects are deleted: workloads of all kinds first, then what scales them, then what they need.

    So a job that cannot be deleted keeps what stands around it.
    """
    rank = RANKS.get(kind, _LAST)
    return 0 if rank in _WORKLOADS else _LAST - rank // 10 * 10


def sort_key(obj: Object) -> tuple[int, str, str, str]:
    """Rank, then namespace, name and kind: one order whatever the order of the documents."""
    metadata = obj["metadata"]
    return (RANKS.get(obj["kind"], _LAST), metadata.get("namespace", ""), metadata["name"], obj["kind"])

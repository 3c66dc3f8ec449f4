"""The API resources that gpuctl works with, and their paths."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

Object = dict[str, Any]


class Resource(NamedTuple):
    """An API resource. ``plural`` is its name in paths and RBAC rules."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def title(self) -> str:
        """Name as printed by kubectl: ``deployment.apps``, ``service``."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    @property
    def group_kind(self) -> str:
        """Name as in kubectl's annotations: ``Deployment.apps``, ``Service``."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Return its path on the server; without a namespace, that of all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if self.namespaced and namespace is not None:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name is not None:
            parts.append(quote(name, safe=""))
        return "/".join(parts)


_TABLE = (
    Resource("", "v1", "namespaces", "Namespace", namespaced=False),
    Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue"),
    Resource("kueue.x-k8s.io", "v1beta2", "cohorts", "Cohort", namespaced=False),
    Resource("kueue.x-k8s.io", "v1beta2", "workloads", "Workload"),
    Resource("", "v1", "nodes", "Node", namespaced=False),
    Resource("", "v1", "resourcequotas", "ResourceQuota"),
    Resource("", "v1", "limitranges", "LimitRange"),
    Resource("", "v1", "configmaps", "ConfigMap"),
    Resource("", "v1", "secrets", "Secret"),
    Resource("", "v1", "pods", "Pod"),
    Resource("", "v1", "events", "Event"),
    Resource("", "v1", "services", "Service"),
    Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False),
    Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Resource("batch", "v1", "jobs", "Job"),
    Resource("batch", "v1", "cronjobs", "CronJob"),
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress"),
    Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute"),
    Resource("keda.sh", "v1alpha1", "scaledobjects", "ScaledObject"),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False),
)
RESOURCES: dict[str, Resource] = {resource.kind: resource for resource in _TABLE}
"""Kind -> resource. Kinds are unique among the objects that gpuctl emits."""

CLAIM = "PersistentVolumeClaim"
CREATED_ONCE = frozenset({"PriorityClass", "WorkloadPriorityClass", "ResourceFlavor"})
"""Kinds of which gpuctl creates an object that is missing, and changes none: administrators may add to them."""
SHARED_KINDS = frozenset({"Namespace", "Node", CLAIM, *CREATED_ONCE})
"""Kinds whose objects several documents need; they are read by name, and never pruned."""
WORKLOADS = ("Job", "Deployment", "StatefulSet", "JobSet", "CronJob", "LeaderWorkerSet")
"""Kinds of a job's main object, which runs its pods."""
POSTED = frozenset({"Job", "Deployment", "StatefulSet", "JobSet", "LeaderWorkerSet"})
"""Workloads that are created by POST, and changed by deleting and creating them again. Others are applied."""

DEVICE_KINDS = ("DeviceClass", "ResourceSlice", "ResourceClaim")
"""Kinds from which devices of drivers (DRA) are counted, in the order of reading."""
QUOTA_QUEUES = ("LocalQueue", "ClusterQueue")
"""Kinds of Kueue that a quota becomes, in the order of deletion."""
QUEUE_KINDS = (*QUOTA_QUEUES, "Cohort", "Workload")
"""Kinds from which Kueue's queues and their jobs are read."""
QUOTA_KINDS = ("ResourceQuota", "LimitRange", *QUOTA_QUEUES)
"""Kinds that a quota becomes, without those that it shares with others."""
OPTIONAL = frozenset(
    {
        "JobSet",
        "LeaderWorkerSet",
        "CronJob",
        "PodDisruptionBudget",
        "Ingress",
        "HTTPRoute",
        "ScaledObject",
        "ResourceClaimTemplate",
        *QUOTA_QUEUES,
    }
)
"""Kinds that exist only if their controller is installed, or that roles of earlier versions of gpuctl do not list."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""Label that puts a workload into a Kueue queue."""
QUEUE_PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
"""Label with which a workload names its WorkloadPriorityClass."""
TRAININGS = frozenset({"Job", "JobSet"})
"""Kinds of one run of a training."""
TRAINING_FORMS = TRAININGS | {"CronJob"}
"""Kinds of a training's main object."""
SERVICES = frozenset({"Deployment", "StatefulSet", "LeaderWorkerSet"})
"""Kinds of the jobs that run until they are stopped."""
FORMS = (TRAINING_FORMS, frozenset({"Deployment", "LeaderWorkerSet"}))
"""Kinds that are forms of one job: a training's, and an inference's on one node or several."""
ROUTES = frozenset({"HTTPRoute", "Ingress"})
"""Kinds of the route to a service, one of which the platform chooses."""
DEFAULT_QUEUE = "default"
"""Queue of jobs that name none, if it exists in their namespace."""


_DOTS = (".", "..")


class Key(NamedTuple):
    """Identifies an object: kind, namespace ("" for cluster-scoped ones), name."""

    kind: str
    namespace: str
    name: str

    @property
    def resource(self) -> Resource:
        return RESOURCES[self.kind]

    @property
    def is_possible(self) -> bool:
        """False if no object can have this name: as a path segment, `..` and the like address another resource.

        Source: ``apimachinery/pkg/api/validation/path/name.go``, IsValidPathSegmentName.
        """
        return self.name not in ("", *_DOTS) and self.namespace not in _DOTS and not set("/%") & set(self.name)

    @property
    def path(self) -> str:
        return self.resource.path(self.namespace or None, self.name)

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.title}/{self.name}{where}"


def is_other_form(kind: str, other: str) -> bool:
    """Return True if a job can change from one kind to the other."""
    return kind != other and any({kind, other} <= forms for forms in FORMS)


def forms_of(key: Key) -> list[Key]:
    """Return the keys that a job's main object may have in its forms, with the given one first."""
    return [key, *(key._replace(kind=kind) for kind in WORKLOADS if is_other_form(kind, key.kind))]


def key_of(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(obj["kind"], metadata.get("namespace") or "", metadata["name"])


def annotations_of(obj: Object) -> dict[str, str]:
    """Return an object's annotations; empty if it has none."""
    return obj["metadata"].get("annotations") or {}


def identity_of_shared(obj: Object) -> Any:
    """Return the part of an object of :data:`CREATED_ONCE` that has to be as documents state it."""
    if obj["kind"] == "ResourceFlavor":
        return (obj.get("spec") or {}).get("nodeLabels") or {}
    # Administrators may change the value of Kueue's class.
    return obj.get("value") if obj["kind"] == "PriorityClass" else None


def controller_of(obj: Object) -> Object | None:
    """Return the owner reference of an object's controller, None without one. An object has at most one controller."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def controller_uid(obj: Object) -> str | None:
    """Return the uid of an object's controller, None without one."""
    return (controller_of(obj) or {}).get("uid")


def labels_of(obj: Object) -> dict[str, str]:
    """Return an object's labels; empty if it has none."""
    return obj["metadata"].get("labels") or {}

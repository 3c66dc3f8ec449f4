"""The API's resources that gpuctl works with: kind -> where it lives."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

Object = dict[str, Any]


class Resource(NamedTuple):
    """A resource of the API: ``plural`` is its name in paths and RBAC rules."""

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
        """As kubectl prints it: ``deployment.apps``, ``service``."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    @property
    def group_kind(self) -> str:
        """``Deployment.apps``, ``Service``: kubectl's form in annotations."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    def path(self, namespace: str | None = None, name: str | None = None) -> str:
        """Its path on the server; without a namespace of a namespaced resource, in all namespaces."""
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
    Resource("apps", "v1", "deployments", "Deployment"),
    Resource("apps", "v1", "statefulsets", "StatefulSet"),
    Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
    Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Resource("coordination.k8s.io", "v1", "leases", "Lease"),
    Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False),
    Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False),
    Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim"),
    Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"),
    Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False),
)
RESOURCES: dict[str, Resource] = {resource.kind: resource for resource in _TABLE}
"""Kind -> resource. Kinds are unique among what gpuctl yields."""

WORKLOADS = ("Job", "Deployment", "StatefulSet", "JobSet")
"""Kinds that run pods: changed by deleting and creating again."""

DEVICE_KINDS = ("DeviceClass", "ResourceSlice", "ResourceClaim")
"""What devices of drivers (DRA) are counted from, in the order in which it is read."""
OPTIONAL = frozenset({"JobSet"})
"""Kinds that exist only where something is installed."""

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
"""The label that puts a workload into one of Kueue's queues."""
TRAININGS = frozenset({"Job", "JobSet"})
"""The kinds of a training."""
DEFAULT_QUEUE = "default"
"""The queue of trainings that name none, where their namespace has it."""


_DOTS = (".", "..")


class Key(NamedTuple):
    """Which object: kind, namespace ("" at cluster scope), name."""

    kind: str
    namespace: str
    name: str

    @property
    def resource(self) -> Resource:
        """The resource of its kind."""
        return RESOURCES[self.kind]

    @property
    def is_possible(self) -> bool:
        """Whether anything can be called so: as a part of a path `..` and the like mean another resource.

        Source: ``apimachinery/pkg/api/validation/path/name.go``, IsValidPathSegmentName.
        """
        return self.name not in ("", *_DOTS) and self.namespace not in _DOTS and not set("/%") & set(self.name)

    @property
    def path(self) -> str:
        """Its path on the server."""
        return self.resource.path(self.namespace or None, self.name)

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.resource.title}/{self.name}{where}"


def key_of(obj: Object) -> Key:
    """The key of an object."""
    metadata = obj["metadata"]
    return Key(obj["kind"], metadata.get("namespace") or "", metadata["name"])


def annotations_of(obj: Object) -> dict[str, str]:
    """An object's annotations, which may be absent."""
    return obj["metadata"].get("annotations") or {}


def controller_of(obj: Object) -> Object | None:
    """The owner that controls an object, of which there is one at most; others may be anybody's."""
    owners = obj["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def labels_of(obj: Object) -> dict[str, str]:
    """An object's labels, which may be absent."""
    return obj["metadata"].get("labels") or {}

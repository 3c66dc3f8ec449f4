"""Objects that jobs share: created when missing or updated in place, never pruned or deleted with a job."""

from __future__ import annotations

from gpuctl.backend.lowering_context import Context
from gpuctl.backend.object_metadata import metadata
from gpuctl.language.names import KUBERNETES_NAMESPACES, SYSTEM_NAMESPACE
from gpuctl.language.settings import PriorityClass
from gpuctl.objects.api_resources import RESOURCES, Object
from gpuctl.objects.label_names import managed_labels

_API_VERSIONS = {"PriorityClass": "scheduling.k8s.io/v1", "Namespace": "v1", "Node": "v1"}


def shared_annotations(context: Context) -> dict[str, str]:
    """Return the annotation of a shared object, for readers of rendered files."""
    return {context.label("shared"): "true"}


def priority_class(context: Context, level: str) -> Object:
    """Return the PriorityClass of a priority."""
    priority: PriorityClass = context.settings.priorities[level]
    how = "evicts less urgent pods" if priority.preempts else "never evicts other pods"
    return {
        "apiVersion": _API_VERSIONS["PriorityClass"],
        "kind": "PriorityClass",
        "metadata": metadata(priority.class_name, None, managed_labels(), shared_annotations(context)),
        "value": priority.value,
        "preemptionPolicy": "PreemptLowerPriority" if priority.preempts else "Never",
        "description": f"gpuctl jobs of {level} priority; {how}.",
    }


def workload_priority_class(context: Context, level: str) -> Object:
    """Return Kueue's class of a priority, with the name and the value of its PriorityClass."""
    priority = context.settings.priorities[level]
    return {
        "apiVersion": RESOURCES["WorkloadPriorityClass"].api_version,
        "kind": "WorkloadPriorityClass",
        "metadata": metadata(priority.class_name, None, managed_labels(), shared_annotations(context)),
        "value": priority.value,
        "description": f"gpuctl jobs of {level} priority in Kueue queues.",
    }


def namespace(context: Context, name: str) -> Object | None:
    """Return a Namespace; None for one that every cluster has."""
    if name in KUBERNETES_NAMESPACES:
        return None
    return {
        "apiVersion": _API_VERSIONS["Namespace"],
        "kind": "Namespace",
        "metadata": metadata(name, None, managed_labels(), shared_annotations(context)),
    }


def system_namespace(context: Context) -> Object:
    """Return the namespace of the platform's own objects."""
    result = namespace(context, SYSTEM_NAMESPACE)
    assert result is not None, "not one of the namespaces that every cluster has"
    return result

"""Kueue's own configuration, as far as it affects jobs in queues.

Source: Kueue 0.15, ``apis/config``, ``pkg/workload/workload.go`` (dropExcludedResources, applyResourceTransformations),
``pkg/scheduler/scheduler.go`` (PodsReadyForAllAdmittedWorkloads).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuctl.capacity.scheduler_model import Units
from gpuctl.objects.api_resources import Object

CONFIGURATION = "configuration"
"""Its key among Kueue's lists in a snapshot."""
ASSUMED_DEFAULTS = (
    "Kueue's configuration (ConfigMap kueue-manager-config in kueue-system) could not be read; its defaults are "
    "assumed: no waitForPodsReady.blockAdmission, no excluded or transformed resources, jobs without queue not managed"
)
NAME_LABEL = "kubernetes.io/metadata.name"
"""A label that every namespace has, with its name as value."""
_FRAMEWORKS = {"Job": "batch/job", "JobSet": "jobset.x-k8s.io/jobset"}


class KueueConfiguration(NamedTuple):
    """The settings of Kueue that affect admission.

    - ``blocks_admission``: no job is admitted while pods of admitted jobs are not ready.
    - ``excluded``: prefixes of resources that do not count; ``transformed``: resources that are counted as others.
    - ``holds_all``: jobs without a queue are suspended, too.
    - ``namespaces``: selector of the managed namespaces; ``frameworks``: the managed kinds, None if unknown.
    - ``orders_by_creation``: a job that has timed out keeps its place in the queue.
    """

    blocks_admission: bool = False
    excluded: tuple[str, ...] = ()
    transformed: frozenset[str] = frozenset()
    holds_all: bool = False
    namespaces: Mapping[str, Any] = {}
    frameworks: tuple[str, ...] | None = None
    orders_by_creation: bool = False

    def counted(self, requests: Units) -> Units:
        """Return the requests of a pod without excluded resources."""
        return {name: amount for name, amount in requests.items() if not name.startswith(self.excluded)}

    def transforms(self, names: Iterable[str]) -> list[str]:
        """Return those of some resources that are counted as others."""
        return sorted(name for name in self.transformed.intersection(names) if not name.startswith(self.excluded))

    def manages(self, kind: str) -> bool:
        """Return True if Kueue manages a kind of training."""
        return self.frameworks is None or _FRAMEWORKS[kind] in self.frameworks

    def created(self, workload: Object) -> str:
        """Return the time that orders a Workload in its queue. Source: GetQueueOrderTimestamp."""
        return str(workload.get("first", workload["created"]) if self.orders_by_creation else workload["created"])


def _outside(*names: str) -> Object:
    return {"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": list(names)}]}


_MANAGED = _outside("kube-system", "kueue-system")


def kueue_configuration(lists: Object) -> KueueConfiguration:
    """Return the configuration in a snapshot's Kueue lists, or the defaults if it is missing."""
    found = lists.get(CONFIGURATION) or {}
    return KueueConfiguration(
        found.get("blockAdmission", False),
        tuple(found.get("excludeResourcePrefixes", ())),
        frozenset(found.get("transformedResources", ())),
        found.get("manageJobsWithoutQueueName", False),
        found.get("managedNamespaces", _MANAGED),
        tuple(found["frameworks"]) if "frameworks" in found else None,
        found.get("ordersByCreation", False),
    )


def configuration_entry(value: object) -> Object | None:
    """Return the snapshot entry of a Configuration, or None if the value is not one."""
    if not isinstance(value, dict) or value.get("kind") != "Configuration":
        return None
    waits, resources = value.get("waitForPodsReady") or {}, value.get("resources") or {}
    integrations = value.get("integrations") or {}
    if not all(isinstance(item, dict) for item in (waits, resources, integrations)):
        return None
    requeuing = waits.get("requeuingStrategy")
    requeuing = requeuing if isinstance(requeuing, dict) else {}
    # v1beta1 has ``enable``, and blocks by default. In v1beta2 the field's presence enables it, and it does not block
    # by default.
    is_old = str(value.get("apiVersion", "")).endswith("/v1beta1")
    enabled = waits.get("enable") is True if is_old else bool(waits)
    blocks = waits.get("blockAdmission")
    inputs = [item.get("input") for item in _list(resources.get("transformations")) if isinstance(item, dict)]
    return {
        "blockAdmission": enabled and (is_old if blocks is None else blocks is True),
        "excludeResourcePrefixes": [str(item) for item in _list(resources.get("excludeResourcePrefixes"))],
        "transformedResources": [str(item) for item in inputs],
        "manageJobsWithoutQueueName": value.get("manageJobsWithoutQueueName") is True,
        "managedNamespaces": _managed(value),
        "frameworks": [str(item) for item in _list(integrations.get("frameworks"))] or [_FRAMEWORKS["Job"]],
        "ordersByCreation": enabled and requeuing.get("timestamp") == "Creation",
    }


def _managed(value: Object) -> Object:
    """Return the selector of the managed namespaces. Source: ``apis/config``, SetDefaults_Configuration."""
    found = value.get("managedJobsNamespaceSelector")
    if isinstance(found, dict):
        return {key: found[key] for key in ("matchLabels", "matchExpressions") if found.get(key)}
    own = value.get("namespace")
    return _MANAGED if own is None else _outside("kube-system", str(own))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []

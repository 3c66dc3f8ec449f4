"""What Kueue's own configuration decides about jobs in its queues.

Source: Kueue 0.15, ``apis/config``, ``pkg/workload/workload.go`` (dropExcludedResources, applyResourceTransformations),
``pkg/scheduler/scheduler.go`` (PodsReadyForAllAdmittedWorkloads).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuctl.capacity.scheduler_model import Units
from gpuctl.objects.api_resources import Object

CONFIGURATION = "configuration"
"""Where a snapshot has it among Kueue's lists."""
ASSUMED_DEFAULTS = (
    "Kueue's configuration (ConfigMap kueue-manager-config in kueue-system) could not be read; its defaults are "
    "assumed: no waitForPodsReady.blockAdmission, no resource left out or transformed, jobs without a queue left alone"
)
NAME_LABEL = "kubernetes.io/metadata.name"
"""A label with its name that every namespace has."""
_FRAMEWORKS = {"Job": "batch/job", "JobSet": "jobset.x-k8s.io/jobset"}


class KueueConfiguration(NamedTuple):
    """``blocks``: nobody is admitted while pods of those admitted before are not ready. ``excluded`` are prefixes of
    resources that count for nothing, ``transformed`` resources that others are counted for. ``holds_all``: jobs that
    name no queue are suspended, too. ``namespaces`` selects those whose jobs it manages, ``frameworks`` are the kinds
    that it manages (None: not known). ``by_creation``: who has timed out does not go to the end of its queue.
    """

    blocks: bool = False
    excluded: tuple[str, ...] = ()
    transformed: frozenset[str] = frozenset()
    holds_all: bool = False
    namespaces: Mapping[str, Any] = {}
    frameworks: tuple[str, ...] | None = None
    by_creation: bool = False

    def counted(self, requests: Units) -> Units:
        """What counts of what a pod requests."""
        return {name: amount for name, amount in requests.items() if not name.startswith(self.excluded)}

    def transforms(self, names: Iterable[str]) -> list[str]:
        """Those of some resources for which others are counted."""
        return sorted(name for name in self.transformed.intersection(names) if not name.startswith(self.excluded))

    def manages(self, kind: str) -> bool:
        """Whether it looks at the objects of a kind of training at all."""
        return self.frameworks is None or _FRAMEWORKS[kind] in self.frameworks

    def created(self, workload: Object) -> str:
        """The time by which a Workload of a snapshot stands in its queue. Source: GetQueueOrderTimestamp."""
        return str(workload.get("first", workload["created"]) if self.by_creation else workload["created"])


def _outside(*names: str) -> Object:
    return {"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": list(names)}]}


_MANAGED = _outside("kube-system", "kueue-system")


def kueue_configuration(lists: Object) -> KueueConfiguration:
    """The configuration among Kueue's lists in a snapshot; its defaults where there is none."""
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
    """What a snapshot keeps of a Configuration; None of what is none."""
    if not isinstance(value, dict) or value.get("kind") != "Configuration":
        return None
    waits, resources = value.get("waitForPodsReady") or {}, value.get("resources") or {}
    integrations = value.get("integrations") or {}
    if not all(isinstance(item, dict) for item in (waits, resources, integrations)):
        return None
    requeuing = waits.get("requeuingStrategy")
    requeuing = requeuing if isinstance(requeuing, dict) else {}
    # In v1beta1 it has to be enabled, and blocks by default; in v1beta2 it is enabled by being there, and does not.
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
    """The selector of the namespaces whose jobs Kueue manages. Source: ``apis/config``, SetDefaults_Configuration."""
    found = value.get("managedJobsNamespaceSelector")
    if isinstance(found, dict):
        return {key: found[key] for key in ("matchLabels", "matchExpressions") if found.get(key)}
    own = value.get("namespace")
    return _MANAGED if own is None else _outside("kube-system", str(own))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []

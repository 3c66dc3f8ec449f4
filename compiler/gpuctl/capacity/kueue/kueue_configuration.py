"""Kueue's own configuration, as far as it affects jobs in queues.

Source: Kueue 0.19, ``apis/config``, ``pkg/workload/workload.go`` (dropExcludedResources, applyResourceTransformations),
``pkg/scheduler/scheduler.go`` (PodsReadyForAllAdmittedWorkloads).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from gpuctl.capacity.scheduler.scheduler_model import Units
from gpuctl.language.sentences import Template
from gpuctl.objects.api_resources import Object

CONFIGURATION = "configuration"
"""The key of the configuration among Kueue's lists in a snapshot."""
ASSUMED_DEFAULTS = Template(
    "Kueue's configuration (ConfigMap kueue-manager-config in kueue-system) could not be read; its defaults are "
    "assumed: no waitForPodsReady.blockAdmission, no excluded or transformed resources, jobs without queue not managed"
)
NAME_LABEL = "kubernetes.io/metadata.name"
"""A label that every namespace has, with its name as value."""
_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})", re.ASCII)
Release = tuple[int, ...]
OWN_LABELS: tuple[Release, ...] = ((0, 17, 6), (0, 18, 2), (0, 19, 0))
"""Releases, one a minor version, since which a flavor's labels alone decide which node selectors it is compared with.
Before, the labels of all flavors of its resource group did.
"""
PREFERENCE: tuple[Release, ...] = ((0, 16, 2), (0, 17, 0))
"""Releases since which the values of ``flavorFungibility.preference`` are no longer swapped."""
CLAIMS = "KueueDRAIntegration"
"""Feature gate: claims of devices (DRA) count. ``EXTENDED_RESOURCES``: so do extended resources of a DeviceClass.
``REJECTION``: jobs with claims are not admitted while claims do not count.
"""
EXTENDED_RESOURCES = "KueueDRAIntegrationExtendedResource"
REJECTION = "KueueDRARejectWorkloadsWhenDRADisabled"
TOPOLOGY = "TopologyAwareScheduling"
"""Feature gate: jobs can ask for a topology."""
_GATES = (CLAIMS, EXTENDED_RESOURCES, REJECTION, TOPOLOGY)
_ON_SINCE: Mapping[str, tuple[Release, ...]] = {
    CLAIMS: ((0, 18, 0),),
    EXTENDED_RESOURCES: ((0, 19, 0),),
    TOPOLOGY: ((0, 14, 0),),
}
FRAMEWORKS = {
    "Job": "batch/job",
    "JobSet": "jobset.x-k8s.io/jobset",
    # Its runs are Jobs.
    "CronJob": "batch/job",
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
}
"""The name of each kind of workload in ``integrations.frameworks``."""


class KueueConfiguration(NamedTuple):
    """The settings of Kueue that affect admission.

    - ``blocks_admission``: no job is admitted while pods of admitted jobs are not ready.
    - ``excluded``: prefixes of resources that do not count; ``transformed``: resources that are counted as others.
    - ``holds_all``: jobs without a queue are suspended, too.
    - ``namespaces``: selector of the managed namespaces; ``frameworks``: the managed kinds, None if unknown.
    - ``orders_by_creation``: a job that has timed out keeps its place in the queue.
    - ``ignores_undeclared``: resources without quota in the ClusterQueue do not count.
    - ``release``: of Kueue; None if unknown.
    - ``device_classes``: DeviceClass -> the resource with which its devices count (DRA); ``measured_classes``: those
      that count by counters or capacities of the devices.
    - ``gates``: the feature gates that it states. Those of the command line are unknown.
    - ``is_read``: False if it could not be read, and defaults are assumed.
    """

    blocks_admission: bool = False
    excluded: tuple[str, ...] = ()
    transformed: frozenset[str] = frozenset()
    holds_all: bool = False
    namespaces: Mapping[str, Any] = {}
    frameworks: tuple[str, ...] | None = None
    orders_by_creation: bool = False
    ignores_undeclared: bool = False
    release: Release | None = None
    device_classes: Mapping[str, str] = {}
    measured_classes: frozenset[str] = frozenset()
    gates: Mapping[str, bool] = {}
    is_read: bool = False

    def has(self, since: Iterable[Release]) -> bool | None:
        """Return True if Kueue has a change that came with these releases, one a minor version; None if unknown."""
        if self.release is None:
            return None
        found = next((first for first in since if first[:2] == self.release[:2]), max(since))
        return self.release >= found

    def has_default_gate(self, gate: str) -> bool | None:
        """Return True if a feature gate is on by default; None if the release is unknown."""
        return self.has(_ON_SINCE[gate])

    def is_enabled(self, gate: str) -> bool | None:
        """Return True if a feature gate is on; None if that is unknown."""
        return self.gates.get(gate, self.has_default_gate(gate))

    def counted(self, requests: Units) -> Units:
        """Return the requests of a pod without excluded resources."""
        return {name: amount for name, amount in requests.items() if not name.startswith(self.excluded)}

    def quota_requests(self, requests: Units, covered: Collection[str]) -> Units:
        """Return the requests that need quota in a ClusterQueue that covers these resources.

        Other resources need it too, unless nothing is requested of them or undeclared resources are ignored.
        """
        undeclared = () if self.ignores_undeclared else (name for name, amount in requests.items() if amount)
        limited = {*covered, *undeclared}
        return {name: amount for name, amount in requests.items() if name in limited}

    def transforms(self, names: Iterable[str]) -> list[str]:
        """Return those of some resources that are counted as others."""
        return sorted(name for name in self.transformed.intersection(names) if not name.startswith(self.excluded))

    def manages(self, kind: str) -> bool:
        """Return True if Kueue manages a kind of workload."""
        return self.frameworks is None or FRAMEWORKS[kind] in self.frameworks

    def created(self, workload: Object) -> str:
        """Return the time that orders a Workload in its queue. Source: GetQueueOrderTimestamp."""
        return str(workload.get("first", workload["created"]) if self.orders_by_creation else workload["created"])


def _outside(*names: str) -> Object:
    return {"matchExpressions": [{"key": NAME_LABEL, "operator": "NotIn", "values": list(names)}]}


_MANAGED = _outside("kube-system", "kueue-system")


def kueue_configuration(lists: Object) -> KueueConfiguration:
    """Return the configuration in a snapshot's Kueue lists, or the defaults if it is missing."""
    found = lists.get(CONFIGURATION) or {}
    number = _RELEASE.match(found.get("release", ""))
    return KueueConfiguration(
        found.get("blockAdmission", False),
        tuple(found.get("excludeResourcePrefixes", ())),
        frozenset(found.get("transformedResources", ())),
        found.get("manageJobsWithoutQueueName", False),
        found.get("managedNamespaces", _MANAGED),
        tuple(found["frameworks"]) if "frameworks" in found else None,
        found.get("ordersByCreation", False),
        found.get("ignoresUndeclared", False),
        tuple(map(int, number.groups())) if number else None,
        found.get("deviceClasses", {}),
        frozenset(found.get("measuredClasses", ())),
        found.get("gates", {}),
        CONFIGURATION in lists,
    )


def configuration_entry(value: object, release: str = "") -> Object | None:
    """Return the snapshot entry of a Configuration, or None if the value is not one.

    :param release: of Kueue, such as ``v0.19.2``; "" if unknown.
    """
    if not isinstance(value, dict) or value.get("kind") != "Configuration":
        return None
    waits, resources = value.get("waitForPodsReady") or {}, value.get("resources") or {}
    integrations, gates = value.get("integrations") or {}, value.get("featureGates") or {}
    if not all(isinstance(item, dict) for item in (waits, resources, integrations, gates)):
        return None
    requeuing = waits.get("requeuingStrategy")
    requeuing = requeuing if isinstance(requeuing, dict) else {}
    # v1beta1 has ``enable``, and blocks by default. In v1beta2 the field's presence enables it, and it does not block
    # by default.
    is_old = str(value.get("apiVersion", "")).endswith("/v1beta1")
    enabled = waits.get("enable") is True if is_old else bool(waits)
    blocks = waits.get("blockAdmission")
    ignores = resources.get("quotaCheckStrategy") == "IgnoreUndeclared" and gates.get("QuotaCheckStrategy") is not False
    stated = {name: gates[name] for name in _GATES if isinstance(gates.get(name), bool)}
    inputs = [item.get("input") for item in _list(resources.get("transformations")) if isinstance(item, dict)]
    return {
        "blockAdmission": enabled and (is_old if blocks is None else blocks is True),
        "excludeResourcePrefixes": [str(item) for item in _list(resources.get("excludeResourcePrefixes"))],
        "transformedResources": [str(item) for item in inputs],
        "manageJobsWithoutQueueName": value.get("manageJobsWithoutQueueName") is True,
        "managedNamespaces": _managed(value),
        "frameworks": [str(item) for item in _list(integrations.get("frameworks"))] or [FRAMEWORKS["Job"]],
        "ordersByCreation": enabled and requeuing.get("timestamp") == "Creation",
        **({"ignoresUndeclared": True} if ignores else {}),
        **({"release": release} if release else {}),
        **_mapped_devices(resources),
        **({"gates": stated} if stated else {}),
    }


def _mapped_devices(resources: Object) -> Object:
    """Return the DeviceClasses that count, and those that count by their devices. The first mapping of a class counts.

    Source: ``pkg/dra/mapper.go``, PopulateFromConfiguration.
    """
    classes: dict[str, str] = {}
    measured: dict[str, None] = {}
    for mapping in _list(resources.get("deviceClassMappings")):
        if isinstance(mapping, dict):
            for name in map(str, _list(mapping.get("deviceClassNames"))):
                classes.setdefault(name, str(mapping.get("name")))
                measured.update({name: None} if mapping.get("sources") else {})
    found: Object = {"deviceClasses": classes} if classes else {}
    return {**found, "measuredClasses": list(measured)} if measured else found


def _managed(value: Object) -> Object:
    """Return the selector of the managed namespaces. Source: ``apis/config``, SetDefaults_Configuration."""
    found = value.get("managedJobsNamespaceSelector")
    if isinstance(found, dict):
        return {key: found[key] for key in ("matchLabels", "matchExpressions") if found.get(key)}
    own = value.get("namespace")
    return _MANAGED if own is None else _outside("kube-system", str(own))


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []

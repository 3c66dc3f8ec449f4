"""What Kueue's own configuration decides about jobs in its queues.

Source: Kueue 0.15, ``apis/config``, ``pkg/workload/workload.go`` (dropExcludedResources, applyResourceTransformations),
``pkg/scheduler/scheduler.go`` (PodsReadyForAllAdmittedWorkloads).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpuctl.backend.api_resources import Object
from gpuctl.capacity.seats import Units

CONFIGURATION = "configuration"
"""Where a snapshot has it among Kueue's lists."""
ASSUMED = (
    "Kueue's configuration (ConfigMap kueue-manager-config in kueue-system) could not be read; its defaults are "
    "assumed: no waitForPodsReady.blockAdmission, no resource left out or transformed, jobs without a queue left alone"
)


class QueueConfiguration(NamedTuple):
    """``blocks``: nobody is admitted while pods of those admitted before are not ready. ``excluded`` are prefixes of
    resources that count for nothing, ``transformed`` resources that others are counted for. ``holds_all``: jobs that
    name no queue are suspended, too.
    """

    blocks: bool = False
    excluded: tuple[str, ...] = ()
    transformed: frozenset[str] = frozenset()
    holds_all: bool = False

    def counted(self, requests: Units) -> Units:
        """What counts of what a pod requests."""
        return {name: amount for name, amount in requests.items() if not name.startswith(self.excluded)}

    def transforms(self, names: Iterable[str]) -> list[str]:
        """Those of some resources for which others are counted."""
        return sorted(name for name in self.transformed.intersection(names) if not name.startswith(self.excluded))


def queue_configuration(lists: Object) -> QueueConfiguration:
    """The configuration among Kueue's lists in a snapshot; its defaults where there is none."""
    found = lists.get(CONFIGURATION) or {}
    return QueueConfiguration(
        found.get("blockAdmission", False),
        tuple(found.get("excludeResourcePrefixes", ())),
        frozenset(found.get("transformedResources", ())),
        found.get("manageJobsWithoutQueueName", False),
    )


def counted_configuration(value: object) -> Object | None:
    """What a snapshot keeps of a Configuration; None of what is none."""
    if not isinstance(value, dict) or value.get("kind") != "Configuration":
        return None
    waits, resources = value.get("waitForPodsReady") or {}, value.get("resources") or {}
    if not isinstance(waits, dict) or not isinstance(resources, dict):
        return None
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
    }


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []

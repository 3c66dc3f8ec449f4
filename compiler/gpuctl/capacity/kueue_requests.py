"""What Kueue counts of the pods of its Workloads: like the scheduler, except that requests of nothing count, too.

Source: Kueue 0.15, ``pkg/workload`` (totalRequestsFromPodSets, AdjustResources), ``pkg/resources/requests.go``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping

from gpuctl.capacity.kueue_configuration import KueueConfiguration
from gpuctl.capacity.limit_ranges import add_defaults
from gpuctl.capacity.pod_requests import Amounts, amounts, pod_requests
from gpuctl.capacity.scheduler_model import Units
from gpuctl.objects.api_resources import Object


class NamespaceDefaults:
    """What is added to pods that is not in a Workload's spec: a LimitRange's defaults, a RuntimeClass's overhead."""

    def __init__(self, limit_ranges: Iterable[Object], runtime_classes: Iterable[Object]) -> None:
        self._ranges: dict[str, list[Object]] = {}
        for entry in limit_ranges:
            self._ranges.setdefault(entry["namespace"], []).append(entry)
        self._overheads: Mapping[str, Object] = {
            item["name"]: item["overhead"] for item in runtime_classes if item.get("overhead")
        }

    def ranges(self, namespace: str) -> list[Object]:
        """The LimitRanges of a namespace."""
        return self._ranges.get(namespace, [])

    def added(self, spec: Object, namespace: str) -> Object:
        """A pod's spec with them."""
        spec = copy.deepcopy(spec)
        add_defaults(spec, self.ranges(namespace))
        overhead = self._overheads.get(spec.get("runtimeClassName") or "")
        return {**spec, "overhead": overhead} if overhead and not spec.get("overhead") else spec


def kueue_units(found: Amounts) -> Units:
    """Amounts as Kueue counts them. Source: NewRequests."""
    return {name: math.ceil(amount * 1000 if name == "cpu" else amount) for name, amount in found.items()}


def times(requests: Units, count: int) -> Units:
    """What so many pods request."""
    return {name: amount * count for name, amount in requests.items()}


def waiting_requests(
    part: Object, namespace: str, defaults: NamespaceDefaults, configuration: KueueConfiguration
) -> Units:
    """What a pod set of a Workload asks for in all. Kueue has written it down where it has looked at it."""
    if "sums" in part:
        return kueue_units(amounts(part["sums"]))
    own = part.get("spec")
    each = amounts(part["pod"]["requests"]) if own is None else pod_requests(defaults.added(own, namespace))
    return times(configuration.counted(kueue_units(each)), part["count"])

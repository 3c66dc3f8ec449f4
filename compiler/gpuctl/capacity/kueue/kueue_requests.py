"""Requests of Workloads as Kueue counts them: like the scheduler, but requests of 0 count, too.

Source: Kueue 0.19, ``pkg/workload`` (totalRequestsFromPodSets, AdjustResources), ``pkg/resources/requests.go``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping

from gpuctl.capacity.admission.limit_ranges import add_defaults
from gpuctl.capacity.kueue.cohorts import FlavorResource
from gpuctl.capacity.kueue.kueue_configuration import KueueConfiguration
from gpuctl.capacity.scheduler.scheduler_model import Units, units
from gpuctl.capacity.snapshot.pod_requests import Amounts, amounts, pod_requests
from gpuctl.objects.api_resources import Object


class NamespaceDefaults:
    """The additions to pods that are not in a Workload's spec: defaults of LimitRanges, overhead of RuntimeClasses."""

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
        """Return a pod's spec with the defaults and the overhead."""
        spec = copy.deepcopy(spec)
        add_defaults(spec, self.ranges(namespace))
        overhead = self._overheads.get(spec.get("runtimeClassName") or "")
        return {**spec, "overhead": overhead} if overhead and not spec.get("overhead") else spec


def kueue_units(found: Amounts) -> Units:
    """Convert amounts to the scheduler's units, keeping zero amounts. Source: NewRequests."""
    return {name: math.ceil(amount * 1000 if name == "cpu" else amount) for name, amount in found.items()}


def total_requests(requests: Units, count: int) -> Units:
    """Return the requests of a number of pods."""
    return {name: amount * count for name, amount in requests.items()}


def waiting_requests(
    part: Object, namespace: str, defaults: NamespaceDefaults, configuration: KueueConfiguration
) -> Units:
    """Return the total requests of a Workload's pod set: the recorded sum, or the sum of its pods."""
    if "sums" in part:
        return kueue_units(amounts(part["sums"]))
    own = part.get("spec")
    each = amounts(part["pod"]["requests"]) if own is None else pod_requests(defaults.added(own, namespace))
    return total_requests(configuration.counted(kueue_units(each)), part["count"])


def held_quota(admission: Object) -> dict[FlavorResource, int]:
    """Return the quota of an admission, without the share of ended pods.

    Source: ``pkg/workload/workload.go``, totalRequestsFromAdmission.
    """
    held: dict[FlavorResource, int] = {}
    for item in admission["podSets"]:
        count, ended = item["count"], min(item.get("ended", 0), item["count"])
        for resource, amount in units(amounts(item["resourceUsage"])).items():
            slot = FlavorResource(item["flavors"].get(resource, ""), resource)
            left = amount // count * (count - ended) if ended else amount
            held[slot] = held.get(slot, 0) + left
    return held

"""Quotas, cohorts and requests in the objects of Kueue.

Source: Kueue 0.19, ``pkg/workload/workload.go`` (totalRequestsFromPodSets, totalRequestsFromAdmission).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from gpuctl.capacity.scheduler.scheduler_model import amount_of, units
from gpuctl.capacity.snapshot.pod_requests import Amounts, pod_requests
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import quantity, sum_by_key

ZERO = Fraction(0)


class FlavorResource(NamedTuple):
    """A resource of a flavor: the unit in which Kueue gives quota."""

    flavor: str
    resource: str


class FlavorQuota(NamedTuple):
    """The quota of a flavor resource, in the units of :func:`gpuctl.capacity.scheduler.scheduler_model.units`.

    A limit of None means unlimited borrowing or lending.
    """

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


def reserved_quota(obj: Object) -> dict[FlavorResource, int]:
    """Return the quota that the Workloads of a ClusterQueue or LocalQueue have reserved, from its status."""
    return {
        FlavorResource(flavor["name"], item["name"]): _units(item["name"], item.get("total")) or 0
        for flavor in (obj.get("status") or {}).get("flavorsReservation") or []
        for item in flavor.get("resources") or []
    }


def flavor_quotas(obj: Object) -> dict[FlavorResource, FlavorQuota]:
    """Return the quotas in the spec of a ClusterQueue or Cohort, in the order in which Kueue tries flavors."""
    return {
        FlavorResource(flavor["name"], item["name"]): FlavorQuota(
            _units(item["name"], item.get("nominalQuota")) or 0,
            _units(item["name"], item.get("borrowingLimit")),
            _units(item["name"], item.get("lendingLimit")),
        )
        for group in (obj.get("spec") or {}).get("resourceGroups") or []
        for flavor in group.get("flavors") or []
        for item in flavor.get("resources") or []
    }


def _units(resource: str, value: str | int | None) -> int | None:
    return None if value is None else units({resource: quantity(value)}).get(resource, 0)


def cohort_of(obj: Object) -> str:
    """Return the cohort of a ClusterQueue, "" for none. The field is ``cohort`` in v1beta1."""
    spec = obj.get("spec") or {}
    return str(spec.get("cohortName") or spec.get("cohort") or "")


def parent_of(cohort: Object) -> str:
    """Return the parent of a Cohort, "" for none. The field is ``parent`` in v1beta1."""
    spec = cohort.get("spec") or {}
    return str(spec.get("parentName") or spec.get("parent") or "")


def ancestor_cohorts(name: str, cohorts: Mapping[str, Object]) -> set[str]:
    """Return a cohort and its ancestors. Cohorts with a common ancestor can lend each other quota."""
    found: set[str] = set()
    while name and name not in found:
        found.add(name)
        name = parent_of(cohorts.get(name, {}))
    return found


def requested_amounts(workload: Object) -> Amounts:
    """Return the total that a Workload requests or has reserved."""
    total = sum_by_key(requested_by_pod_sets(workload))
    return {resource: value for resource, value in total.items() if value}


def requested_by_pod_sets(workload: Object) -> Iterator[Amounts]:
    """Yield what each pod set requests or has reserved, without the share of pods that have ended for good.

    Kueue records the sums when it examines a Workload (:func:`has_recorded_requests`). Before that, the pods' requests
    count.
    """
    status = workload.get("status") or {}
    ended = {item["name"]: int(item["count"]) for item in status.get("reclaimablePods") or []}
    told = {item["name"]: item.get("resources") or {} for item in status.get("resourceRequests") or []}
    has = {item.get("name", "main"): item for item in (status.get("admission") or {}).get("podSetAssignments") or []}
    for pods in (workload.get("spec") or {}).get("podSets") or []:
        name, count = pods.get("name", "main"), int(pods.get("count", 1))
        left = max(0, count - ended.get(name, 0))
        if name in has:
            admitted = int(has[name].get("count") or count)
            share = Fraction(left, admitted) if left < admitted else 1
            usage = has[name].get("resourceUsage") or {}
            yield {resource: quantity(value) * share for resource, value in usage.items()}
        elif name in told:
            yield {resource: quantity(value) for resource, value in told[name].items()}
        else:
            each = units(pod_requests((pods.get("template") or {}).get("spec") or {}))
            yield {resource: amount_of(resource, value) * left for resource, value in each.items()}


def has_recorded_requests(workload: Object) -> bool:
    """Return True if Kueue has recorded a Workload's requests. Its configuration may exclude or transform resources."""
    return bool((workload.get("status") or {}).get("resourceRequests"))

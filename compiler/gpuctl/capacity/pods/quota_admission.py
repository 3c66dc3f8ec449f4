"""The pods of a workload that the quotas of its namespace admit.

A quota is charged when a pod is created, whatever its priority. If the quotas have room for all pods that could be
admitted, the order does not matter. Otherwise jobs are created in the order of ``Demand.creation_order``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from gpuctl.capacity.admission.quota_charges import (
    DEVICES,
    ChargedObjects,
    Shortfall,
    charges_in_quota,
    quota_headroom,
    unspecified,
)
from gpuctl.capacity.pods.demand import Demand
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import sum_by_key

Limit = tuple[str, str]
"""The name of a quota and a resource that it limits."""
_Charge = dict[Limit, int]


class QuotaAdmission(NamedTuple):
    """The pods of a job that quotas admit, by group, and why others are refused.

    Not ``settled``: the number depends on the order in which pods are created. ``is_permanent``: the job is refused
    even if nothing else uses the quota.
    """

    groups: list[tuple[PodGroup, int]]
    refusals: list[str]
    is_permanent: bool
    shortfalls: list[Shortfall]
    settled: bool = True

    @property
    def pods(self) -> int:
        """The number of admitted pods."""
        return sum(count for _, count in self.groups)


def quota_admissions(quotas: Sequence[Object], demands: Sequence[Demand]) -> list[QuotaAdmission]:
    """Return what quotas admit of jobs that are created together."""
    own: dict[str, list[Object]] = {}
    for quota in quotas:
        own.setdefault(quota["metadata"]["namespace"], []).append(quota)
    refused = [
        [*demand.refusals, *map(str, unspecified(own.get(demand.namespace, ()), demand.usages))] for demand in demands
    ]
    result = [
        QuotaAdmission([], reasons, True, []) if reasons else QuotaAdmission(demand.groups, [], False, [])
        for demand, reasons in zip(demands, refused, strict=True)
    ]
    for namespace, limiting in own.items():
        here = [number for number, demand in enumerate(demands) if demand.namespace == namespace]
        created = sorted(here, key=lambda number: demands[number].creation_order)
        freed = [usage for number in here for usage in freed_objects(demands[number])]
        coming = {number: demands[number] for number in created if not refused[number]}
        for number, admission in _NamespaceQuotas(limiting, coming, freed).admissions():
            result[number] = admission
    return result


class _JobCharge(NamedTuple):
    """Charges of one job to quotas: in total, for itself, and for a pod of each group.

    ``most``: an upper bound of the admitted pods of each group.
    """

    demand: Demand
    asked: _Charge
    own: _Charge
    pods: list[_Charge]
    most: list[int]

    @property
    def largest(self) -> _Charge:
        """The most that the job can charge."""
        return self.taken(self.most)

    def taken(self, counts: Sequence[int]) -> _Charge:
        """Return the charge for a number of pods of each group."""
        return sum_by_key([self.own, *map(_times, self.pods, counts)])


class _NamespaceQuotas:
    """A namespace with its quotas, and the new jobs by number, in their order of creation.

    Amounts are integers: multiples of 1 / ``_scale``.
    """

    def __init__(self, quotas: Sequence[Object], coming: dict[int, Demand], freed: Sequence[ChargedObjects]) -> None:
        self._rooms = {(item.quota, item.resource): item for quota in quotas for item in quota_headroom(quota, freed)}
        charges = {
            number: [
                {
                    (_name(quota), key): amount
                    for quota in quotas
                    for key, amount in charges_in_quota(quota, usage).items()
                }
                for usage in demand.usages
            ]
            for number, demand in coming.items()
        }
        every = [amount for own in charges.values() for charge in own for amount in charge.values()]
        every += [part for item in self._rooms.values() for part in (item.hard, item.total)]
        self._scale = math.lcm(*{amount.denominator for amount in every})
        self._left = {limit: int((item.hard - item.total) * self._scale) for limit, item in self._rooms.items()}
        self._claims = {number: self._charge_of(demand, charges[number]) for number, demand in coming.items()}
        self._largest = sum_by_key(claim.largest for claim in self._claims.values())
        short = {limit for limit, amount in self._largest.items() if amount > self._left[limit]}
        # Jobs for which the order decides: they charge a resource that is too short for all.
        self._open = {number for number, claim in self._claims.items() if short & claim.largest.keys()}

    def _charge_of(self, demand: Demand, charges: Sequence[dict[Limit, Fraction]]) -> _JobCharge:
        """Return what a job charges when it comes first: no other order gives it more."""
        own: _Charge = {}
        pods: list[_Charge] = []
        for usage, charge in zip(demand.usages, charges, strict=True):
            whole = {limit: int(amount * self._scale) for limit, amount in charge.items() if amount}
            if usage.object["kind"] == "Pod":
                pods.append(whole)
            else:
                own = sum_by_key([own, _times(whole, usage.number)])
        wanted = [count for _, count in demand.groups]
        asked = sum_by_key([own, *map(_times, pods, wanted)])
        if not _has(self._left, own):
            return _JobCharge(demand, asked, {}, pods, [0] * len(pods))
        left = _less(self._left, own)
        most = [
            max(0, min([count, *(left[limit] // amount for limit, amount in charge.items())]))
            for charge, count in zip(pods, wanted, strict=True)
        ]
        return _JobCharge(demand, asked, own, pods, most)

    def admissions(self) -> Iterator[tuple[int, QuotaAdmission]]:
        """Yield the admission of each job."""
        passed = self._in_turn()
        taken = {number: claim.taken(passed.get(number, claim.most)) for number, claim in self._claims.items()}
        every = sum_by_key(taken.values())
        for number, claim in self._claims.items():
            found = self._admission(claim, passed.get(number, claim.most), _less(every, taken[number]))
            yield number, found._replace(settled=number not in self._open)

    def _admission(self, claim: _JobCharge, counts: Sequence[int], others: _Charge) -> QuotaAdmission:
        """Return the admission of a job for a number of admitted pods of each group and the charges of other jobs."""
        demand = claim.demand
        groups = [(group, count) for (group, _), count in zip(demand.groups, counts, strict=True)]
        if groups == demand.groups:
            return QuotaAdmission(groups, [], False, [])
        short, is_permanent = [], False
        for limit, item in self._rooms.items():
            own, together = claim.asked.get(limit, 0), claim.asked.get(limit, 0) + others.get(limit, 0)
            if own and together > self._left[limit]:
                short.append(item._replace(needed=Fraction(together, self._scale)))
                is_permanent = is_permanent or Fraction(own, self._scale) > item.hard
        return QuotaAdmission(groups, [str(item) for item in short], is_permanent, short)

    def _in_turn(self) -> dict[int, list[int]]:
        """Return the number of admitted pods of each group, for the jobs on which the order decides."""
        settled = (claim.largest for number, claim in self._claims.items() if number not in self._open)
        left = _less(self._left, sum_by_key(settled))
        result = {}
        for number, claim in self._claims.items():
            if number not in self._open:
                continue
            result[number] = [0] * len(claim.pods)
            if not _has(left, claim.own):
                continue
            left = _less(left, claim.own)
            for group, (charge, most) in enumerate(zip(claim.pods, claim.most, strict=True)):
                passes = min([most, *(left[limit] // amount for limit, amount in charge.items())])
                result[number][group] = max(0, passes)
                left = _less(left, _times(charge, result[number][group]))
        return result


def _name(quota: Object) -> str:
    return str(quota["metadata"]["name"])


def _times(charge: _Charge, number: int) -> _Charge:
    return {limit: amount * number for limit, amount in charge.items() if number}


def _less(charge: _Charge, other: _Charge) -> _Charge:
    return {limit: amount - other.get(limit, 0) for limit, amount in charge.items()}


def _has(left: _Charge, charge: _Charge) -> bool:
    return all(amount <= left[limit] for limit, amount in charge.items())


def freed_objects(demand: Demand) -> list[ChargedObjects]:
    """Return the objects that a replaced job frees.

    A snapshot does not have the limits of its pods; gpuctl sets them equal to the requests. A deadline matters only by
    its presence, for the scopes Terminating and NotTerminating.
    """
    if not demand.owned:
        return []
    pods = []
    for place, pod in enumerate(demand.owned):
        amounts = {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in pod.requests.items()}
        spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}]}
        if pod.priority_class:
            spec["priorityClassName"] = pod.priority_class
        if pod.has_deadline:
            spec["activeDeadlineSeconds"] = 1
        claims = {DEVICES: demand.freed_devices[place]} if demand.freed_devices else {}
        pods.append(ChargedObjects({"kind": "Pod", "metadata": {"labels": dict(pod.labels)}, "spec": spec, **claims}))
    return [*(usage for usage in demand.usages if usage.object["kind"] != "Pod"), *pods]

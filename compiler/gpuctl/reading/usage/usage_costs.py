"""Costs of usage groups: GPU-seconds by GPU model, times prices."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuctl.reading.usage.gpu_time import GpuHolder
from gpuctl.reading.usage.price_list import cost, cost_at, sum_known
from gpuctl.reading.usage.usage_records import GroupUse

_LOST = 1e-6
"""Relative error that rounding to millionths of a GPU-second may add to a sum; the absolute tolerance is one second."""


class ModelUse(NamedTuple):
    """GPU-seconds of one GPU model that a workload held while its label or annotation had one value."""

    holder: GpuHolder
    value: str
    model: str
    held: float


class GroupCost(NamedTuple):
    """The cost of a group's allocated, idle and free GPUs; each is None if unknown. Only GPU models have free GPUs."""

    held: float | None
    idle: float | None
    free: float | None = None


GroupOf = Callable[[ModelUse], GpuHolder]


def group_costs(
    groups: Sequence[GroupUse],
    rows: Iterable[ModelUse],
    group_of: GroupOf,
    models: Iterable[GroupUse],
    workloads: Mapping[GpuHolder, GroupUse],
    prices: Mapping[str, float],
) -> list[GroupCost]:
    """Return the cost of each group.

    The cost of allocated GPUs is known if all models have one price, or if the group's rows add up to the ledger's
    total. The cost of idle GPUs is known if the group held GPUs of one price, or if each of its workloads held GPUs of
    one price in one group.

    :param models: the ledger's rows of all GPU models.
    :param workloads: the ledger's rows of all workloads.
    :param prices: GPU model -> price of one GPU-hour.
    """
    held_at = {prices.get(group.holder.value) for group in models if group.total.held > 0}
    price = held_at.pop() if len(held_at) == 1 else None
    if price is not None:
        return [GroupCost(*(cost_at(price, part) for part in (group.total.held, group.total.idle))) for group in groups]
    of_group: dict[GpuHolder, list[ModelUse]] = defaultdict(list)
    of_workload: dict[GpuHolder, list[ModelUse]] = defaultdict(list)
    for row in rows:
        of_group[group_of(row)].append(row)
        of_workload[row.holder].append(row)
    found = []
    for group in groups:
        own = of_group.get(group.holder, [])
        is_whole = is_same_time(sum(row.held for row in own), group.total.held)
        if not is_whole or any(row.model not in prices for row in own):
            found.append(GroupCost(None, None))
            continue
        held = sum(cost_at(prices[row.model], row.held) for row in own)
        found.append(GroupCost(held, _idle_cost(group, own, group_of, of_workload, workloads, prices)))
    return found


def model_costs(models: Iterable[GroupUse], prices: Mapping[str, float]) -> list[GroupCost]:
    """Return the cost of each GPU model; 0 if nothing was used, even if the model has no price."""
    found = []
    for group in models:
        amounts = (getattr(group.total, name) or 0.0 for name in GroupCost._fields)
        found.append(GroupCost(*(cost({group.holder.value: amount}, prices) for amount in amounts)))
    return found


def total_costs(
    groups: Iterable[GroupUse], parts: Sequence[tuple[Sequence[GroupUse], Sequence[GroupCost]]]
) -> list[GroupCost]:
    """Return the costs of groups over a period from the costs over its parts.

    A cost is known if it is known in each part, and if the parts add up to the group's allocated, idle or free time.

    :param parts: the groups in each part of the period, and their costs.
    """
    by_holder = [
        {group.holder: (group.total, of_group) for group, of_group in zip(used, costs, strict=True)}
        for used, costs in parts
    ]
    found = []
    for group in groups:
        own = [part[group.holder] for part in by_holder if group.holder in part]
        amounts = []
        for name in GroupCost._fields:
            seen = sum(getattr(use, name) or 0.0 for use, _ in own)
            is_whole = is_same_time(seen, getattr(group.total, name) or 0.0)
            amounts.append(sum_known(getattr(of_group, name) for _, of_group in own) if is_whole else None)
        found.append(GroupCost(*amounts))
    return found


def _idle_cost(
    group: GroupUse,
    own: Sequence[ModelUse],
    group_of: GroupOf,
    of_workload: Mapping[GpuHolder, Sequence[ModelUse]],
    workloads: Mapping[GpuHolder, GroupUse],
    prices: Mapping[str, float],
) -> float | None:
    if len({prices[row.model] for row in own}) <= 1:
        return cost_at(prices[own[0].model], group.total.idle) if own else 0.0
    idle = of_idle = 0.0
    for holder in {row.holder for row in own}:
        all_of_it = of_workload[holder]
        if holder not in workloads:
            return None
        left = workloads[holder].total.idle
        if left > 0 and len({(prices.get(row.model), group_of(row)) for row in all_of_it}) > 1:
            return None
        idle += left
        of_idle += cost_at(prices[all_of_it[0].model], left)
    return of_idle if is_same_time(idle, group.total.idle) else None


def is_same_time(one: float, other: float) -> bool:
    """Return True if two sums of GPU-seconds differ by no more than rounding errors."""
    return abs(one - other) <= max(1.0, _LOST * other)

"""Usage as JSON for ``gpuctl usage -o json``, and as rows for CSV.

GPU time is in GPU-hours, shares in percent, ``coverage`` from 0 to 1; null means unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpuctl.reading.gpu_time import GpuHolder, GpuTime, KnownTime, to_rfc3339
from gpuctl.reading.usage_records import CurrentHolders, GroupUse, IdleGpuReport, IdleHolder, UsageView

HELD_COLUMNS = (
    *("name", "namespace", "kind", "uid", "gpus", "useNow", "meanUse", "idleGpuHours", "gpuHours", "coverage"),
)
"""Columns of :func:`held_now_rows`."""
IDLE_COLUMNS = (
    *("name", "namespace", "kind", "uid", "owner", "gpus", "models", "idleSince", "idleHours", "meanUse"),
    *("idleGpuHours", "coverage", "cost", "pause"),
)
"""Columns of :func:`idle_rows`."""
_HOUR = 3600
_NOTHING, _NOBODY = GpuTime(), GpuHolder()
_DIGITS = 6
"""Decimals of GPU-hours: the rounding error is below a hundredth of a GPU-second, so that they add up."""


def usage_answer(view: UsageView, *, by_step: bool = False) -> dict[str, Any]:
    """Return the JSON of ``usage cluster|namespaces|labels|workloads|nodes -o json``.

    :param by_step: one row per step of a group, instead of one per group with ``steps``.
    """
    items = list(usage_rows(view)) if by_step else [_group(view, group) for group in view.groups]
    return {
        "level": view.level,
        "key": view.key or None,
        "startTime": to_rfc3339(view.asked.start),
        "endTime": to_rfc3339(view.asked.end),
        "timeZone": view.asked.zone,
        "step": view.step,
        **known_value(view.known),
        "knownFrom": view.known.start or None if view.known is not None else None,
        "knownUntil": view.known.until or None if view.known is not None else None,
        "items": items,
        "total": len(items),
        "groups": view.count,
        "allGroups": time_value(view.all_groups, view.capacity),
        "cluster": None if view.whole is None else time_value(view.whole, view.capacity),
    }


def usage_rows(view: UsageView) -> Iterator[dict[str, Any]]:
    """Yield one row per step and group, ordered by time."""
    for number, (time, end) in enumerate(view.times):
        for group in view.groups:
            use = group.steps[number]
            if use is not None:
                whose = {"time": time, "endTime": end, **holder_value(view, group.holder)}
                amounts = {**time_value(use, view.capacity_in(number)), **_allowed(view, use)}
                yield {**whose, **amounts, **known_value(view.known_in(number))}


def group_rows(view: UsageView) -> Iterator[dict[str, Any]]:
    """Yield one row per group."""
    for group in view.groups:
        yield _total(view, group)


def columns_of(view: UsageView, *, by_step: bool) -> list[str]:
    """Return the columns of :func:`usage_rows` or :func:`group_rows`, also if there are no rows."""
    times = ("time", "endTime") if by_step else ()
    amounts = *time_value(_NOTHING, None), *_allowed(view, _NOTHING)
    return [*times, *holder_value(view, _NOBODY), *amounts, *known_value(None)]


def _total(view: UsageView, group: GroupUse) -> dict[str, Any]:
    use = group.total
    amounts = {**time_value(use, view.capacity), **_allowed(view, use)}
    return {**holder_value(view, group.holder), **amounts, **known_value(view.known)}


def _allowed(view: UsageView, use: GpuTime) -> dict[str, Any]:
    """Return the GPU-hours that the quotas of a namespace allowed, and the held percentage of them."""
    if view.level != "namespace":
        return {}
    rate = use.share_of(use.allowed)
    return {"allowedGpuHours": hours(use.allowed), "allocationRate": None if rate is None else round(rate, 2)}


def _group(view: UsageView, group: GroupUse) -> dict[str, Any]:
    return {
        **_total(view, group),
        "steps": [
            {
                "time": time,
                "endTime": end,
                **time_value(use, view.capacity_in(number)),
                **_allowed(view, use),
                **known_value(view.known_in(number)),
            }
            for number, ((time, end), use) in enumerate(zip(view.times, group.steps, strict=bool(group.steps)))
            if use is not None
        ],
    }


def holder_value(view: UsageView, holder: GpuHolder) -> dict[str, Any]:
    """Return the fields that identify the group of a row."""
    if view.level == "cluster":
        return {}
    if view.level == "workload":
        return {"name": holder.name, "namespace": holder.namespace, "kind": holder.kind, "uid": holder.value}
    if view.level in ("label", "annotation"):
        return {"key": view.key, "value": holder.value}
    return {view.level: holder.value}


def time_value(use: GpuTime, capacity: float | None) -> dict[str, Any]:
    """Return amounts of GPU time. ``capacityShare`` is relative to the group's own capacity, else to ``capacity``."""
    share = use.share_of(use.capacity if use.capacity is not None else capacity)
    return {
        "gpuHours": hours(use.held),
        "busyGpuHours": hours(use.busy),
        "idleGpuHours": hours(use.idle),
        "unobservedGpuHours": hours(use.unobserved),
        "capacityGpuHours": hours(use.capacity),
        "freeGpuHours": hours(use.free),
        "unusableGpuHours": hours(use.unusable),
        "unsizedGpuHours": hours(use.unsized),
        "capacityShare": None if share is None else round(share, 2),
        "meanUse": None if use.mean_use is None else round(use.mean_use, 2),
        "coverage": None if use.coverage is None else round(use.coverage, 4),
    }


def known_value(known: KnownTime | None) -> dict[str, Any]:
    """Return how many seconds of a range or step are known, and whether its figures may still change."""
    return {
        "knownSeconds": None if known is None else round(known.seconds, 3),
        "provisional": None if known is None else known.provisional,
    }


def hours(seconds: float | None) -> float | None:
    """Return GPU-hours."""
    return None if seconds is None else round(seconds / _HOUR, _DIGITS)


def holders_answer(found: CurrentHolders) -> dict[str, Any]:
    """Return the JSON of ``usage top -o json``."""
    items = held_now_rows(found)
    return {
        "cluster": found.cluster,
        "time": found.time,
        "capacity": found.capacity,
        "allocated": found.allocated,
        "items": items,
        "total": len(items),
    }


def held_now_rows(found: CurrentHolders) -> list[dict[str, Any]]:
    """Return a row for each workload that holds GPUs; ``recent`` covers the current hour and the one before."""
    return [
        {
            "name": item.holder.name,
            "namespace": item.holder.namespace,
            "kind": item.holder.kind,
            "uid": item.holder.value,
            "gpus": item.gpus,
            "useNow": item.use,
            "meanUse": None if late.mean_use is None else round(late.mean_use, 2),
            "idleGpuHours": None if item.recent is None else hours(late.idle),
            "gpuHours": None if item.recent is None else hours(late.held),
            "coverage": None if late.coverage is None else round(late.coverage, 4),
        }
        for item in found.workloads
        for late in [item.recent or _NOTHING]
    ]


def waste_answer(waste: IdleGpuReport, items: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON of ``usage waste -o json``."""
    return {
        "cluster": waste.cluster,
        "startTime": waste.start,
        "endTime": waste.end,
        "knownUntil": waste.known_until,
        "idleBelow": waste.below,
        "currency": waste.currency or None,
        "idleGpuHours": waste.total_idle,
        "cost": waste.total_cost,
        "items": list(items),
        "total": len(items),
    }


def idle_rows(found: Sequence[IdleHolder], pause: Callable[[IdleHolder], str]) -> list[dict[str, Any]]:
    """Return a row for each idle workload.

    :param pause: returns the command that frees a workload's GPUs.
    """
    return [
        {
            "name": item.holder.name,
            "namespace": item.holder.namespace,
            "kind": item.holder.kind,
            "uid": item.holder.value,
            "owner": item.owner,
            "gpus": item.gpus,
            "models": dict(item.models),
            "idleSince": item.since,
            "idleHours": item.idle_hours,
            "meanUse": item.use,
            "idleGpuHours": item.idle_gpu_hours,
            "coverage": item.coverage,
            "cost": item.cost,
            "pause": pause(item) or None,
        }
        for item in found
    ]

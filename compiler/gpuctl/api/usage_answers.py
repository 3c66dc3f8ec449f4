"""Usage: ``gpuctl usage -o json``, and the rows of its CSV.

GPU time is in GPU-hours, shares in percent, ``coverage`` from 0 to 1; null means unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gpuctl.api.base_models import ApiModel
from gpuctl.api.json_values import rounded
from gpuctl.objects.durations import HOUR
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, KnownTime
from gpuctl.reading.usage.usage_records import (
    CurrentHolder,
    CurrentHolders,
    GroupUse,
    IdleGpuReport,
    IdleHolder,
    UsageView,
)

_NOTHING, _NOBODY = GpuTime(), GpuHolder()
_DIGITS = 6
"""Decimals of GPU-hours: the rounding error is below a hundredth of a GPU-second, so that they add up."""


class StepTime(ApiModel):
    """A step, RFC 3339."""

    time: str
    end_time: str


class GroupName(ApiModel):
    """The fields that identify a group. A group has those of its level."""

    name: str = ""
    namespace: str = ""
    kind: str = ""
    uid: str = ""
    key: str = ""
    value: str = ""
    node: str = ""
    model: str = ""


class GpuTimeFields(ApiModel):
    """Amounts of GPU time. ``capacity_share`` is relative to the group's own capacity, else to the cluster's."""

    gpu_hours: float | None
    busy_gpu_hours: float | None
    idle_gpu_hours: float | None
    unobserved_gpu_hours: float | None
    capacity_gpu_hours: float | None
    free_gpu_hours: float | None
    unusable_gpu_hours: float | None
    unsized_gpu_hours: float | None
    capacity_share: float | None
    mean_use: float | None
    coverage: float | None


class QuotaFields(ApiModel):
    """Only for namespaces: the GPU-hours that the quotas allowed, and the held percentage of them."""

    allowed_gpu_hours: float | None = None
    allocation_rate: float | None = None


class KnownFields(ApiModel):
    """The seconds of a range or step that are known, and whether the figures may still change."""

    known_seconds: float | None
    provisional: bool | None


class GroupTotal(KnownFields, QuotaFields, GpuTimeFields, GroupName):
    """The usage of a group over the whole range."""


class GroupStep(KnownFields, QuotaFields, GpuTimeFields, GroupName, StepTime):
    """The usage of a group in a step."""


class StepUse(KnownFields, QuotaFields, GpuTimeFields, StepTime):
    """A step of a group."""


class GroupSteps(GroupTotal):
    """The usage of a group over the whole range, and in each step."""

    steps: list[StepUse]


class UsageQuery(ApiModel):
    """The query that was answered."""

    level: str
    key: str | None
    start_time: str
    end_time: str
    time_zone: str
    step: str


class UsageAnswer(KnownFields, UsageQuery):
    """``gpuctl usage cluster|namespaces|labels|workloads|nodes|models -o json``.

    ``groups`` counts all groups, ``all_groups`` is their sum; ``items`` has those that are shown.
    """

    known_from: str | None
    known_until: str | None
    items: list[GroupSteps] | list[GroupStep]
    total: int
    groups: int
    all_groups: GpuTimeFields
    cluster: GpuTimeFields | None


class HeldNow(ApiModel):
    """A workload that holds GPUs. All but ``use_now`` covers the current hour and the one before."""

    name: str
    namespace: str
    kind: str
    uid: str
    gpus: float
    use_now: float | None
    mean_use: float | None
    idle_gpu_hours: float | None
    gpu_hours: float | None
    coverage: float | None

    @classmethod
    def of(cls, item: CurrentHolder) -> HeldNow:
        """Return a workload that holds GPUs."""
        late = item.recent or _NOTHING
        return cls(
            **_workload(item.holder),
            gpus=item.gpus,
            use_now=item.use,
            mean_use=rounded(late.mean_use),
            idle_gpu_hours=None if item.recent is None else hours(late.idle),
            gpu_hours=None if item.recent is None else hours(late.held),
            coverage=rounded(late.coverage, 4),
        )


class HeldNowList(ApiModel):
    """``gpuctl usage top -o json``."""

    cluster: str
    time: str
    capacity: float | None
    allocated: float | None
    items: list[HeldNow]
    total: int

    @classmethod
    def of(cls, found: CurrentHolders) -> HeldNowList:
        """Return the workloads that hold GPUs."""
        return cls(
            cluster=found.cluster,
            time=found.time,
            capacity=found.capacity,
            allocated=found.allocated,
            items=list(map(HeldNow.of, found.workloads)),
            total=len(found.workloads),
        )


class HeldIdleWorkload(ApiModel):
    """A workload that holds GPUs and is idle. ``pause`` is the command that frees them."""

    name: str
    namespace: str
    kind: str
    uid: str
    owner: str | None
    gpus: float
    models: dict[str, float]
    idle_since: str
    idle_hours: float
    mean_use: float | None
    idle_gpu_hours: float | None
    coverage: float | None
    cost: float | None
    pause: str | None

    @classmethod
    def of(cls, item: IdleHolder, pause: str | None) -> HeldIdleWorkload:
        """Return an idle workload."""
        return cls.taken_from(item, **_workload(item.holder), models=dict(item.models), pause=pause)


class IdleGpuList(ApiModel):
    """``gpuctl usage waste -o json``."""

    cluster: str
    start_time: str
    end_time: str
    known_until: str
    idle_below: float
    currency: str | None
    idle_gpu_hours: float | None
    cost: float | None
    items: list[HeldIdleWorkload]
    total: int

    @classmethod
    def of(cls, waste: IdleGpuReport, items: Sequence[HeldIdleWorkload]) -> IdleGpuList:
        """Return the report with these workloads."""
        return cls(
            cluster=waste.cluster,
            start_time=waste.start,
            end_time=waste.end,
            known_until=waste.known_until,
            idle_below=waste.below,
            currency=waste.currency or None,
            idle_gpu_hours=waste.total_idle,
            cost=waste.total_cost,
            items=list(items),
            total=len(items),
        )


def usage_answer(view: UsageView, *, by_step: bool = False) -> UsageAnswer:
    """Return the answer to a usage query.

    :param by_step: one item per step of a group, instead of one per group with ``steps``.
    """
    items = list(group_steps(view)) if by_step else [_with_steps(view, group) for group in view.groups]
    known = view.known
    return UsageAnswer(
        level=view.level,
        key=view.key or None,
        start_time=format_timestamp(view.asked.start),
        end_time=format_timestamp(view.asked.end),
        time_zone=view.asked.zone,
        step=view.step,
        **_known(known),
        known_from=None if known is None else known.start or None,
        known_until=None if known is None else known.until or None,
        items=items,
        total=len(items),
        groups=view.count,
        all_groups=GpuTimeFields(**_time(view.all_groups, view.capacity)),
        cluster=None if view.whole is None else GpuTimeFields(**_time(view.whole, view.capacity)),
    )


def group_totals(view: UsageView) -> Iterator[GroupTotal]:
    """Yield the total of each group."""
    for group in view.groups:
        yield GroupTotal(**_total(view, group))


def group_steps(view: UsageView) -> Iterator[GroupStep]:
    """Yield the steps of all groups, ordered by time."""
    for number, (time, end) in enumerate(view.times):
        for group in view.groups:
            use = group.steps[number]
            if use is not None:
                yield GroupStep(time=time, end_time=end, **_name(view, group.holder), **_step(view, number, use))


def columns_of(view: UsageView, *, by_step: bool) -> list[str]:
    """Return the columns of :func:`group_steps` or :func:`group_totals`, also if there are no rows."""
    fields = _total(view, GroupUse(_NOBODY, _NOTHING))
    return list((GroupStep(time="", end_time="", **fields) if by_step else GroupTotal(**fields)).as_json())


def _with_steps(view: UsageView, group: GroupUse) -> GroupSteps:
    steps = [
        StepUse(time=time, end_time=end, **_step(view, number, use))
        for number, ((time, end), use) in enumerate(zip(view.times, group.steps, strict=bool(group.steps)))
        if use is not None
    ]
    return GroupSteps(**_total(view, group), steps=steps)


def _total(view: UsageView, group: GroupUse) -> dict[str, Any]:
    """Return the fields of :class:`GroupTotal`."""
    use = group.total
    name = _name(view, group.holder)
    return {**name, **_time(use, view.capacity), **_quota(view, use), **_known(view.known)}


def _step(view: UsageView, number: int, use: GpuTime) -> dict[str, Any]:
    """Return the fields of :class:`StepUse` other than the time."""
    return {**_time(use, view.capacity_in(number)), **_quota(view, use), **_known(view.known_in(number))}


def _name(view: UsageView, holder: GpuHolder) -> dict[str, str]:
    """Return the fields of :class:`GroupName` that the level has."""
    if view.level == "cluster":
        return {}
    if view.level == "workload":
        return _workload(holder)
    if view.level in ("label", "annotation"):
        return {"key": view.key, "value": holder.value}
    return {view.level: holder.value}


def _workload(holder: GpuHolder) -> dict[str, str]:
    return {"name": holder.name, "namespace": holder.namespace, "kind": holder.kind, "uid": holder.value}


def _time(use: GpuTime, capacity: float | None) -> dict[str, float | None]:
    """Return the fields of :class:`GpuTimeFields`."""
    return {
        "gpu_hours": hours(use.held),
        "busy_gpu_hours": hours(use.busy),
        "idle_gpu_hours": hours(use.idle),
        "unobserved_gpu_hours": hours(use.unobserved),
        "capacity_gpu_hours": hours(use.capacity),
        "free_gpu_hours": hours(use.free),
        "unusable_gpu_hours": hours(use.unusable),
        "unsized_gpu_hours": hours(use.unsized),
        "capacity_share": rounded(use.share_of(use.capacity if use.capacity is not None else capacity)),
        "mean_use": rounded(use.mean_use),
        "coverage": rounded(use.coverage, 4),
    }


def _quota(view: UsageView, use: GpuTime) -> dict[str, float | None]:
    """Return the fields of :class:`QuotaFields`; none for other levels than namespaces."""
    if view.level != "namespace":
        return {}
    return {"allowed_gpu_hours": hours(use.allowed), "allocation_rate": rounded(use.share_of(use.allowed))}


def _known(known: KnownTime | None) -> dict[str, Any]:
    """Return the fields of :class:`KnownFields`."""
    if known is None:
        return {"known_seconds": None, "provisional": None}
    return {"known_seconds": round(known.seconds, 3), "provisional": known.provisional}


def hours(seconds: float | None) -> float | None:
    """Return GPU-hours."""
    return None if seconds is None else round(seconds / HOUR, _DIGITS)

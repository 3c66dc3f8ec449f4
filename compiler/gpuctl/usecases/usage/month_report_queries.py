"""Queries for the monthly usage report of a cluster: the month, the groups, their costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import NamedTuple

from gpuctl.kube.api_errors import NotThere
from gpuctl.language.display_text import visible
from gpuctl.language.settings import Settings
from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, sum_gpu_times
from gpuctl.reading.usage.month_report import MonthReport
from gpuctl.reading.usage.price_list import price_list
from gpuctl.reading.usage.usage_costs import GroupCost, GroupOf, group_costs, model_costs, total_costs
from gpuctl.reading.usage.usage_records import GroupUse, UsageRange
from gpuctl.usecases.usage.usage_backends import UsageBackend
from gpuctl.usecases.usage.usage_views import ViewOptions, timeline, usage_view


class ReportKey(NamedTuple):
    """The label or annotation that one part of a report groups by.

    :param kind: ``label`` or ``annotation``.
    :param is_default: the user did not name the key.
    """

    key: str
    kind: str = "label"
    is_default: bool = False


def month_range(year: int, month: int, zone: tzinfo) -> tuple[float, float]:
    """Return start and end of a month in a time zone, seconds since 1970."""
    following = (year + month // 12, month % 12 + 1)
    first, last = (datetime(*parts, 1, tzinfo=zone).timestamp() for parts in ((year, month), following))
    return first, last


def month_report(
    backend: UsageBackend, month: str, asked: UsageRange, by: ReportKey, settings: Settings, made: float
) -> MonthReport:
    """Return the report on the GPUs of a cluster in a month.

    :param month: its name in the report; ``asked``: its range and time zone.
    :param by: the label or annotation of one part.
    :param settings: settings of the platform, for its prices.
    :param made: the current time, seconds since 1970.
    :raises NotThere: no usage of the month is known, or usage is not collected by that label or annotation.
    :raises ClusterError: the query failed, or the user may not see the cluster.
    """
    # Totals of groups and of the cluster come from the same hours and days, so they add up.
    whole = list(backend.ledger("cluster", asked, "total"))
    if not whole:
        raise NotThere(
            f"no usage is known of {month}", "`gpuctl usage cluster --last 400d --step month` lists the known months"
        )
    names = backend.clusters()
    key = _checked_key(backend, asked.cluster, by)
    days = list(backend.ledger("cluster", asked, "day"))
    by_day = {(row.time, row.end): row.use for row in days}
    listed = price_list(settings.platform.usage.prices)
    prices = [] if listed.is_empty else list(listed.periods(asked.start, asked.end))
    by = by._replace(key=key)
    groups = _all_groups(backend, asked, by)
    parts = []
    for period in prices:
        within = replace(asked, start=period.start, end=period.end)
        used = groups if len(prices) == 1 else _all_groups(backend, within, by)
        parts.append((used, _costs(backend, within, by, used, period.models)))
    return MonthReport(
        month=month,
        zone=asked.zone,
        cluster=visible(asked.cluster or (names[0] if names else "")),
        start=asked.start,
        end=asked.end,
        whole=sum_gpu_times(row.use for row in whole),
        days=[(time, _of(by_day, time, end)) for time, end in timeline(days)],
        namespaces=groups["namespace"],
        key=key,
        key_kind=by.kind,
        labels=groups["label"],
        models=groups["model"],
        workloads=groups["workload"],
        costs={
            level: total_costs(of_level, [(used[level], costs[level]) for used, costs in parts])
            for level, of_level in (groups.items() if prices else ())
        },
        known=whole[0].known,
        days_known=sum(row.known.seconds for row in days),
        made=made,
        prices=prices,
        currency=visible(listed.currency),
    )


_Groups = Mapping[str, Sequence[GroupUse]]


def _all_groups(backend: UsageBackend, asked: UsageRange, by: ReportKey) -> _Groups:
    found = {level: _groups(backend, level, asked) for level in ("namespace", "model", "workload")}
    return {**found, "label": _groups(backend, by.kind, asked, by.key) if by.key else []}


def _costs(
    backend: UsageBackend, asked: UsageRange, by: ReportKey, groups: _Groups, prices: Mapping[str, float]
) -> Mapping[str, Sequence[GroupCost]]:
    """Return the costs of the groups of each level in a period with constant prices."""
    held = backend.held_models(asked, by.kind, by.key)
    workloads = {group.holder: group for group in groups["workload"]}
    group_of: dict[str, GroupOf] = {
        "namespace": lambda row: GpuHolder(row.holder.namespace),
        "label": lambda row: GpuHolder(row.value),
        "workload": lambda row: row.holder,
    }
    return {
        "model": model_costs(groups["model"], prices),
        **{
            level: group_costs(groups[level], held, of, groups["model"], workloads, prices)
            for level, of in group_of.items()
        },
    }


def _checked_key(backend: UsageBackend, cluster: str, by: ReportKey) -> str:
    """Return the key; "" if it is the default and usage is not collected by it.

    :raises NotThere: usage is not collected by a key that was named.
    """
    keys = backend.keys(cluster, by.kind)
    if by.key in keys:
        return by.key
    if by.is_default:
        return ""
    other = "annotation" if by.kind == "label" else "label"
    if by.key in backend.keys(cluster, other):
        change = "add --annotation" if other == "annotation" else "leave --annotation out"
        raise NotThere(f"`{by.key}` is the key of a collected {other}, not of a {by.kind}", change)
    raise NotThere(
        f"usage is not collected by the {by.kind} `{by.key}`",
        f"name one of these with --by: {', '.join(keys)}" if keys else f"add it to `usage_{by.kind}s` of the collector",
    )


def _groups(backend: UsageBackend, level: str, asked: UsageRange, key: str = "") -> Sequence[GroupUse]:
    return usage_view(backend, level, asked, ViewOptions(over_time=False), key).groups


def _of(by_day: dict[tuple[str, str], GpuTime], time: str, end: str) -> GpuTime | None:
    return by_day.get((time, end))

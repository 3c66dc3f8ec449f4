"""Held but idle GPUs: their workloads, since when they are idle, and the cost.

A workload is idle if every hour until now was measured and below the threshold. Hours without measurements do not count
as idle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection

from gpuctl.api.json_values import gpu_amount, rounded
from gpuctl.objects.durations import DAY, HOUR
from gpuctl.objects.label_names import owner_of
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.usage.price_list import PriceList, cost, sum_known
from gpuctl.reading.usage.usage_costs import is_same_time
from gpuctl_usage.answers.held_models import held_by
from gpuctl_usage.answers.hourly_answers import HoursQuery, read_known_steps
from gpuctl_usage.answers.query_scope import find_cluster
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import Holding, WorkloadKey
from gpuctl_usage.store import intervals
from gpuctl_usage.store.database import Database
from gpuctl_usage.store.database_tables import holdings
from gpuctl_usage.store.idle_hours import GroupSums, KnownHour, groups_at, known_hours, sums_by_hour, sums_together
from gpuctl_usage.store.surrogate_keys import group_ids, workload_group
from gpuctl_usage.sums import Level

_MAX_LOOK_BACK = 30 * DAY
"""Maximum time to look back for the begin of an idle period; longer ones are reported with this length."""
_CHECKED_FIRST = 2
"""Hours of a day that are checked first; the last hour may not be fully measured yet."""


_NOTHING = GroupSums(0, 0.0, 0.0, 0.0)


class IdleRule(NamedTuple):
    """Definition of idle.

    :param below: an hour with a lower mean utilization in percent is idle; ``coverage``: minimum measured part of the
    hour, 0 to 1; ``after``: minimum length of the idle period in seconds.
    """

    below: float = 5.0
    coverage: float = 0.5
    after: float = float(HOUR)


@dataclass
class IdleWorkload:
    """A workload that holds idle GPUs.

    :param gpus: GPUs that it holds now, by model; ``pods``: number of pods that hold them.
    :param since: begin of the idle period; ``until``: its last known moment.
    :param in_range: sums over the query's range.
    :param number: id of its group in the database.
    """

    workload: WorkloadKey
    gpus: dict[str, float] = field(default_factory=dict)
    pods: int = 0
    held_since: float = 0.0
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    since: float = 0.0
    until: float = 0.0
    obs_gpu_s: float = 0.0
    util_gpu_s: float = 0.0
    in_range: GroupSums = _NOTHING
    number: int = 0

    @property
    def owner(self) -> str | None:
        """Return the owner named by a label or annotation."""
        return owner_of(self.labels, self.annotations)


def idle_workloads(
    database: Database,
    cluster: str,
    start: float,
    end: float,
    *,
    rule: IdleRule = IdleRule(),  # noqa: B008
    namespaces: Collection[str] | None = None,
) -> list[IdleWorkload]:
    """Return the workloads that hold GPUs now and are idle, the largest waste first.

    :param start: range of ``in_range``: hours that begin in [start, end).
    :param namespaces: the namespaces that the caller may see; None for all.
    :raises Unanswerable: the cluster does not exist.
    """
    with database.reading() as connection:
        found = find_cluster(connection, cluster)
        held = intervals.read_holdings(connection, found.id, intervals.open_ones(connection, holdings))
        seen = [item for item in held if namespaces is None or item.namespace in namespaces]
        candidates = _held_now(seen, intervals.held_since(connection, found.id))
        ids = group_ids(connection, found.id, map(workload_group, candidates))
        numbers = {ids[workload_group(key)]: item for key, item in candidates.items() if workload_group(key) in ids}
        _look_back(connection, found.id, numbers, rule, found.last_seen or 0.0)
        idle = {number: item for number, item in numbers.items() if item.until - item.since >= rule.after}
        asked = HoursQuery(cluster, start, end, step=StepUnit.TOTAL)
        for number, sums in sums_together(
            connection, sorted(idle), read_known_steps(connection, asked, found.id)
        ).items():
            idle[number].in_range = sums
        for number, item in idle.items():
            item.number = number
    return sorted(idle.values(), key=lambda item: (-(item.until - item.since) * sum(item.gpus.values()), item.workload))


def waste(
    database: Database,
    cluster: str,
    start: float,
    end: float,
    *,
    prices: PriceList = PriceList(),  # noqa: B008
    rule: IdleRule = IdleRule(),  # noqa: B008
    namespaces: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the idle workloads in the form of the REST API. ``total_idle_gpu_hours`` covers all held GPUs; None if the
    caller may not see all namespaces.
    """
    items = idle_workloads(database, cluster, start, end, rule=rule, namespaces=namespaces)
    numbers, is_priced = [item.number for item in items], not prices.is_empty
    costs: dict[int, list[float | None]] = {number: [] for number in numbers}
    total, total_costs = 0.0, list[float | None]()
    parts = list(prices.periods(start, end))
    queries = [HoursQuery(cluster, part.start, part.end, step=StepUnit.TOTAL) for part in parts]
    with database.reading() as connection:
        found = find_cluster(connection, cluster)
        models = groups_at(connection, found.id, Level.MODEL) if namespaces is None else {}
        held: dict[tuple[int, int], dict[str, float]] = defaultdict(dict)
        for row in held_by(
            connection, found.id, queries, [holdings.c.workload_id], [holdings.c.workload_id.in_(numbers)]
        ):
            held[row.part, row.workload_id][row.model] = row.seconds
        for place, (part, query) in enumerate(zip(parts, queries, strict=True)):
            known_steps = read_known_steps(connection, query, found.id)
            together = sums_together(connection, [*numbers, *sorted(models)], known_steps)
            for number in numbers:
                costs[number].append(_idle_cost(together.get(number, _NOTHING), held[place, number], part.models))
            by_model = {group.value: together.get(number, _NOTHING).idle for number, group in models.items()}
            total += sum(by_model.values())
            total_costs.append(cost(by_model, part.models))
    return {
        "cluster": found.name,
        "start_time": format_timestamp(start),
        "end_time": format_timestamp(end),
        "known_until": format_timestamp(found.last_seen or 0.0),
        "idle_below": rule.below,
        "idle_after_hours": rounded(rule.after / HOUR),
        "currency": prices.currency or None,
        "total_idle_gpu_hours": rounded(total / HOUR, 4) if namespaces is None else None,
        "total_idle_cost": rounded(sum_known(total_costs)) if namespaces is None and is_priced else None,
        "workloads": [_row(item, sum_known(costs[item.number]) if is_priced else None) for item in items],
    }


def _idle_cost(used: GroupSums, held: Mapping[str, float], prices: Mapping[str, float]) -> float | None:
    """Return the cost of what a workload left idle; None if unknown. Its sums are not by model: if it held GPUs of
    several prices, it is known only if all of them were idle all the time.

    :param held: GPU-seconds that it held by model.
    """
    whole = sum(held.values())
    is_all_idle = is_same_time(used.idle, used.alloc_gpu_s)
    if not is_same_time(whole, used.alloc_gpu_s) or (len(set(map(prices.get, held))) > 1 and not is_all_idle):
        return None
    return cost({model: used.idle * seconds / whole for model, seconds in held.items()}, prices)


def _row(item: IdleWorkload, idle_cost: float | None) -> dict[str, Any]:
    whole = sum(item.gpus.values())
    alloc, obs = item.in_range.alloc_gpu_s, item.in_range.obs_gpu_s
    return {
        "namespace": item.workload.namespace,
        "workload_type": item.workload.kind,
        "workload_name": item.workload.name,
        "owner_uid": item.workload.uid,
        "owner": item.owner,
        "labels": dict(item.labels),
        "annotations": dict(item.annotations),
        "gpu_count": gpu_amount(whole),
        "gpu_models": {model: gpu_amount(gpus) for model, gpus in sorted(item.gpus.items())},
        "pod_count": item.pods,
        "idle_since": format_timestamp(item.since),
        "idle_hours": rounded((item.until - item.since) / HOUR),
        "avg_utilization": rounded(item.util_gpu_s / item.obs_gpu_s) if item.obs_gpu_s > 0 else None,
        "idle_gpu_hours": rounded(item.in_range.idle / HOUR, 4) if obs > 0 else None,
        "allocated_gpu_hours": rounded(alloc / HOUR, 4),
        "coverage": rounded(obs / alloc, 4) if alloc > 0 else None,
        "idle_cost": rounded(idle_cost) if obs > 0 else None,
    }


def _held_now(held: Iterable[Holding], held_since: Mapping[str, float]) -> dict[WorkloadKey, IdleWorkload]:
    found: dict[WorkloadKey, IdleWorkload] = {}
    for item in sorted(held, key=lambda holding: holding.start):
        known = found.setdefault(item.workload, IdleWorkload(item.workload, held_since=item.start))
        known.held_since = min(known.held_since, held_since.get(item.pod_uid, item.start))
        known.gpus[item.model] = known.gpus.get(item.model, 0.0) + item.gpus
        known.pods += 1
        known.labels, known.annotations = item.labels, item.annotations
    return found


def _look_back(
    connection: Connection, cluster: int, numbers: Mapping[int, IdleWorkload], rule: IdleRule, known: float
) -> None:
    """Follow each workload back in time until an hour in which it was not idle."""
    following = dict(numbers)
    end, last = known // HOUR * HOUR + HOUR, known - _MAX_LOOK_BACK
    for item in following.values():
        item.until = item.since = 0.0
    while following and end > last:
        start = max(end - DAY, last // HOUR * HOUR)
        hours = known_hours(connection, cluster, start, end)
        if not hours:
            return
        # Most workloads are not idle: the last hours show that, and no others are read.
        for some in filter(None, (hours[:_CHECKED_FIRST], hours[_CHECKED_FIRST:])):
            following = _still_following(connection, cluster, following, some, rule, known)
        end = start


def _still_following(
    connection: Connection,
    cluster: int,
    following: Mapping[int, IdleWorkload],
    hours: Sequence[KnownHour],
    rule: IdleRule,
    known: float,
) -> dict[int, IdleWorkload]:
    by_number: dict[int, dict[int, GroupSums]] = defaultdict(dict)
    for number, sums in sums_by_hour(connection, cluster, sorted(following), hours[-1].start, hours[0].start + HOUR):
        by_number[number][sums.start] = sums
    return {
        number: item
        for number, item in following.items()
        if _extend_idle_period(item, hours, by_number[number], rule, known)
    }


def _extend_idle_period(
    item: IdleWorkload,
    hours: Sequence[KnownHour],
    sums: Mapping[int, GroupSums],
    rule: IdleRule,
    known: float,
) -> bool:
    """Extend an idle period by earlier hours; return True if it may have begun even earlier."""
    for start, first, last in hours:
        hour = sums.get(start)
        whole = last >= start + HOUR
        if not item.until and not whole and (hour is None or not _is_known(hour, rule)):
            # The running hour may not be measured yet.
            continue
        if item.until and start + HOUR < item.since:
            # An hour is missing.
            return False
        if hour is None or not _is_known(hour, rule) or hour.util_gpu_s >= rule.below * hour.obs_gpu_s:
            return False
        if not item.until:
            item.until = min(last, known)
        # Before its oldest pod started, the workload held other GPUs or none.
        item.since = min(max(first, item.held_since), item.until)
        item.obs_gpu_s += hour.obs_gpu_s
        item.util_gpu_s += hour.util_gpu_s
        if start <= item.held_since:
            return False
    return True


def _is_known(hour: GroupSums, rule: IdleRule) -> bool:
    return hour.obs_gpu_s > 0 and hour.obs_gpu_s >= rule.coverage * hour.alloc_gpu_s

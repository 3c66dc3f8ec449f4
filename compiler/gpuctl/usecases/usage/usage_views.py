"""Usage of groups: the total of a period, and its development by steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gpuctl.kube.api_errors import ClusterError
from gpuctl.objects.durations import DAY, HOUR
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.gpu_time import GpuHolder, GpuTime, KnownTime, LedgerLine, sum_gpu_times
from gpuctl.reading.usage.usage_records import GroupUse, UsageRange, UsageView
from gpuctl.usecases.usage.usage_backends import UsageBackend, is_refused

_MOST_STEPS = 10_000
"""Maximum number of rows (groups times steps) that a table reads if the user names no step."""


@dataclass(frozen=True)
class ViewOptions:
    """Options of a view.

    :param step: step of the ledger; "" chooses one by the length of the range.
    :param order: one of :data:`ORDERS`.
    :param limit: maximum number of groups; None for all.
    :param over_time: also return steps.
    """

    step: str = ""
    order: str = "gpu-hours"
    limit: int | None = None
    over_time: bool = True


_Order = Callable[[GroupUse], float]


def _unknown_last(value: float | None) -> float:
    return float("inf") if value is None else value


ORDERS: dict[str, _Order] = {
    "gpu-hours": lambda group: -group.total.held,
    "idle": lambda group: -group.total.idle,
    "use": lambda group: _unknown_last(group.total.mean_use),
    "coverage": lambda group: _unknown_last(group.total.coverage),
    "name": lambda group: 0.0,
}
"""Orders of groups: most GPU-hours, most idle, least utilization, least coverage, or by name."""


def usage_view(backend: UsageBackend, level: str, asked: UsageRange, options: ViewOptions, key: str = "") -> UsageView:
    """Return the usage of the groups of a level.

    :raises ClusterError: the query failed, or the user may not see it.
    """
    lines = list(backend.ledger(level, asked, "total", key))
    totals = _totals(lines)
    found = [GroupUse(holder, use) for holder, use in totals.items()]
    found.sort(key=lambda group: (ORDERS[options.order](group), group.holder.sort_key))
    step = options.step or step_of(asked)
    times: Sequence[tuple[str, str]] = ()
    known_steps: Sequence[KnownTime | None] = ()
    capacities: Sequence[float | None] = ()
    shown = found if options.limit is None else found[: options.limit]
    if options.over_time and (options.step or len(found) * count_steps(asked, step) <= _MOST_STEPS):
        rows = list(backend.ledger(level, asked, step, key))
        times = timeline(rows)
        known_in = {(row.time, row.end): row.known for row in rows}
        known_steps = [known_in.get(time) for time in times]
        by_holder = _by_holder(rows)
        shown = [group._replace(steps=_steps(by_holder.get(group.holder, {}), times)) for group in shown]
        if any(row.use.capacity is None for row in rows):
            capacities = _capacities(backend, asked, step, times)
    of_cluster = lines if level == "cluster" else _of_cluster(backend, asked, "total")
    whole = sum_gpu_times(row.use for row in of_cluster) if of_cluster else None
    # All rows of one step have the same known part.
    known = next((row.known for row in (*lines, *of_cluster)), None)
    total = sum_gpu_times(totals.values())
    return UsageView(level, key, asked, step, times, shown, len(found), total, whole, known, known_steps, capacities)


def step_of(asked: UsageRange) -> str:
    """Return the step for a range: some dozens of steps."""
    length = asked.end - asked.start
    return "hour" if length <= 2 * DAY else "day" if length <= 62 * DAY else "week" if length <= 400 * DAY else "month"


def count_steps(asked: UsageRange, step: str) -> int:
    """Return the approximate number of steps."""
    seconds = {"hour": HOUR, "day": DAY, "week": 7 * DAY, "month": 28 * DAY}.get(step, float("inf"))
    return int((asked.end - asked.start) / seconds) + 1


def timeline(rows: Iterable[LedgerLine]) -> list[tuple[str, str]]:
    """Return the steps of all rows in order, with ``("", "")`` for each missing step."""
    spans = {(row.time, row.end): (_moment(row.time), _moment(row.end)) for row in rows}
    found: list[tuple[str, str]] = []
    until: datetime | None = None
    for span, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        if until is not None and start > until:
            found += [("", "")] * max(1, round((start - until) / max(end - start, timedelta(hours=1))))
        found.append(span)
        until = end
    return found


def _moment(text: str) -> datetime:
    try:
        return parse_timestamp(text)
    except ValueError:
        raise ClusterError(f"the service returned an invalid timestamp: {text[:40]}") from None


def _totals(rows: Iterable[LedgerLine]) -> dict[GpuHolder, GpuTime]:
    found: dict[GpuHolder, list[GpuTime]] = {}
    for row in rows:
        found.setdefault(row.holder, []).append(row.use)
    return {holder: parts[0] if len(parts) == 1 else sum_gpu_times(parts) for holder, parts in found.items()}


def _by_holder(rows: Iterable[LedgerLine]) -> Mapping[GpuHolder, Mapping[tuple[str, str], GpuTime]]:
    found: dict[GpuHolder, dict[tuple[str, str], GpuTime]] = {}
    for row in rows:
        found.setdefault(row.holder, {})[row.time, row.end] = row.use
    return found


def _steps(of_holder: Mapping[tuple[str, str], GpuTime], times: Iterable[tuple[str, str]]) -> list[GpuTime | None]:
    return [of_holder.get(time) for time in times]


def _capacities(
    backend: UsageBackend, asked: UsageRange, step: str, times: Iterable[tuple[str, str]]
) -> list[float | None]:
    """Return the capacity of the cluster in each step; None if unknown or not visible."""
    found = {(row.time, row.end): row.use.capacity for row in _of_cluster(backend, asked, step)}
    return [found.get(time) for time in times]


def _of_cluster(backend: UsageBackend, asked: UsageRange, step: str) -> list[LedgerLine]:
    """Return the rows of the whole cluster; [] if the user may not see it."""
    try:
        return list(backend.ledger("cluster", replace(asked, namespace=""), step))
    except ClusterError as error:
        if is_refused(error):
            return []
        raise

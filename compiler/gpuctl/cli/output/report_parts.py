"""A month's report as parts that a page and Markdown show alike: texts, tables whose columns add up, and plots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuctl.cli.output.usage_amounts import covered, percent, told_known
from gpuctl.reading.gpu_time import GpuTime, added
from gpuctl.reading.month_report import HOUR, MonthReport, in_units
from gpuctl.reading.usage_shapes import GroupUse

TOP = 20
_TENTH = HOUR / 10
_CENT = 0.01
_UNSET = "__unset__"
PARTS = (
    ("busy", "busy", "held, measured and used"),
    ("idle", "held, idle", "held, measured and not used"),
    ("unobserved", "held, unknown", "held, and nothing measured what they did"),
    ("free", "free", "held by nobody"),
    ("unusable", "unusable", "held by nobody, on nodes that take no pods"),
    ("unsized", "unsized", "held by pods whose share of a card is of unknown size, or by nobody"),
)
"""Of a capacity: the field of :class:`GpuTime`, what it is called, and what it is."""


class Cell(NamedTuple):
    """A cell: ``is_name`` says that somebody else has written it, ``is_number`` that it stands to the right."""

    text: str
    is_name: bool = False
    is_number: bool = False


@dataclass(frozen=True)
class PartTable:
    """A table; the last row of ``rows`` is that of all, where ``has_total`` says so."""

    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    has_total: bool = True


@dataclass(frozen=True)
class ReportPart:
    """A part of a report, below its title. ``plot`` is one of ``capacity`` and ``days``, or ""."""

    title: str
    texts: Sequence[str] = ()
    table: PartTable | None = None
    plot: str = ""
    notes: Sequence[str] = ()


def title_of(report: MonthReport) -> str:
    """What the report is called."""
    return f"GPU usage {report.month}"


def parts_of(report: MonthReport) -> list[ReportPart]:
    """All of it, in order."""
    return [
        _whole(report),
        ReportPart("Day by day", (), None, "days", _of_days(report)),
        ReportPart(
            "By namespace",
            (),
            _groups(report, "namespace", "namespace", report.namespaces),
            notes=[*_open(report, report.namespaces), *_of_costs(report, "namespace")],
        ),
        *_labels(report),
        _models(report),
        *_workloads(report),
        _unknown(report),
    ]


def _labels(report: MonthReport) -> list[ReportPart]:
    if not report.key:
        return []
    notes = [
        f"{_UNSET} is what workloads without this {report.key_kind} held.",
        *_open(report, report.labels),
        *_of_costs(report, "label"),
    ]
    return [ReportPart(f"By {report.key}", (), _groups(report, "label", report.key, report.labels), notes=notes)]


def amounts_of(use: GpuTime) -> list[float]:
    """GPU-seconds of each of :data:`PARTS`."""
    return [max(0.0, getattr(use, name) or 0.0) for name, _, _ in PARTS]


def shown_parts(use: GpuTime) -> set[str]:
    """Return the fields of :data:`PARTS` that are shown: what is rare only if it is something."""
    return {name for name, _, _ in PARTS if name != "unsized" or use.unsized}


def tenths_of(use: GpuTime) -> list[int]:
    """Return tenths of GPU-hours of each of :data:`PARTS`, which add up to the capacity in tenths.

    What was held is rounded to the nearest, as in all other tables; what was not held takes the rest.
    """
    amounts = amounts_of(use)
    held = [in_units([amount], _TENTH)[0] for amount in amounts[:3]]
    [capacity] = in_units([sum(amounts)], _TENTH)
    others = [in_units([amount], _TENTH)[0] for amount in amounts[3:]]
    # The first that is something.
    number = next((number for number, amount in enumerate(amounts[3:]) if amount), None)
    rest = capacity - sum(held) - sum(others)
    if number is None or others[number] + rest < 0:
        return in_units(amounts, _TENTH)
    others[number] += rest
    return [*held, *others]


def _whole(report: MonthReport) -> ReportPart:
    whole = report.whole
    amounts, shown = amounts_of(whole), tenths_of(whole)
    capacity = whole.capacity or sum(amounts)
    rows = [
        [Cell(label), Cell(text), _tenths(units), _share(amount, capacity)]
        for (name, label, text), units, amount in zip(PARTS, shown, amounts, strict=True)
        if name in shown_parts(whole)
    ]
    rows.append([Cell("capacity"), Cell("all of it"), _tenths(sum(shown)), _share(sum(amounts), capacity)])
    heads = [Cell("part"), Cell("what it is"), _number("GPU-hours"), _number("share")]
    texts = [
        f"Cluster: {report.cluster}",
        f"Time: {_day(report, report.start)} to {_day(report, report.end)} ({report.zone})",
        f"Held: {percent(whole.share_of(whole.capacity)) or 'not known'} of the capacity",
        f"Used: {percent(whole.mean_use) or 'not known'} of what was measured",
        f"Measured: {covered(whole.coverage) or 'nothing'} of what was held",
        f"Known: {_known(report)}",
        _state(report),
        f"Made: {_minute(report, report.made)} ({report.zone})"
        + (", with the prices in platform.yaml at that time" if report.prices else ""),
    ]
    return ReportPart("What became of the GPUs", texts, PartTable(heads, rows), "capacity")


class _Row(NamedTuple):
    """A row of a table of groups: its names, and what they held in units that add up to what all held.

    ``cents``: of what they held, and of what was idle; None where the cost is not known. Empty without prices.
    """

    names: Sequence[Cell]
    use: GpuTime
    units: Sequence[int]
    cents: Sequence[int | None]


_HELD = ("held", "busy", "idle", "unobserved")


def _groups(report: MonthReport, level: str, head: str, groups: Sequence[GroupUse]) -> PartTable:
    rows = _rounded(report, level, [([Cell(group.holder.value, True)], group.total) for group in groups])
    return _use_table(report, [Cell(head)], rows)


def _rounded(report: MonthReport, level: str, named: Sequence[tuple[Sequence[Cell], GpuTime]]) -> list[_Row]:
    """Return rows whose units add up, in each column of GPU-hours and of money."""
    columns = [in_units([getattr(use, name) for _, use in named], _TENTH) for name in _HELD]
    costs = report.costs.get(level, ())
    money = [_in_cents([cost.held for cost in costs]), _in_cents([cost.idle for cost in costs])] if costs else []
    return [
        _Row(names, use, [column[number] for column in columns], [column[number] for column in money])
        for number, (names, use) in enumerate(named)
    ]


def _in_cents(amounts: Sequence[float | None]) -> list[int | None]:
    known = iter(in_units([amount for amount in amounts if amount is not None], _CENT))
    return [None if amount is None else next(known) for amount in amounts]


def _together(names: Sequence[Cell], rows: Sequence[_Row]) -> _Row:
    """Return rows as one; its cost is known if all their costs are."""
    return _Row(
        names,
        added(row.use for row in rows),
        [sum(column) for column in zip(*(row.units for row in rows), strict=True)],
        [_sum_known(column) for column in zip(*(row.cents for row in rows), strict=True)],
    )


def _sum_known(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _use_table(report: MonthReport, heads: Sequence[Cell], rows: Sequence[_Row]) -> PartTable:
    figures = ["GPU-hours", "of capacity", "busy", "idle", "unknown", "use", "measured"]
    if report.costs:
        figures += [_money("cost", report), _money("idle cost", report)]
    last = [_together([Cell("all"), *(Cell("") for _ in heads[1:])], rows)] if rows else []
    cells = [_use_cells(report, row) for row in [*rows, *last]]
    return PartTable([*heads, *map(_number, figures)], cells, has_total=bool(last))


def _use_cells(report: MonthReport, row: _Row) -> list[Cell]:
    held, *others = row.units[: len(_HELD)]
    return [
        *row.names,
        _tenths(held),
        _share(row.use.held, report.whole.capacity),
        *map(_tenths, others),
        _number(percent(row.use.mean_use) or "-"),
        _number(covered(row.use.coverage) or "-"),
        *map(_cents, row.cents),
    ]


def _models(report: MonthReport) -> ReportPart:
    uses = [group.total for group in report.models]
    prices = [report.prices.get(group.holder.value) for group in report.models]
    amounts = {name: [getattr(use, name) or 0.0 for use in uses] for name in ("capacity", "held", "idle", "free")}
    hours = [in_units(column, _TENTH) for column in amounts.values()]
    costs = [
        _in_cents([_cost(amount, price) for amount, price in zip(amounts[name], prices, strict=True)])
        for name in ("held", "idle", "free")
    ]
    rows = [
        [
            Cell(group.holder.value, True),
            *(_tenths(column[number]) for column in hours),
            _number(percent(use.mean_use) or "-"),
            _number("-" if price is None else f"{price:g}"),
            *(_cents(column[number]) for column in costs),
        ]
        for number, (group, use, price) in enumerate(zip(report.models, uses, prices, strict=True))
    ]
    rows.append(
        [
            Cell("all"),
            *(_tenths(sum(column)) for column in hours),
            _number(percent(added(uses).mean_use) or "-"),
            Cell(""),
            *(_cents(_sum_known(column)) for column in costs),
        ]
    )
    figures = ["capacity", "GPU-hours", "idle", "free", "use", "price"]
    figures += [_money(name, report) for name in ("cost", "idle cost", "free cost")]
    table = PartTable([Cell("model"), *map(_number, figures)], rows)
    unpriced = sum(None in (column[number] for column in costs) for number in range(len(uses)))
    return ReportPart("By model", (), table, notes=[*_open(report, report.models), *_of_prices(report, unpriced)])


def _cost(gpu_seconds: float, price: float | None) -> float | None:
    """Return the cost; what is nothing costs nothing, whatever its price is."""
    if price is None:
        return None if gpu_seconds else 0.0
    return gpu_seconds / HOUR * price


def _of_prices(report: MonthReport, unpriced: int) -> list[str]:
    """What costs are not known, and why."""
    if not report.prices:
        return ["No prices are set: platform.yaml has them in usage.prices.models."]
    return [f"{unpriced} of the models have no price: the cost of all is not known."] if unpriced else []


def _of_costs(report: MonthReport, level: str) -> list[str]:
    """Return the reasons why costs of a table are not known, if any."""
    costs = report.costs.get(level, ())
    notes = []
    if any(cost.held is None for cost in costs):
        notes.append(
            "A cost is `-` if a GPU model has no price, or if it is not kept which pods held GPUs in all of the month."
        )
    if any(cost.idle is None and cost.held is not None for cost in costs):
        notes.append(
            "An idle cost is `-` if one workload held GPUs of several prices: which of them were idle is not known."
        )
    return notes


def _workloads(report: MonthReport) -> list[ReportPart]:
    """By what they held, and by what they left idle: the same rows, so that each has the same numbers in both."""
    heads = [Cell("workload"), Cell("namespace"), Cell("kind")]
    named = [([Cell(name, True) for name in _names(group)], group.total) for group in report.workloads]
    rows = _rounded(report, "workload", named)
    most_idle = sorted(rows, key=lambda row: -row.use.idle)
    said = "Idle is what was held, measured and not used: a GPU that is used by 30 % is idle by 70 %."
    held = ReportPart(
        "Workloads that held the most",
        (),
        _use_table(report, heads, _cut(rows)),
        notes=[*_open(report, report.workloads), *_of_costs(report, "workload")],
    )
    return [held, ReportPart("Workloads that left the most idle", [said], _use_table(report, heads, _cut(most_idle)))]


def _names(group: GroupUse) -> tuple[str, str, str]:
    return group.holder.name, group.holder.namespace, group.holder.kind


def _cut(rows: Sequence[_Row]) -> list[_Row]:
    """The first of them, and the others in one row."""
    shown = list(rows[:TOP])
    if rest := rows[TOP:]:
        shown.append(_together([Cell(f"{len(rest)} others"), Cell(""), Cell("")], rest))
    return shown


def _unknown(report: MonthReport) -> ReportPart:
    whole = report.whole
    [tenths] = in_units([whole.unobserved], _TENTH)
    texts = [
        f"{tenths / 10:.1f} GPU-hours were held while nothing measured the GPUs: they are neither busy nor idle.",
        f"{_known(report)[0].upper()}{_known(report)[1:]} are known; the figures cover only these."
        if report.known.seconds < report.end - report.start
        else "Every hour of the month is known.",
    ]
    texts.append(
        "GPU-hours are rounded to tenths, and money to hundredths, so that each column adds up to its last row; what "
        "stands beside each other may differ from its sum in the last digit."
    )
    return ReportPart("What is not known", texts)


def _known(report: MonthReport) -> str:
    """Return which part of the month is known: ``5 of 744 hours, 2026-10-01 00:00 to 2026-10-01 05:00``."""
    return told_known(report.known, report.end - report.start, ZoneInfo(report.zone))


def _state(report: MonthReport) -> str:
    if report.is_final:
        return "State: final"
    why = "the month is not over" if report.made < report.end else "late measurements may still change some hours"
    return f"State: provisional, {why}"


def _of_days(report: MonthReport) -> list[str]:
    lost = report.known.seconds - report.days_known
    if lost < 1:
        return []
    return [f"{lost / HOUR:.1f} known hours are not drawn: only days of UTC are kept, which a day of this zone cuts."]


def _open(report: MonthReport, groups: Sequence[GroupUse]) -> list[str]:
    """That the parts are not the whole, where they are not."""
    hours = report.differs(groups)
    word = "more" if hours > 0 else "less"
    return [f"These are {abs(hours):.1f} GPU-hours {word} than the cluster's: the ledger is open."] if hours else []


def _tenths(units: int) -> Cell:
    return _number(f"{units // 10}.{units % 10}")


def _cents(units: int | None) -> Cell:
    return _number("-" if units is None else f"{units // 100}.{units % 100:02}")


def _share(amount: float, capacity: float | None) -> Cell:
    return _number(percent(100 * amount / capacity if capacity else None) or "-")


def _number(text: str) -> Cell:
    return Cell(text, is_number=True)


def _money(text: str, report: MonthReport) -> str:
    return f"{text} {report.currency}".rstrip()


def _day(report: MonthReport, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(report.zone)).strftime("%Y-%m-%d")


def _minute(report: MonthReport, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(report.zone)).strftime("%Y-%m-%d %H:%M")

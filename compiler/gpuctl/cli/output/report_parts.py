"""A month's report as parts that a page and Markdown show alike: texts, tables whose columns add up, and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuctl.cli.output.usage_amounts import covered, percent
from gpuctl.reading.gpu_time import added
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
class Part:
    """A part of a report, below its title. ``plot`` is one of ``capacity`` and ``days``, or ""."""

    title: str
    texts: Sequence[str] = ()
    table: PartTable | None = None
    plot: str = ""
    notes: Sequence[str] = ()


def title_of(report: MonthReport) -> str:
    """What the report is called."""
    return f"GPU usage {report.month}"


def parts_of(report: MonthReport) -> list[Part]:
    """All of it, in order."""
    return [
        _whole(report),
        Part("Day by day", (), None, "days"),
        Part(
            "By namespace", (), _groups(report, "namespace", report.namespaces), notes=_open(report, report.namespaces)
        ),
        Part(
            f"By {report.key}",
            (),
            _groups(report, report.key, report.labels),
            notes=[
                f"`{_UNSET}` is what workloads without this label held.",
                *_open(report, report.labels),
            ],
        ),
        _models(report),
        _workloads(report),
        _waste(report),
        _unknown(report),
    ]


def _whole(report: MonthReport) -> Part:
    whole = report.whole
    amounts = [getattr(whole, name) or 0.0 for name, _, _ in PARTS]
    shown = in_units(amounts, _TENTH)
    capacity = whole.capacity or sum(amounts)
    rows = [
        [Cell(label), Cell(text), _tenths(units), _share(amount, capacity)]
        for (_, label, text), units, amount in zip(PARTS, shown, amounts, strict=True)
    ]
    rows.append([Cell("capacity"), Cell("all of it"), _tenths(sum(shown)), _share(sum(amounts), capacity)])
    heads = [Cell("part"), Cell("what it is"), _number("GPU-hours"), _number("share")]
    texts = [
        f"Cluster: {report.cluster}",
        f"Time: {_day(report, report.start)} to {_day(report, report.end)} ({report.zone})",
        f"Held: {percent(whole.share_of(whole.capacity)) or 'not known'} of the capacity",
        f"Used: {percent(whole.mean_use) or 'not known'} of what was measured",
        f"Measured: {covered(whole.coverage) or 'nothing'} of what was held",
    ]
    return Part("What became of the GPUs", texts, PartTable(heads, rows), "capacity")


def _groups(report: MonthReport, head: str, groups: Sequence[GroupUse]) -> PartTable:
    return _use_table(report, [Cell(head)], [[Cell(group.holder.value, True)] for group in groups], groups)


def _use_table(
    report: MonthReport, heads: Sequence[Cell], names: Sequence[Sequence[Cell]], groups: Sequence[GroupUse]
) -> PartTable:
    """Rows whose columns of GPU-hours, and of money, add up to the last one."""
    uses = [group.total for group in groups]
    columns = [
        in_units([getattr(use, name) for use in uses], _TENTH) for name in ("held", "busy", "idle", "unobserved")
    ]
    price = report.one_price
    money = [] if price is None else [in_units([use.held / HOUR * price for use in uses], _CENT)]
    rows = [
        [
            *name,
            _tenths(columns[0][number]),
            _share(use.held, report.whole.capacity),
            *(_tenths(column[number]) for column in columns[1:]),
            _number(percent(use.mean_use) or "-"),
            _number(covered(use.coverage) or "-"),
            *(_cents(column[number]) for column in money),
        ]
        for number, (name, use) in enumerate(zip(names, uses, strict=True))
    ]
    whole = added(uses)
    last: list[Cell] = [Cell("all"), *(Cell("") for _ in heads[1:]), _tenths(sum(columns[0]))]
    last += [_share(whole.held, report.whole.capacity), *(_tenths(sum(column)) for column in columns[1:])]
    last += [_number(percent(whole.mean_use) or "-"), _number(covered(whole.coverage) or "-")]
    last += [_cents(sum(column)) for column in money]
    figures = ["GPU-hours", "of capacity", "busy", "idle", "unknown", "use", "measured"]
    figures += [f"cost {report.currency}".rstrip() for _ in money]
    return PartTable([*heads, *map(_number, figures)], [*rows, last])


def _models(report: MonthReport) -> Part:
    uses = [group.total for group in report.models]
    shown = {
        name: in_units([getattr(use, name) or 0.0 for use in uses], _TENTH) for name in ("capacity", "held", "idle")
    }
    prices = [report.prices.get(group.holder.value) for group in report.models]
    costs = [None if price is None else use.held / HOUR * price for use, price in zip(uses, prices, strict=True)]
    cents = in_units([cost or 0.0 for cost in costs], _CENT)
    rows = [
        [
            Cell(group.holder.value, True),
            *(_tenths(column[number]) for column in shown.values()),
            _number(percent(use.mean_use) or "-"),
            _number("-" if prices[number] is None else f"{prices[number]:g}"),
            _number("-") if costs[number] is None else _cents(cents[number]),
        ]
        for number, (group, use) in enumerate(zip(report.models, uses, strict=True))
    ]
    unpriced = [
        group for group, price in zip(report.models, prices, strict=True) if price is None and group.total.held > 0
    ]
    whole = added(uses)
    rows.append(
        [
            Cell("all"),
            *(_tenths(sum(column)) for column in shown.values()),
            _number(percent(whole.mean_use) or "-"),
            Cell(""),
            _number("-") if unpriced or not report.prices else _cents(sum(cents)),
        ]
    )
    heads = [Cell("model"), *map(_number, ("capacity", "GPU-hours", "idle", "use", "price", _money("cost", report)))]
    notes = list(_open(report, report.models))
    if not report.prices:
        notes.append("No prices are set: platform.yaml has them in usage.prices.models.")
    elif unpriced:
        notes.append(f"{len(unpriced)} of the models that were held have no price: what all of them cost is not known.")
    if report.prices and report.one_price is None:
        notes.append("What was held is not known by model of each namespace: with several prices it has no cost there.")
    return Part("By model", (), PartTable(heads, rows), notes=notes)


def _workloads(report: MonthReport) -> Part:
    return Part(
        "Workloads that held the most",
        (),
        _cut(report, report.workloads),
        notes=_open(report, report.workloads),
    )


def _cut(report: MonthReport, groups: Sequence[GroupUse]) -> PartTable:
    """The first of them, and the others in one row, so that they add up."""
    heads = [Cell("workload"), Cell("namespace"), Cell("kind")]
    names = [
        [Cell(group.holder.name, True), Cell(group.holder.namespace, True), Cell(group.holder.kind, True)]
        for group in groups[:TOP]
    ]
    shown = list(groups[:TOP])
    if rest := groups[TOP:]:
        names.append([Cell(f"{len(rest)} others"), Cell(""), Cell("")])
        shown.append(rest[0]._replace(total=added(group.total for group in rest)))
    return _use_table(report, heads, names, shown)


def _waste(report: MonthReport) -> Part:
    idle: Callable[[GroupUse], float] = lambda group: -group.total.idle  # noqa: E731
    groups = sorted((group for group in report.workloads), key=idle)
    return Part(
        "Workloads that left the most idle",
        ["Idle is what was held, measured and not used: a GPU that is used by 30 % is idle by 70 %."],
        _cut(report, groups),
    )


def _unknown(report: MonthReport) -> Part:
    whole = report.whole
    tenths = in_units([whole.unobserved, whole.held - whole.unobserved], _TENTH)[0] / 10
    known = datetime.fromisoformat(report.known_until.replace("Z", "+00:00")).timestamp()
    texts = [
        f"{tenths:.1f} GPU-hours were held while nothing measured what the GPUs did: they are neither busy nor idle.",
        f"{report.missing_hours} of {report.hours} hours are missing between hours that are known."
        if report.missing_hours
        else "No hour is missing between hours that are known.",
    ]
    if known < report.end:
        texts.append(f"The month is known until {_minute(report, known)}: what comes after that is not in here.")
    begun = datetime.fromisoformat(report.known_from.replace("Z", "+00:00")).timestamp()
    if begun > report.start:
        texts.append(f"The month is known from {_minute(report, begun)} on: what was before that is not in here.")
    texts.append(
        "GPU-hours are rounded to tenths, and money to hundredths, so that each column adds up to its last row; what "
        "stands beside each other may differ from its sum in the last digit."
    )
    return Part("What is not known", texts)


def _open(report: MonthReport, groups: Sequence[GroupUse]) -> list[str]:
    """That the parts are not the whole, where they are not."""
    hours = report.differs(groups)
    word = "more" if hours > 0 else "less"
    return [f"These are {abs(hours):.1f} GPU-hours {word} than the cluster's: the ledger is open."] if hours else []


def _tenths(units: int) -> Cell:
    return _number(f"{units // 10}.{units % 10}")


def _cents(units: int) -> Cell:
    return _number(f"{units // 100}.{units % 100:02}")


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

"""Sections of the monthly report: titles, texts, tables, plots and notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from gpuctl.cli.output.capacity_parts import PARTS, TENTH, amounts_of, shown_parts, tenths_of
from gpuctl.cli.output.rounded_sums import round_to_sum
from gpuctl.cli.output.usage_amounts import coverage_percent, known_time_text, percent
from gpuctl.cli.output.usage_report_plots import Plot, capacity_plot, day_plot
from gpuctl.cli.output.usage_report_tables import (
    Cell,
    ReportTable,
    UseRow,
    cents_cell,
    in_cents,
    number_cell,
    rounded_rows,
    share_cell,
    sum_known,
    sum_row,
    tenths_cell,
    use_table,
    with_currency,
)
from gpuctl.language.sentences import Template, say
from gpuctl.objects.durations import HOUR
from gpuctl.reading.usage.gpu_time import sum_gpu_times
from gpuctl.reading.usage.month_report import MonthReport
from gpuctl.reading.usage.usage_costs import GroupCost
from gpuctl.reading.usage.usage_records import GroupUse

_TOP = 20
_UNSET = "__unset__"


@dataclass(frozen=True)
class ReportSection:
    """A section of a report, with its title."""

    title: str
    texts: Sequence[str] = ()
    table: ReportTable | None = None
    plot: Plot | None = None
    notes: Sequence[str] = ()


def report_title(report: MonthReport) -> str:
    return say("GPU usage {month}", month=report.month)


def report_sections(report: MonthReport) -> list[ReportSection]:
    return [
        _overview_section(report),
        ReportSection(say("Day by day"), plot=day_plot(report), notes=_day_notes(report)),
        ReportSection(
            say("By namespace"),
            table=_groups(report, "namespace", say("namespace"), report.namespaces),
            notes=[*_open_ledger_notes(report, report.namespaces), *_cost_notes(report, "namespace")],
        ),
        *_label_sections(report),
        _model_section(report),
        *_workload_sections(report),
        _unknown_section(report),
    ]


def _overview_section(report: MonthReport) -> ReportSection:
    whole = report.whole
    amounts, shown = amounts_of(whole), tenths_of(whole)
    capacity = whole.capacity or sum(amounts)
    rows = [
        [Cell(say(label)), Cell(say(text)), tenths_cell(units), share_cell(amount, capacity)]
        for (name, label, text), units, amount in zip(PARTS, shown, amounts, strict=True)
        if name in shown_parts(whole)
    ]
    whole_row = [Cell(say("capacity")), Cell(say("all of it"))]
    rows.append([*whole_row, tenths_cell(sum(shown)), share_cell(sum(amounts), capacity)])
    heads = [Cell(say("part")), Cell(say("what it is")), number_cell(say("GPU-hours")), number_cell(say("share"))]
    held, used = percent(whole.share_of(whole.capacity)), percent(whole.mean_use)
    measured = coverage_percent(whole.coverage)
    made = (
        Template("Made: {time} ({zone}), with the prices in platform.yaml at that time")
        if report.prices
        else Template("Made: {time} ({zone})")
    )
    start, end = _day(report, report.start), _day(report, report.end)
    texts = [
        say("Cluster: {name}", name=report.cluster),
        say("Time: {start} to {end} ({zone})", start=start, end=end, zone=report.zone),
        say("Held: {share} of the capacity", share=held) if held else say("Held: unknown share of the capacity"),
        say("Used: {share} of what was measured", share=used)
        if used
        else say("Used: unknown share of what was measured"),
        say("Measured: {share} of what was held", share=measured)
        if measured
        else say("Measured: nothing of what was held"),
        say("Known: {known}", known=_known(report)),
        _state(report),
        say(made, time=_minute(report, report.made), zone=report.zone),
    ]
    return ReportSection(say("GPU capacity and use"), texts, ReportTable(heads, rows), capacity_plot(report))


def _label_sections(report: MonthReport) -> list[ReportSection]:
    if not report.key:
        return []
    notes = [
        (
            say("{unset} is what workloads without this label held.", unset=_UNSET)
            if report.key_kind == "label"
            else say("{unset} is what workloads without this annotation held.", unset=_UNSET)
        ),
        *_open_ledger_notes(report, report.labels),
        *_cost_notes(report, "label"),
    ]
    return [
        ReportSection(
            say("By {key}", key=report.key), (), _groups(report, "label", report.key, report.labels), notes=notes
        )
    ]


def _groups(report: MonthReport, level: str, head: str, groups: Sequence[GroupUse]) -> ReportTable:
    rows = rounded_rows(report, level, [([Cell(group.holder.value, "name")], group.total) for group in groups])
    return use_table(report, [Cell(head)], rows)


def _model_section(report: MonthReport) -> ReportSection:
    uses = [group.total for group in report.models]
    amounts = {name: [getattr(use, name) or 0.0 for use in uses] for name in ("capacity", "held", "idle", "free")}
    hours = [round_to_sum(column, TENTH) for column in amounts.values()]
    priced = report.costs.get("model") or [GroupCost(None, None)] * len(uses)
    costs = [in_cents([getattr(cost, name) for cost in priced]) for name in GroupCost._fields]
    rows = [
        [
            Cell(group.holder.value, "name"),
            *(tenths_cell(column[number]) for column in hours),
            number_cell(percent(use.mean_use) or "-"),
            number_cell(_prices_of(report, group.holder.value)),
            *(cents_cell(column[number]) for column in costs),
        ]
        for number, (group, use) in enumerate(zip(report.models, uses, strict=True))
    ]
    rows.append(
        [
            Cell(say("all")),
            *(tenths_cell(sum(column)) for column in hours),
            number_cell(percent(sum_gpu_times(uses).mean_use) or "-"),
            Cell(""),
            *(cents_cell(sum_known(column)) for column in costs),
        ]
    )
    figures: list[str] = [say("capacity"), say("GPU-hours"), say("idle"), say("free"), say("use"), say("price")]
    figures += [with_currency(text, report) for text in (say("cost"), say("idle cost"), say("free cost"))]
    table = ReportTable([Cell(say("model")), *map(number_cell, figures)], rows)
    unknown = [group.holder.value for group, cost in zip(report.models, priced, strict=True) if None in cost]
    notes = [*_open_ledger_notes(report, report.models), *_price_notes(report, unknown)]
    return ReportSection(say("By model"), (), table, notes=notes)


def _prices_of(report: MonthReport, model: str) -> str:
    """Return the prices of a model in the month: ``9; 8 from 2026-10-15``; ``-`` without a price."""
    found: list[str] = []
    before: float | None = None
    for period in report.prices:
        price = period.models.get(model)
        if price != before:
            is_first = period is report.prices[0]
            text = f"{price:g}"
            found.append(text if is_first else say("{price} from {time}", price=text, time=period.since))
        before = price
    return "; ".join(found) or "-"


def _workload_sections(report: MonthReport) -> list[ReportSection]:
    """Return two tables with the same rows, by held and by idle GPU-hours; their figures are rounded together."""
    heads = [Cell(say("workload")), Cell(say("namespace")), Cell(say("kind"))]
    named = [([Cell(name, "name") for name in _names(group)], group.total) for group in report.workloads]
    rows = rounded_rows(report, "workload", named)
    most_idle = sorted(rows, key=lambda row: -row.use.idle)
    said = say("Idle is what was held, measured and not used: a GPU that is used by 30 % is idle by 70 %.")
    held = ReportSection(
        say("Workloads that held the most"),
        (),
        use_table(report, heads, _top_rows(report, rows)),
        notes=[*_open_ledger_notes(report, report.workloads), *_cost_notes(report, "workload")],
    )
    idle = use_table(report, heads, _top_rows(report, most_idle))
    return [held, ReportSection(say("Workloads that left the most idle"), [said], idle)]


def _names(group: GroupUse) -> tuple[str, str, str]:
    return group.holder.name, group.holder.namespace, group.holder.kind


def _top_rows(report: MonthReport, rows: Sequence[UseRow]) -> list[UseRow]:
    """Return the first rows, and one row with the sum of the others."""
    shown = list(rows[:_TOP])
    if rest := rows[_TOP:]:
        shown.append(sum_row([Cell(say("{number:other}", number=len(rest))), Cell(""), Cell("")], rest))
    return shown


def _unknown_section(report: MonthReport) -> ReportSection:
    whole = report.whole
    [tenths] = round_to_sum([whole.unobserved], TENTH)
    known = _known(report)
    texts = [
        say(
            "{hours} GPU-hours were held but not measured: they are neither busy nor idle.", hours=f"{tenths / 10:.1f}"
        ),
        say("{known} are known; the figures cover only these.", known=f"{known[0].upper()}{known[1:]}")
        if report.known.seconds < report.end - report.start
        else say("Every hour of the month is known."),
        say(
            "GPU-hours are rounded to tenths, and money to hundredths, so that each column adds up to its last row; "
            "what stands beside each other may differ from its sum in the last digit.",
        ),
    ]
    return ReportSection(say("Unknown"), texts)


def _known(report: MonthReport) -> str:
    """Return the known part of the month: ``5 of 744 hours, 2026-10-01 00:00 to 2026-10-01 05:00``."""
    return known_time_text(report.known, report.end - report.start, ZoneInfo(report.zone))


def _state(report: MonthReport) -> str:
    if report.is_final:
        return say("State: final")
    if report.made < report.end:
        return say("State: provisional, the month is not over")
    return say("State: provisional, late measurements may still change some hours")


def _price_notes(report: MonthReport, unknown: Sequence[str]) -> list[str]:
    """Return notes on unknown costs of models.

    :param unknown: the models whose costs are unknown.
    """
    if not report.prices:
        return [say("No prices are set: set usage.prices.models in platform.yaml.")]
    unpriced = [name for name in unknown if any(name not in period.models for period in report.prices)]
    notes: list[str] = []
    if unpriced:
        notes.append(say("{number} of the models have no price: the total cost is unknown.", number=len(unpriced)))
    if len(unpriced) < len(unknown):
        notes.append(say("A cost is `-` if a price changes within a day whose hours are no longer kept."))
    return notes


def _cost_notes(report: MonthReport, level: str) -> list[str]:
    """Return notes on unknown costs in a table."""
    costs = report.costs.get(level, ())
    notes: list[str] = []
    if any(cost.held is None for cost in costs):
        notes.append(
            say(
                "A cost is `-` if a GPU model has no price, or if the pods that held GPUs are not kept for the whole "
                "month.",
            )
        )
    if any(cost.idle is None and cost.held is not None for cost in costs):
        notes.append(
            say(
                "An idle cost is `-` if one workload held GPUs of several prices: which of them were idle is unknown.",
            )
        )
    return notes


def _day_notes(report: MonthReport) -> list[str]:
    lost = report.known.seconds - report.days_known
    if lost < 1:
        return []
    return [
        say(
            "{hours} known hours are not drawn: only whole days of UTC are kept, which overlap two days of this zone.",
            hours=f"{lost / HOUR:.1f}",
        )
    ]


def _open_ledger_notes(report: MonthReport, groups: Sequence[GroupUse]) -> list[str]:
    """Return a note if the groups do not add up to the cluster."""
    hours = report.differs(groups)
    if not hours:
        return []
    amount = f"{abs(hours):.1f}"
    if hours > 0:
        return [say("These are {hours} GPU-hours more than the cluster's: the ledger is open.", hours=amount)]
    return [say("These are {hours} GPU-hours less than the cluster's: the ledger is open.", hours=amount)]


def _day(report: MonthReport, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(report.zone)).strftime("%Y-%m-%d")


def _minute(report: MonthReport, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(report.zone)).strftime("%Y-%m-%d %H:%M")

"""The monthly report as HTML and as GitHub Markdown: texts, tables whose columns add up, and plots.

Names come from users: HTML escapes every text, and Markdown shows names as code, in which no character has a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader

from gpuctl.cli.output.sparkline import sparkline
from gpuctl.cli.output.usage_amounts import coverage_percent, gpu_hours, known_time_text, percent
from gpuctl.language.sentences import Template, Translation, say, set_request_translation
from gpuctl.language.translation_files import chinese_sentences
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.gpu_time import GpuTime, sum_gpu_times
from gpuctl.reading.usage.month_report import MonthReport, round_to_sum
from gpuctl.reading.usage.price_list import HOUR
from gpuctl.reading.usage.usage_costs import GroupCost
from gpuctl.reading.usage.usage_records import GroupUse

_TOP = 20
_TENTH = HOUR / 10
_CENT = 0.01
_UNSET = "__unset__"
# Field of GpuTime, label, meaning.
_PARTS = (
    ("busy", Template("busy"), Template("held, measured and used")),
    ("idle", Template("held, idle"), Template("held, measured and not used")),
    ("unobserved", Template("held, unknown"), Template("held, not measured")),
    ("free", Template("free"), Template("not held")),
    ("unusable", Template("unusable"), Template("not held, on nodes that take no pods")),
    ("unsized", Template("unsized"), Template("held by pods with an unknown share of a card, or not held")),
)
# Sizes of a plot, in units of its viewBox.
_WIDTH, _BAR = 720, 28
_PLOT_TOP, _PLOT_HEIGHT, _PLOT_BOTTOM, _PLOT_LEFT = 12, 180, 22, 56


class Cell(NamedTuple):
    """A cell of a table. ``kind``: ``name`` for a text of users, ``n`` for a number, else ""."""

    text: str
    kind: str = ""


class ReportTable(NamedTuple):
    """A table. ``has_total``: its last row is the sum of the others."""

    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    has_total: bool = True


class SvgShape(NamedTuple):
    """An SVG element of a plot. The text of a rectangle is its title."""

    tag: str
    attributes: Mapping[str, str | int]
    text: str


class Plot(NamedTuple):
    """A plot. ``height``: in units of its viewBox. ``sparklines``: labels and lines, for Markdown."""

    title: str
    height: int
    shapes: Sequence[SvgShape]
    sparklines: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class ReportSection:
    """A section of a report, with its title."""

    title: str
    texts: Sequence[str] = ()
    table: ReportTable | None = None
    plot: Plot | None = None
    notes: Sequence[str] = ()


def render_report(report: MonthReport, form: str) -> str:
    """Return the report as ``html`` or ``markdown`` in its language, with a line break at its end."""

    def rendered() -> str:
        if report.language == "zh":
            set_request_translation(Translation(chinese_sentences()))
        return _page(report) if form == "html" else _markdown(report)

    return copy_context().run(rendered)


def _page(report: MonthReport) -> str:
    """Return the report as HTML without scripts and external resources."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["plain"] = lambda text: text.replace("`", "")
    shown = _shown_parts(report.whole)
    return environment.get_template("usage_report.html.j2").render(
        title=_title(report),
        language="zh-CN" if report.language == "zh" else report.language,
        cluster=report.cluster,
        width=_WIDTH,
        parts=_sections(report),
        key=[(name, say(label)) for name, label, _ in _PARTS if name in shown],
    )


def _markdown(report: MonthReport) -> str:
    blocks = [f"# {_title(report)}"]
    for part in _sections(report):
        blocks.append(f"## {_plain(part.title)}")
        blocks.append("\n".join(f"- {_plain(text)}" for text in part.texts))
        if part.plot is not None:
            blocks.append("\n".join(f"- {label} `{values}`" for label, values in part.plot.sparklines))
        if part.table is not None:
            blocks.append("\n".join(_markdown_rows(part.table)))
        blocks += map(_plain, part.notes)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _markdown_rows(table: ReportTable) -> Iterator[str]:
    marks = [Cell("---:" if cell.kind == "n" else "---") for cell in table.heads]
    for row in (table.heads, marks, *table.rows):
        texts = (_code(cell.text) if cell.kind == "name" else _plain(cell.text) for cell in row)
        yield f"| {' | '.join(texts)} |"


def _code(text: str) -> str:
    """Return a text as code in a table; the fence is longer than any run of backquotes in it."""
    text = " ".join(text.split()) or "-"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    margin = " " if text.startswith("`") or text.endswith("`") else ""
    barred = text.replace("|", "\\|")
    return f"{fence}{margin}{barred}{margin}{fence}"


def _plain(text: str) -> str:
    """Escape a text so that Markdown finds no link, markup or HTML in it."""
    shown = re.sub(r"([\\*_\[\]|~#])", r"\\\1", text)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")


def _title(report: MonthReport) -> str:
    return say("GPU usage {month}", month=report.month)


def _sections(report: MonthReport) -> list[ReportSection]:
    return [
        _overview_section(report),
        ReportSection(say("Day by day"), plot=_day_plot(report), notes=_day_notes(report)),
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


def _capacity_plot(report: MonthReport) -> Plot:
    """Return one bar, divided into the parts of the capacity."""
    amounts = _amounts(report.whole)
    total = sum(amounts) or 1.0
    shapes = []
    left = 0.0
    for (name, label, _), amount, units in zip(_PARTS, amounts, _tenths_of(report.whole), strict=True):
        width = _WIDTH * amount / total
        share = percent(100 * amount / total)
        title = say("{part}: {hours} GPU-hours ({share})", part=say(label), hours=f"{units / 10:.1f}", share=share)
        shapes += _bar(name, (left, 0), (width, _BAR), title)
        left += width
    return Plot(say("Use of the capacity"), _BAR, shapes)


def _day_plot(report: MonthReport) -> Plot:
    """Return a bar for each day, and a mark for each day without data."""
    zone = ZoneInfo(report.zone)
    first, last = (datetime.fromtimestamp(moment, zone).date() for moment in (report.start, report.end - 1))
    known = {_date(time, zone): use for time, use in report.days if use is not None}
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    most = max((sum(_amounts(use)) for use in known.values()), default=0.0) or 1.0
    step = (_WIDTH - _PLOT_LEFT) / len(days)
    bottom = _PLOT_TOP + _PLOT_HEIGHT
    shapes = []
    for share in (0.0, 0.5, 1.0):
        y = _PLOT_TOP + _PLOT_HEIGHT * (1 - share)
        shapes.append(
            SvgShape(
                "line",
                {"class": "grid", "x1": _PLOT_LEFT, "x2": _WIDTH, "y1": _coordinate(y), "y2": _coordinate(y)},
                "",
            )
        )
        shapes.append(_mark("scale", _PLOT_LEFT - 6, y + 4, gpu_hours(most * share)))
    for number, day in enumerate(days):
        left, top = _PLOT_LEFT + number * step, float(bottom)
        use = known.get(day)
        if use is None:
            shapes.append(_mark("gap", left + step / 2, bottom - 4, "?"))
        else:
            for (name, label, _), amount, units in zip(_PARTS, _amounts(use), _tenths_of(use), strict=True):
                height = _PLOT_HEIGHT * amount / most
                top -= height
                hours = f"{units / 10:.1f}"
                title = say("{day}, {part}: {hours} GPU-hours", day=f"{day:%Y-%m-%d}", part=say(label), hours=hours)
                shapes += _bar(name, (left + step * 0.1, top), (step * 0.8, height), title)
        if day.day == 1 or day.day % 5 == 0:
            shapes.append(_mark("day", left + step / 2, bottom + 16, str(day.day)))
    peak = max((use.capacity or use.held for use in known.values()), default=0.0)
    lines = [
        (said, sparkline((None if use is None else getattr(use, name) for _, use in report.days), peak))
        for name, said in (("held", say("held")), ("busy", say("busy")))
    ]
    return Plot(say("GPU-hours of each day"), bottom + _PLOT_BOTTOM, shapes, lines)


def _bar(part: str, place: tuple[float, float], size: tuple[float, float], title: str) -> list[SvgShape]:
    """Return a rectangle, or nothing if it is empty."""
    if min(size) <= 0:
        return []
    numbers = dict(zip(("x", "y", "width", "height"), map(_coordinate, (*place, *size)), strict=True))
    return [SvgShape("rect", {"class": part, **numbers}, title)]


def _mark(kind: str, x: float, y: float, text: str) -> SvgShape:
    return SvgShape("text", {"class": kind, "x": _coordinate(x), "y": _coordinate(y)}, text)


def _coordinate(value: float) -> str:
    """Return a coordinate, rounded to hundredths."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _date(time: str, zone: ZoneInfo) -> date:
    return parse_timestamp(time).astimezone(zone).date()


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


def _amounts(use: GpuTime) -> list[float]:
    """Return the GPU-seconds of each of ``_PARTS``."""
    return [max(0.0, getattr(use, name) or 0.0) for name, _, _ in _PARTS]


def _shown_parts(use: GpuTime) -> set[str]:
    """Return the fields of ``_PARTS`` that are shown: ``unsized`` is rare, so only if it is not 0."""
    return {name for name, _, _ in _PARTS if name != "unsized" or use.unsized}


def _tenths_of(use: GpuTime) -> list[int]:
    """Return tenths of GPU-hours of each of ``_PARTS``, which add up to the capacity in tenths.

    Held hours are rounded to the nearest, as in all other tables; the rounding error goes to a part that is not held.
    """
    amounts = _amounts(use)
    held = [round_to_sum([amount], _TENTH)[0] for amount in amounts[:3]]
    [capacity] = round_to_sum([sum(amounts)], _TENTH)
    others = [round_to_sum([amount], _TENTH)[0] for amount in amounts[3:]]
    number = next((number for number, amount in enumerate(amounts[3:]) if amount), None)
    rest = capacity - sum(held) - sum(others)
    if number is None or others[number] + rest < 0:
        return round_to_sum(amounts, _TENTH)
    others[number] += rest
    return [*held, *others]


def _overview_section(report: MonthReport) -> ReportSection:
    whole = report.whole
    amounts, shown = _amounts(whole), _tenths_of(whole)
    capacity = whole.capacity or sum(amounts)
    rows = [
        [Cell(say(label)), Cell(say(text)), _tenths(units), _share(amount, capacity)]
        for (name, label, text), units, amount in zip(_PARTS, shown, amounts, strict=True)
        if name in _shown_parts(whole)
    ]
    whole_row = [Cell(say("capacity")), Cell(say("all of it"))]
    rows.append([*whole_row, _tenths(sum(shown)), _share(sum(amounts), capacity)])
    heads = [Cell(say("part")), Cell(say("what it is")), _number(say("GPU-hours")), _number(say("share"))]
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
    return ReportSection(say("GPU capacity and use"), texts, ReportTable(heads, rows), _capacity_plot(report))


class _Row(NamedTuple):
    """A row of a table of groups. ``units``: tenths of GPU-hours of each of ``_HELD``.

    ``cents``: costs of held and of idle GPU-hours, hundredths; None for an unknown cost, empty without prices.
    """

    names: Sequence[Cell]
    use: GpuTime
    units: Sequence[int]
    cents: Sequence[int | None]


_HELD = ("held", "busy", "idle", "unobserved")


def _groups(report: MonthReport, level: str, head: str, groups: Sequence[GroupUse]) -> ReportTable:
    rows = _rounded(report, level, [([Cell(group.holder.value, "name")], group.total) for group in groups])
    return _use_table(report, [Cell(head)], rows)


def _rounded(report: MonthReport, level: str, named: Sequence[tuple[Sequence[Cell], GpuTime]]) -> list[_Row]:
    """Return rows whose rounded figures add up in each column."""
    columns = [round_to_sum([getattr(use, name) for _, use in named], _TENTH) for name in _HELD]
    costs = report.costs.get(level, ())
    money = [_in_cents([cost.held for cost in costs]), _in_cents([cost.idle for cost in costs])] if costs else []
    return [
        _Row(names, use, [column[number] for column in columns], [column[number] for column in money])
        for number, (names, use) in enumerate(named)
    ]


def _in_cents(amounts: Sequence[float | None]) -> list[int | None]:
    known = iter(round_to_sum([amount for amount in amounts if amount is not None], _CENT))
    return [None if amount is None else next(known) for amount in amounts]


def _sum_row(names: Sequence[Cell], rows: Sequence[_Row]) -> _Row:
    """Return the sum of rows; a cost is None if it is None in one row."""
    return _Row(
        names,
        sum_gpu_times(row.use for row in rows),
        [sum(column) for column in zip(*(row.units for row in rows), strict=True)],
        [_sum_known(column) for column in zip(*(row.cents for row in rows), strict=True)],
    )


def _sum_known(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def _use_table(report: MonthReport, heads: Sequence[Cell], rows: Sequence[_Row]) -> ReportTable:
    figures: list[str] = [say("GPU-hours"), say("of capacity"), say("busy"), say("idle"), say("unknown"), say("use")]
    figures.append(say("measured"))
    if report.costs:
        figures += [_money(say("cost"), report), _money(say("idle cost"), report)]
    last = [_sum_row([Cell(say("all")), *(Cell("") for _ in heads[1:])], rows)] if rows else []
    cells = [_use_cells(report, row) for row in [*rows, *last]]
    return ReportTable([*heads, *map(_number, figures)], cells, has_total=bool(last))


def _use_cells(report: MonthReport, row: _Row) -> list[Cell]:
    held, *others = row.units[: len(_HELD)]
    return [
        *row.names,
        _tenths(held),
        _share(row.use.held, report.whole.capacity),
        *map(_tenths, others),
        _number(percent(row.use.mean_use) or "-"),
        _number(coverage_percent(row.use.coverage) or "-"),
        *map(_cents, row.cents),
    ]


def _model_section(report: MonthReport) -> ReportSection:
    uses = [group.total for group in report.models]
    amounts = {name: [getattr(use, name) or 0.0 for use in uses] for name in ("capacity", "held", "idle", "free")}
    hours = [round_to_sum(column, _TENTH) for column in amounts.values()]
    priced = report.costs.get("model") or [GroupCost(None, None)] * len(uses)
    costs = [_in_cents([getattr(cost, name) for cost in priced]) for name in GroupCost._fields]
    rows = [
        [
            Cell(group.holder.value, "name"),
            *(_tenths(column[number]) for column in hours),
            _number(percent(use.mean_use) or "-"),
            _number(_prices_of(report, group.holder.value)),
            *(_cents(column[number]) for column in costs),
        ]
        for number, (group, use) in enumerate(zip(report.models, uses, strict=True))
    ]
    rows.append(
        [
            Cell(say("all")),
            *(_tenths(sum(column)) for column in hours),
            _number(percent(sum_gpu_times(uses).mean_use) or "-"),
            Cell(""),
            *(_cents(_sum_known(column)) for column in costs),
        ]
    )
    figures: list[str] = [say("capacity"), say("GPU-hours"), say("idle"), say("free"), say("use"), say("price")]
    figures += [_money(text, report) for text in (say("cost"), say("idle cost"), say("free cost"))]
    table = ReportTable([Cell(say("model")), *map(_number, figures)], rows)
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


def _workload_sections(report: MonthReport) -> list[ReportSection]:
    """Return two tables with the same rows, by held and by idle GPU-hours; their figures are rounded together."""
    heads = [Cell(say("workload")), Cell(say("namespace")), Cell(say("kind"))]
    named = [([Cell(name, "name") for name in _names(group)], group.total) for group in report.workloads]
    rows = _rounded(report, "workload", named)
    most_idle = sorted(rows, key=lambda row: -row.use.idle)
    said = say("Idle is what was held, measured and not used: a GPU that is used by 30 % is idle by 70 %.")
    held = ReportSection(
        say("Workloads that held the most"),
        (),
        _use_table(report, heads, _top_rows(report, rows)),
        notes=[*_open_ledger_notes(report, report.workloads), *_cost_notes(report, "workload")],
    )
    idle = _use_table(report, heads, _top_rows(report, most_idle))
    return [held, ReportSection(say("Workloads that left the most idle"), [said], idle)]


def _names(group: GroupUse) -> tuple[str, str, str]:
    return group.holder.name, group.holder.namespace, group.holder.kind


def _top_rows(report: MonthReport, rows: Sequence[_Row]) -> list[_Row]:
    """Return the first rows, and one row with the sum of the others."""
    shown = list(rows[:_TOP])
    if rest := rows[_TOP:]:
        shown.append(_sum_row([Cell(say("{number} others", number=len(rest))), Cell(""), Cell("")], rest))
    return shown


def _unknown_section(report: MonthReport) -> ReportSection:
    whole = report.whole
    [tenths] = round_to_sum([whole.unobserved], _TENTH)
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


def _tenths(units: int) -> Cell:
    return _number(f"{units // 10}.{units % 10}")


def _cents(units: int | None) -> Cell:
    return _number("-" if units is None else f"{units // 100}.{units % 100:02}")


def _share(amount: float, capacity: float | None) -> Cell:
    return _number(percent(100 * amount / capacity if capacity else None) or "-")


def _number(text: str) -> Cell:
    return Cell(text, "n")


def _money(text: str, report: MonthReport) -> str:
    return f"{text} {report.currency}".rstrip()


def _day(report: MonthReport, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(report.zone)).strftime("%Y-%m-%d")


def _minute(report: MonthReport, seconds: float) -> str:
    return datetime.fromtimestamp(seconds, ZoneInfo(report.zone)).strftime("%Y-%m-%d %H:%M")

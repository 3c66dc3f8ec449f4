"""Plots of the monthly report, as SVG: the use of the capacity, and the GPU-hours of each day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from gpuctl.cli.output.capacity_parts import PARTS, amounts_of, tenths_of
from gpuctl.cli.output.sparkline import sparkline
from gpuctl.cli.output.usage_amounts import gpu_hours, percent
from gpuctl.language.sentences import say
from gpuctl.objects.timestamps import parse_timestamp
from gpuctl.reading.usage.month_report import MonthReport

# Sizes of a plot, in units of its viewBox.
WIDTH, _BAR = 720, 28
_PLOT_TOP, _PLOT_HEIGHT, _PLOT_BOTTOM, _PLOT_LEFT = 12, 180, 22, 56


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


def capacity_plot(report: MonthReport) -> Plot:
    """Return one bar, divided into the parts of the capacity."""
    amounts = amounts_of(report.whole)
    total = sum(amounts) or 1.0
    shapes = []
    left = 0.0
    for (name, label, _), amount, units in zip(PARTS, amounts, tenths_of(report.whole), strict=True):
        width = WIDTH * amount / total
        share = percent(100 * amount / total)
        title = say("{part}: {hours} GPU-hours ({share})", part=say(label), hours=f"{units / 10:.1f}", share=share)
        shapes += _bar(name, (left, 0), (width, _BAR), title)
        left += width
    return Plot(say("Use of the capacity"), _BAR, shapes)


def day_plot(report: MonthReport) -> Plot:
    """Return a bar for each day, and a mark for each day without data."""
    zone = ZoneInfo(report.zone)
    first, last = (datetime.fromtimestamp(moment, zone).date() for moment in (report.start, report.end - 1))
    known = {_date(time, zone): use for time, use in report.days if use is not None}
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    most = max((sum(amounts_of(use)) for use in known.values()), default=0.0) or 1.0
    step = (WIDTH - _PLOT_LEFT) / len(days)
    bottom = _PLOT_TOP + _PLOT_HEIGHT
    shapes = []
    for share in (0.0, 0.5, 1.0):
        y = _PLOT_TOP + _PLOT_HEIGHT * (1 - share)
        shapes.append(
            SvgShape(
                "line",
                {"class": "grid", "x1": _PLOT_LEFT, "x2": WIDTH, "y1": _coordinate(y), "y2": _coordinate(y)},
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
            for (name, label, _), amount, units in zip(PARTS, amounts_of(use), tenths_of(use), strict=True):
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

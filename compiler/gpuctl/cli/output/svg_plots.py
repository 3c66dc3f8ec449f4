"""Plots of a month's report as SVG: bars of rectangles and text, nothing that acts or loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from html import escape
from zoneinfo import ZoneInfo

from gpuctl.cli.output.report_parts import PARTS, amounts_of, tenths_of
from gpuctl.cli.output.usage_amounts import gpu_hours, percent
from gpuctl.reading.gpu_time import GpuTime
from gpuctl.reading.month_report import MonthReport

WIDTH = 720
_BAR = 28
_HEIGHT, _TOP, _BOTTOM, _LEFT = 180, 12, 22, 56


def capacity_bar(report: MonthReport) -> str:
    """One bar: into what the capacity is divided."""
    amounts = amounts_of(report.whole)
    total = sum(amounts) or 1.0
    parts = []
    left = 0.0
    for (name, label, _), amount, units in zip(PARTS, amounts, tenths_of(report.whole), strict=True):
        wide = WIDTH * amount / total
        told = f"{label}: {units / 10:.1f} GPU-hours ({percent(100 * amount / total)})"
        parts.append(_rectangle(left, 0, wide, _BAR, name, told))
        left += wide
    return _svg(WIDTH, _BAR, "What became of the capacity", parts)


def day_bars(report: MonthReport) -> str:
    """A bar for each day; a day of which nothing is known has none, and a mark instead."""
    zone = ZoneInfo(report.zone)
    first, last = (datetime.fromtimestamp(moment, zone).date() for moment in (report.start, report.end - 1))
    known = {_date(time, zone): use for time, use in report.days if use is not None}
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    most = max((sum(amounts_of(use)) for use in known.values()), default=0.0) or 1.0
    step = (WIDTH - _LEFT) / len(days)
    bottom = _TOP + _HEIGHT
    parts = list(_scale(most))
    for number, day in enumerate(days):
        left = _LEFT + number * step
        if day in known:
            parts += _day(day, known[day], (left + step * 0.1, step * 0.8), most)
        else:
            parts.append(f'<text class="gap" x="{_n(left + step / 2)}" y="{_n(bottom - 4)}">?</text>')
        if day.day == 1 or day.day % 5 == 0:
            parts.append(f'<text class="day" x="{_n(left + step / 2)}" y="{_n(bottom + 16)}">{day.day}</text>')
    return _svg(WIDTH, bottom + _BOTTOM, "GPU-hours of each day", parts)


def _day(day: date, use: GpuTime, place: tuple[float, float], most: float) -> Iterator[str]:
    height = float(_TOP + _HEIGHT)
    for (name, label, _), amount, units in zip(PARTS, amounts_of(use), tenths_of(use), strict=True):
        tall = _HEIGHT * amount / most
        height -= tall
        told = f"{day:%Y-%m-%d}, {label}: {units / 10:.1f} GPU-hours"
        yield _rectangle(place[0], height, place[1], tall, name, told)


def _scale(most: float) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        height = _TOP + _HEIGHT * (1 - share)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH}" y1="{_n(height)}" y2="{_n(height)}"/>'
        yield f'<text class="scale" x="{_LEFT - 6}" y="{_n(height + 4)}">{gpu_hours(most * share)}</text>'


def _rectangle(left: float, top: float, width: float, height: float, name: str, told: str) -> str:
    if width <= 0 or height <= 0:
        return ""
    place = f'x="{_n(left)}" y="{_n(top)}" width="{_n(width)}" height="{_n(height)}"'
    return f'<rect class="{name}" {place}><title>{escape(told)}</title></rect>'


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    inner = "\n".join(filter(None, parts))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" role="img"'
    return f'{head} aria-label="{escape(title)}">\n{inner}\n</svg>'


def _n(value: float) -> str:
    """A coordinate: to hundredths, always written the same."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _date(time: str, zone: ZoneInfo) -> date:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(zone).date()

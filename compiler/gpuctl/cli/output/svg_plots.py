"""Plots of a month's report as SVG: bars of rectangles and text, nothing that acts or loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from html import escape
from zoneinfo import ZoneInfo

from gpuctl.cli.output.report_parts import PARTS
from gpuctl.cli.output.usage_amounts import gpu_hours, percent
from gpuctl.reading.gpu_time import GpuTime
from gpuctl.reading.month_report import MonthReport

WIDTH = 720
_BAR = 28
_HEIGHT, _TOP, _BOTTOM, _LEFT = 180, 12, 22, 56


def capacity_bar(report: MonthReport) -> str:
    """One bar: into what the capacity is divided."""
    amounts = _amounts(report.whole)
    total = sum(amounts) or 1.0
    parts = []
    left = 0.0
    for (name, label, _), amount in zip(PARTS, amounts, strict=True):
        wide = WIDTH * amount / total
        told = f"{label}: {gpu_hours(amount)} GPU-hours ({percent(100 * amount / total)})"
        parts.append(_rectangle(left, 0, wide, _BAR, name, told))
        left += wide
    return _svg(WIDTH, _BAR, "What became of the capacity", parts)


def day_bars(report: MonthReport) -> str:
    """A bar for each day; a day of which nothing is known has none, and a mark below it."""
    days = list(report.days)
    most = max((sum(_amounts(use)) for _, use in days if use is not None), default=0.0) or 1.0
    step = (WIDTH - _LEFT) / max(1, len(days))
    bottom = _TOP + _HEIGHT
    parts = list(_scale(most))
    for number, (time, use) in enumerate(days):
        left = _LEFT + number * step
        if use is None:
            parts.append(f'<text class="gap" x="{_n(left + step / 2)}" y="{_n(bottom - 4)}">?</text>')
            continue
        date = _local(time, report.zone)
        height = float(bottom)
        for (name, label, _), amount in zip(PARTS, _amounts(use), strict=True):
            tall = _HEIGHT * amount / most
            height -= tall
            told = f"{date:%Y-%m-%d}, {label}: {gpu_hours(amount)} GPU-hours"
            parts.append(_rectangle(left + step * 0.1, height, step * 0.8, tall, name, told))
        if date.day == 1 or date.day % 5 == 0:
            parts.append(f'<text class="day" x="{_n(left + step / 2)}" y="{_n(bottom + 16)}">{date.day}</text>')
    return _svg(WIDTH, bottom + _BOTTOM, "GPU-hours of each day", parts)


def _scale(most: float) -> Iterator[str]:
    for share in (0.0, 0.5, 1.0):
        height = _TOP + _HEIGHT * (1 - share)
        yield f'<line class="grid" x1="{_LEFT}" x2="{WIDTH}" y1="{_n(height)}" y2="{_n(height)}"/>'
        yield f'<text class="scale" x="{_LEFT - 6}" y="{_n(height + 4)}">{gpu_hours(most * share)}</text>'


def _amounts(use: GpuTime) -> Sequence[float]:
    return [max(0.0, getattr(use, name) or 0.0) for name, _, _ in PARTS]


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


def _local(time: str, zone: str) -> datetime:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).astimezone(ZoneInfo(zone))

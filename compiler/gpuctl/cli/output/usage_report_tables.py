"""Tables of the monthly report: their figures are rounded so that each column adds up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.cli.output.capacity_parts import TENTH
from gpuctl.cli.output.rounded_sums import round_to_sum
from gpuctl.cli.output.usage_amounts import coverage_percent, percent
from gpuctl.language.sentences import say
from gpuctl.reading.usage.gpu_time import GpuTime, sum_gpu_times
from gpuctl.reading.usage.month_report import MonthReport

_CENT = 0.01
_HELD = ("held", "busy", "idle", "unobserved")


class Cell(NamedTuple):
    """A cell of a table. ``kind``: ``name`` for a text of users, ``n`` for a number, else ""."""

    text: str
    kind: str = ""


class ReportTable(NamedTuple):
    """A table. ``has_total``: its last row is the sum of the others."""

    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    has_total: bool = True


class UseRow(NamedTuple):
    """A row of a table of groups. ``units``: tenths of GPU-hours of each of ``_HELD``.

    ``cents``: costs of held and of idle GPU-hours, hundredths; None for an unknown cost, empty without prices.
    """

    names: Sequence[Cell]
    use: GpuTime
    units: Sequence[int]
    cents: Sequence[int | None]


def rounded_rows(report: MonthReport, level: str, named: Sequence[tuple[Sequence[Cell], GpuTime]]) -> list[UseRow]:
    """Return rows whose rounded figures add up in each column."""
    columns = [round_to_sum([getattr(use, name) for _, use in named], TENTH) for name in _HELD]
    costs = report.costs.get(level, ())
    money = [in_cents([cost.held for cost in costs]), in_cents([cost.idle for cost in costs])] if costs else []
    return [
        UseRow(names, use, [column[number] for column in columns], [column[number] for column in money])
        for number, (names, use) in enumerate(named)
    ]


def in_cents(amounts: Sequence[float | None]) -> list[int | None]:
    known = iter(round_to_sum([amount for amount in amounts if amount is not None], _CENT))
    return [None if amount is None else next(known) for amount in amounts]


def sum_row(names: Sequence[Cell], rows: Sequence[UseRow]) -> UseRow:
    """Return the sum of rows. A cost is unknown (None) if it is unknown in any row."""
    return UseRow(
        names,
        sum_gpu_times(row.use for row in rows),
        [sum(column) for column in zip(*(row.units for row in rows), strict=True)],
        [sum_known(column) for column in zip(*(row.cents for row in rows), strict=True)],
    )


def sum_known(amounts: Sequence[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


def use_table(report: MonthReport, heads: Sequence[Cell], rows: Sequence[UseRow]) -> ReportTable:
    figures: list[str] = [say("GPU-hours"), say("of capacity"), say("busy"), say("idle"), say("unknown"), say("use")]
    figures.append(say("measured"))
    if report.costs:
        figures += [with_currency(say("cost"), report), with_currency(say("idle cost"), report)]
    last = [sum_row([Cell(say("all")), *(Cell("") for _ in heads[1:])], rows)] if rows else []
    cells = [_use_cells(report, row) for row in [*rows, *last]]
    return ReportTable([*heads, *map(number_cell, figures)], cells, has_total=bool(last))


def _use_cells(report: MonthReport, row: UseRow) -> list[Cell]:
    held, *others = row.units[: len(_HELD)]
    return [
        *row.names,
        tenths_cell(held),
        share_cell(row.use.held, report.whole.capacity),
        *map(tenths_cell, others),
        number_cell(percent(row.use.mean_use) or "-"),
        number_cell(coverage_percent(row.use.coverage) or "-"),
        *map(cents_cell, row.cents),
    ]


def tenths_cell(units: int) -> Cell:
    return number_cell(f"{units // 10}.{units % 10}")


def cents_cell(units: int | None) -> Cell:
    return number_cell("-" if units is None else f"{units // 100}.{units % 100:02}")


def share_cell(amount: float, capacity: float | None) -> Cell:
    return number_cell(percent(100 * amount / capacity if capacity else None) or "-")


def number_cell(text: str) -> Cell:
    return Cell(text, "n")


def with_currency(text: str, report: MonthReport) -> str:
    return f"{text} {report.currency}".rstrip()

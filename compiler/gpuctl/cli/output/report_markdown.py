"""A month's report as Markdown (GitHub's). Names come from strangers: they are code, in which nothing has a meaning."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuctl.cli.output.report_parts import Cell, PartTable, ReportPart, parts_of, title_of
from gpuctl.cli.output.sparkline import sparkline
from gpuctl.reading.month_report import MonthReport


def report_markdown(report: MonthReport) -> str:
    """The text, with a line break at its end."""
    lines = [f"# {title_of(report)}", ""]
    for part in parts_of(report):
        lines += [f"## {_plain(part.title)}", "", *_part(part, report)]
    return "\n".join(lines).rstrip() + "\n"


def _part(part: ReportPart, report: MonthReport) -> Iterator[str]:
    for text in part.texts:
        yield f"- {_plain(text)}"
    if part.texts:
        yield ""
    if part.plot == "days":
        for label, values in _lines(report):
            yield f"- {label} `{values}`"
        yield ""
    if part.table is not None:
        yield from _table(part.table)
        yield ""
    for note in part.notes:
        yield _plain(note)
        yield ""


def _lines(report: MonthReport) -> Iterator[tuple[str, str]]:
    """What was held, and used, of the most that there was in a day."""
    most = max((use.capacity or use.held for _, use in report.days if use is not None), default=0.0)
    for label, name in (("held", "held"), ("busy", "busy")):
        yield label, sparkline((None if use is None else getattr(use, name) for _, use in report.days), most)


def _table(table: PartTable) -> Iterator[str]:
    yield _row(table.heads)
    yield _line("---:" if cell.is_number else "---" for cell in table.heads)
    for row in table.rows:
        yield _row(row)


def _row(cells: Iterable[Cell]) -> str:
    return _line(map(_cell, cells))


def _line(texts: Iterable[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _cell(cell: Cell) -> str:
    return _code(cell.text) if cell.is_name else _plain(cell.text)


def _code(text: str) -> str:
    """A text as code, in a table: only a bar means something there, and as many back-ticks as begin it."""
    text = " ".join(text.split()) or "-"
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    margin = " " if text.startswith("`") or text.endswith("`") else ""
    barred = text.replace("|", "\\|")
    return f"{fence}{margin}{barred}{margin}{fence}"


def _plain(text: str) -> str:
    """A text of ours, in which names may stand: nothing in it is a link, a mark or HTML."""
    shown = re.sub(r"([\\*_\[\]|~#])", r"\\\1", text)
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("@", "&#64;")

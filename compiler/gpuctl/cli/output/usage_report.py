"""The monthly report as HTML and as GitHub Markdown.

Names come from users: HTML escapes every text, and Markdown shows names as code, in which no character has a meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from gpuctl.cli.output.capacity_parts import PARTS, shown_parts
from gpuctl.cli.output.usage_report_plots import WIDTH
from gpuctl.cli.output.usage_report_sections import report_sections, report_title
from gpuctl.cli.output.usage_report_tables import Cell, ReportTable
from gpuctl.gitops.markdown import code_cell, escaped
from gpuctl.language.sentences import say
from gpuctl.language.translation_files import sentences_in
from gpuctl.reading.usage.month_report import MonthReport


def render_report(report: MonthReport, form: str) -> str:
    """Return the report as ``html`` or ``markdown`` in its language, with a line break at its end."""
    with sentences_in(report.language):
        return _page(report) if form == "html" else _markdown(report)


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
    shown = shown_parts(report.whole)
    return environment.get_template("usage_report.html.j2").render(
        title=report_title(report),
        language="zh-CN" if report.language == "zh" else report.language,
        cluster=report.cluster,
        width=WIDTH,
        parts=report_sections(report),
        key=[(name, say(label)) for name, label, _ in PARTS if name in shown],
    )


def _markdown(report: MonthReport) -> str:
    blocks = [f"# {report_title(report)}"]
    for part in report_sections(report):
        blocks.append(f"## {escaped(part.title)}")
        blocks.append("\n".join(f"- {escaped(text)}" for text in part.texts))
        if part.plot is not None:
            blocks.append("\n".join(f"- {label} `{values}`" for label, values in part.plot.sparklines))
        if part.table is not None:
            blocks.append("\n".join(_markdown_rows(part.table)))
        blocks += map(_note, part.notes)
    return "\n\n".join(filter(None, blocks)) + "\n"


def _markdown_rows(table: ReportTable) -> Iterator[str]:
    marks = [Cell("---:" if cell.kind == "n" else "---") for cell in table.heads]
    for row in (table.heads, marks, *table.rows):
        yield f"| {' | '.join(map(_cell, row))} |"


def _cell(cell: Cell) -> str:
    return code_cell(" ".join(cell.text.split()) or "-") if cell.kind == "name" else escaped(cell.text)


def _note(text: str) -> str:
    """Escape a sentence, but not its code spans."""
    return "".join(part if part[:1] == "`" else escaped(part) for part in re.split("(`[^`]*`)", text))

"""A month's report as one page of HTML: no script, nothing from elsewhere, and every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from gpuctl.cli.output.report_parts import PARTS, Cell, PartTable, ReportPart, parts_of, shown_parts, title_of
from gpuctl.cli.output.svg_plots import capacity_bar, day_bars
from gpuctl.reading.month_report import MonthReport

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --faint: #5b6675; --line: #d5dbe3; --paper: #ffffff;
  --busy: #1f7a5c; --idle: #e08e2b; --unobserved: #8b93a1; --free: #c5d8ec; --unusable: #a4485a; --unsized: #7a6fb0; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --faint: #9aa5b5; --line: #333d4b; --paper: #14191f;
  --busy: #3fae87; --idle: #e5a14d; --unobserved: #717b8a; --free: #2f4864; --unusable: #c46a7b; --unsized: #9a8fd0; } }
@page { size: landscape; margin: 12mm; }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76em;
  margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; margin: 0 0 .6em; } h2 { font-size: 1.15em; margin: 1.8em 0 .5em; break-after: avoid; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; break-inside: auto; }
tr { break-inside: avoid; } thead { display: table-header-group; break-after: avoid; }
th, td { text-align: left; padding: .25em .6em .25em 0; border-bottom: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; }
th { font-weight: 600; color: var(--faint); vertical-align: bottom; }
td.name { min-width: 9em; max-width: 24em; overflow-wrap: anywhere; }
.n { text-align: right; font-variant-numeric: tabular-nums; padding-left: .5em; } td.n { white-space: nowrap; }
tr.all td { font-weight: 600; border-bottom: 0; border-top: 2px solid var(--ink); }
ul { padding-left: 1.2em; margin: .3em 0 .8em; } p.note { color: var(--faint); margin: .4em 0; }
svg { width: 100%; height: auto; display: block; margin: .4em 0; break-inside: avoid; }
.key { display: flex; flex-wrap: wrap; gap: .2em 1.2em; margin: .3em 0; padding: 0; list-style: none; }
.key svg { display: inline-block; width: .9em; height: .9em; margin: 0 .4em 0 0; vertical-align: -.1em; }
rect.busy { fill: var(--busy); } rect.idle { fill: var(--idle); } rect.unobserved { fill: var(--unobserved); }
rect.free { fill: var(--free); } rect.unusable { fill: var(--unusable); }
rect.unsized { fill: var(--unsized); }
line.grid { stroke: var(--line); } text { font: 11px system-ui, sans-serif; fill: var(--faint); }
text.scale { text-anchor: end; } text.day, text.gap { text-anchor: middle; }
@media print { :root { color-scheme: light; --ink: #000; --faint: #444; --line: #bbb; --paper: #fff;
  --busy: #1f7a5c; --idle: #e08e2b; --unobserved: #8b93a1; --free: #c5d8ec; --unusable: #a4485a; --unsized: #7a6fb0; }
  body { max-width: none; margin: 0; padding: 0; font-size: 8.5pt; line-height: 1.3; }
  h2 { margin-top: 1.2em; } .wide { overflow: visible; } td.name { min-width: 7em; }
  svg[role=img] { max-height: 48mm; } ul, .key { break-inside: avoid; } tbody tr:first-child { break-after: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
""".strip()
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def report_page(report: MonthReport) -> str:
    """The page, with a line break at its end."""
    title = escape(title_of(report))
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8"/>',
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}"/>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>',
        f"<title>{title}: {escape(report.cluster)}</title>",
        f"<style>\n{_STYLE}\n</style>",
        "</head>",
        "<body>",
        f"<h1>{title}</h1>",
    ]
    for part in parts_of(report):
        lines += ["<section>", f"<h2>{_text(part.title)}</h2>", *_part(part, report), "</section>"]
    return "\n".join([*lines, "</body>", "</html>"]) + "\n"


def _part(part: ReportPart, report: MonthReport) -> Iterator[str]:
    if part.texts:
        yield f"<ul>{''.join(f'<li>{_text(text)}</li>' for text in part.texts)}</ul>"
    if part.plot:
        yield capacity_bar(report) if part.plot == "capacity" else day_bars(report)
        yield _key(report)
    if part.table is not None:
        yield from _table(part.table)
    for note in part.notes:
        yield f'<p class="note">{_text(note)}</p>'


def _key(report: MonthReport) -> str:
    """What the colours are."""
    mark = '<svg viewBox="0 0 1 1" aria-hidden="true"><rect class="{}" width="1" height="1"/></svg>'
    items = (
        f"<li>{mark.format(name)}{escape(label)}</li>" for name, label, _ in PARTS if name in shown_parts(report.whole)
    )
    return f'<ul class="key">{"".join(items)}</ul>'


def _table(table: PartTable) -> Iterator[str]:
    yield '<div class="wide"><table>'
    yield f"<thead><tr>{''.join(_cell(cell, 'th') for cell in table.heads)}</tr></thead>"
    yield "<tbody>"
    for number, row in enumerate(table.rows):
        kind = ' class="all"' if table.has_total and number == len(table.rows) - 1 else ""
        yield f"<tr{kind}>{''.join(_cell(cell, 'td') for cell in row)}</tr>"
    yield "</tbody>"
    yield "</table></div>"


def _cell(cell: Cell, tag: str) -> str:
    kind = ' class="n"' if cell.is_number else ' class="name"' if cell.is_name else ""
    return f"<{tag}{kind}>{escape(cell.text)}</{tag}>"


def _text(text: str) -> str:
    return escape(text.replace("`", ""))

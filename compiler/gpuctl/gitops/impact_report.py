"""An impact as Markdown for a pull request's comment, or as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

from gpuctl.gitops.breakages import resource_title
from gpuctl.gitops.declared_state import ALL_TYPES, ANY_TYPE, JobDemand, JobId, QuotaLimit
from gpuctl.gitops.impact_rows import Amount, PoolRow, QuotaRow
from gpuctl.gitops.markdown import code, escaped
from gpuctl.gitops.resource_impact import Impact
from gpuctl.gitops.value_change import changes_text
from gpuctl.language.display_text import count_text, first_few, visible
from gpuctl.objects.quantities import amount_text, format_number

_MANY = 50
"""Maximum number of list entries or table rows: a comment on GitHub has at most 65,536 characters."""
_PATHS = 4
_LONGEST_PATH = 120


LiveSections = Sequence[tuple[str, Sequence[str]]]
"""Lists about the live cluster, with their headings."""


class _Style(NamedTuple):
    """A format's functions for a heading, a word chosen by a user, a sentence, a table and a folded list."""

    heading: Callable[[str], str]
    word: Callable[[str], str]
    sentence: Callable[[str], str]
    table: Callable[[Sequence[str], list[list[str]]], list[str]]
    folded: Callable[[str, list[str]], list[str]]


def markdown(impact: Impact, live: LiveSections = ()) -> str:
    """Return a comment for a pull request."""
    return "\n".join(_lines(impact, live, _MARKDOWN)) + "\n"


def text(impact: Impact, live: LiveSections = ()) -> str:
    """Return the report for a terminal."""
    return "\n".join(_lines(impact, live, _TEXT)) + "\n"


def _lines(impact: Impact, live: LiveSections, style: _Style) -> list[str]:
    """Return the lines of a report: its parts, with an empty line between them."""
    lines: list[str] = []
    for part in _parts(impact, live, style):
        if part:
            lines += [*part, ""]
    return lines[:-1]


def _parts(impact: Impact, live: LiveSections, style: _Style) -> list[list[str]]:
    """Return the lines of each part of a report; a part about something that does not change is empty."""
    breakages = [style.sentence(item.message) + ("" if item.new else " (as before)") for item in impact.breakages]
    documents = [style.sentence(f"{item.document}: {changes_text(item.changes)}") for item in impact.documents]
    restarts = [style.sentence(f"{item.job}: {item.reason}") for item in impact.restarts]
    quotas = [_quota_row(row) for row in impact.quotas if row.changed]
    changed = [f"{style.word(str(key))}: {_shown_paths(paths, style)}" for key, paths in impact.changed]
    return [
        [style.heading(f"GPU impact: {_headline(impact)}")],
        _section("Does not fit:", breakages),
        _section("Waits for quota:", [style.sentence(item) for item in impact.waiting]),
        # Lists about the live cluster are named even if they are empty.
        *(_section(heading, [style.sentence(item) for item in told]) or [heading] for heading, told in live),
        _section("Changed documents:", documents),
        _section("Restarts:", restarts),
        _table(style, ["job", "GPUs before", "GPUs after"], [_job_row(*item) for item in impact.jobs]),
        *_pools(impact.pools, style),
        _table(style, ["namespace", "resource", "requested at most", "quota"], quotas),
        _price(impact, style),
        _folded_section("Added", [style.word(str(key)) for key in impact.added], style),
        _folded_section("Changed", changed, style),
        _folded_section("Removed", [style.word(str(key)) for key in impact.removed], style),
    ]


def _section(heading: str, items: list[str]) -> list[str]:
    return [heading, "", *_list(items)] if items else []


def _folded_section(name: str, items: list[str], style: _Style) -> list[str]:
    return style.folded(f"{name}: {count_text(len(items), 'object')}", _list(items)) if items else []


def _pools(pools: Iterable[PoolRow], style: _Style) -> list[list[str]]:
    """Return a table of the pools that change, and a note on unknown numbers."""
    changed = [row for row in pools if row.before != row.after]
    head = ["pool", "GPU type", "GPUs requested", "GPUs in pool"]
    rows = [_pool_row(row) for row in changed]
    if any(row.before.queued or row.after.queued for row in changed):
        head.append("GPUs queued")
        rows = [[*cells, _queued(row)] for cells, row in zip(rows, changed, strict=True)]
    is_unknown = any(None in (row.before.there, row.after.there) for row in changed)
    return [_table(style, head, rows), ["`?`: no pool document states their number."] if is_unknown else []]


def _price(impact: Impact, style: _Style) -> list[str]:
    if impact.costs is None:
        return []
    before, after = (_range(cost.least, cost.most) for cost in impact.costs)
    without = [f"; without pool {style.word(pool)}, which has no price" for pool in impact.unpriced]
    return [f"Price per hour: {_change(before, after)}{''.join(without)}"]


def _headline(impact: Impact) -> str:
    def total(most: bool) -> Fraction:
        change = Fraction(0)
        for _, before, after in impact.jobs:
            for sign, demand in ((-1, before), (1, after)):
                if demand is not None:
                    change += sign * (demand.total_most if most else demand.total)
        return change

    least, most = total(False), total(True)
    gpus = _signed(least) if least == most else f"{_signed(least)} to {_signed(most)}"
    counts = ((impact.added, "added"), (impact.changed, "changed"), (impact.removed, "removed"))
    objects = ", ".join(f"{count_text(len(items), 'object')} {word}" for items, word in counts if items)
    parts = ["no change of GPUs" if not least and not most else f"{gpus} GPUs", objects or "no object changes"]
    return "; ".join(parts)


def _signed(value: Fraction) -> str:
    return ("+" if value > 0 else "") + format_number(value)


def _list(items: list[str]) -> list[str]:
    left = len(items) - _MANY
    return [f"- {item}" for item in items[:_MANY]] + ([f"- and {left} more"] if left > 0 else [])


def _table(style: _Style, head: Sequence[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    left = len(rows) - _MANY
    more = ["", f"and {left} more rows"] if left > 0 else []
    return [*style.table(head, rows[:_MANY]), *more]


def _shown_paths(paths: list[str], style: _Style) -> str:
    def short(path: str) -> str:
        return path if len(path) <= _LONGEST_PATH else f"{path[: _LONGEST_PATH - 3]}..."

    return first_few((style.word(short(path)) for path in paths), _PATHS)


def _job_row(job: JobId, before: JobDemand | None, after: JobDemand | None) -> list[str]:
    return [str(job), _gpus(before), _gpus(after)]


def _gpus(demand: JobDemand | None) -> str:
    if demand is None:
        return "-"
    where = f"{demand.gpu_type or 'any type'}, {demand.pool}"
    with_gpus = [part for part in demand.each if part.gpus]
    if len({part.pool for part in with_gpus}) > 1:
        shown = [(_range(part.total, part.total_most), part.gpu_type or "of any type", part.pool) for part in with_gpus]
        where = ", ".join(f"{number} {gpu_type} in {pool}" for number, gpu_type, pool in shown)
    if demand.gpus is None:
        return f"parts of cards ({where})"
    return f"{_range(demand.total, demand.total_most)} ({where})" if demand.gpus else f"0 ({demand.pool})"


def _pool_row(row: PoolRow) -> list[str]:
    kind = {ALL_TYPES: "all", ANY_TYPE: "any"}.get(row.gpu_type, row.gpu_type)
    before, after = (_range(value.asked, value.most) for value in (row.before, row.after))
    return [row.pool, kind, _change(before, after), _change(_there(row.before), _there(row.after))]


def _queued(row: PoolRow) -> str:
    return _change(format_number(row.before.queued), format_number(row.after.queued))


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"


def _range(least: Fraction, most: Fraction) -> str:
    return format_number(least) if least == most else f"{format_number(least)} to {format_number(most)}"


def _there(value: Amount) -> str:
    return "?" if value.there is None else str(value.there)


def _quota_row(row: QuotaRow) -> list[str]:
    asked = (amount_text(row.key.resource, value) for value in (row.asked_before, row.asked_after))
    limits = (_limit(row, limit) for limit in (row.before, row.after))
    return [row.key.namespace, resource_title(row.key), _change(*asked), _change(*limits)]


def _limit(row: QuotaRow, limit: QuotaLimit | None) -> str:
    if limit is None:
        return "none"
    borrowed = f", borrows {amount_text(row.key.resource, limit.borrowed)}" if limit.borrowed else ""
    return amount_text(row.key.resource, limit.amount) + borrowed


def _markdown_table(head: Sequence[str], rows: list[list[str]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cells) + " |"

    return [line(head), line("---" for _ in head), *(line(map(escaped, row)) for row in rows)]


def _folded(summary: str, lines: list[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", "", *lines, "", "</details>"]


def _text_table(head: Sequence[str], rows: list[list[str]]) -> list[str]:
    cells = [[name.upper() for name in head], *([visible(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(head))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


_MARKDOWN = _Style("## {}".format, code, escaped, _markdown_table, _folded)
_TEXT = _Style(str, visible, visible, _text_table, lambda summary, lines: [f"{summary}", "", *lines])

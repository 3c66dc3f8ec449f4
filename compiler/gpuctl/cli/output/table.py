"""Tables: aligned; on a terminal coloured by status and fitted to its width, in a pipe complete and plain."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import click

from gpuctl.cli.output.terminal import escape_controls
from gpuctl.language.display_text import visible

GAP = 3
"""Blanks between columns, as in kubectl."""
EMPTY = "-"
"""The text of an empty cell, so that every row has as many words as columns."""
_NARROW_GAP = 2
_SHORTEST, _SHORTEST_LAST = 8, 16
_WHOLE = frozenset({"NAME", "STATUS"})
_TAILS = frozenset({"JOB ID"})

STATES = {
    "green": frozenset({"Running", "Succeeded", "active", "Ready", "Bound", "ok"}),
    "yellow": frozenset(
        {"Pending", "Queued", "Suspended", "Paused", "PartiallyRunning", "ContainerCreating", "PodInitializing"}
        | {"Terminating", "SchedulingGated", "ScaledToZero", "maintaining", "draining", "mixed", "empty"}
    ),
    "red": frozenset(
        {"Failed", "Error", "OOMKilled", "Evicted", "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull"}
        | {"InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "Unknown"}
        | {"DeadlineExceeded", "QuotaExceeded", "FailedCreate", "faulty", "NodeLost", "ContainerCannotRun", "full"}
    ),
}
"""Colour -> words in a STATUS column."""
_COLOURS = {word: colour for colour, words in STATES.items() for word in words}


def width_of(text: str) -> int:
    """Return the terminal columns that a text takes; a Chinese character takes two."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(0, wcswidth(text))


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    headings: bool = True,
    width: int | None = None,
    coloured: bool = False,
    droppable: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines of a table that is printed at once, see :class:`Table`."""
    return Table(headers, headings=headings, width=width, coloured=coloured, droppable=droppable).lines(rows)


class Table:
    """A table that is printed at once or extended by later rows, which keep the column widths of the first ones.

    Blanks within the words of a column other than the last one are removed (``Partially Running`` becomes
    ``PartiallyRunning``), so that awk finds every column; ``with_blanks`` keeps them.

    If a terminal is narrower than the table (``width``), the gaps shrink and the last column is cut (``…``). Then
    ``droppable`` columns are omitted in their order (a JOB ID is first cut at its beginning, because its end
    distinguishes pods), and the other columns are cut, then omitted from the right. NAME, STATUS and a first column
    that is not droppable stay complete, because users copy them. If even these do not fit, lines are printed in full
    and the terminal wraps them.
    """

    def __init__(
        self,
        headers: Sequence[str],
        *,
        headings: bool = True,
        width: int | None = None,
        coloured: bool = False,
        droppable: Sequence[str] = (),
        with_blanks: bool = False,
    ) -> None:
        self._with_blanks = with_blanks
        self._heads = list(headers)
        self._headings = headings
        self._width = width
        self._state = self._heads.index("STATUS") if coloured and "STATUS" in self._heads else None
        self._droppable = [self._heads.index(name) for name in droppable if name in self._heads]
        self._tails = frozenset(number for number, head in enumerate(self._heads) if head in _TAILS)
        self._layout: _Layout | None = None

    def lines(self, rows: Iterable[Sequence[str]]) -> Iterator[str]:
        """Yield the lines of rows; the first call begins with the headings, and its rows decide the widths."""
        cells = list(map(self._cells, rows))
        if self._layout is None:
            if not cells and not self._headings:
                return
            self._layout = self._laid_out(cells)
            if self._headings:
                yield _line(self._heads, self._layout, None)
        for row in cells:
            yield _line(row, self._layout, self._state)

    def _cells(self, row: Sequence[str]) -> list[str]:
        *others, last = (_shown(" ".join(str(cell).split())) or EMPTY for cell in row)
        return [*(others if self._with_blanks else (cell.replace(" ", "") for cell in others)), last]

    def _laid_out(self, rows: Sequence[Sequence[str]]) -> _Layout:
        least = [width_of(head) if self._headings else 1 for head in self._heads]
        widths = [max([low, *(width_of(row[column]) for row in rows)]) for column, low in enumerate(least)]
        layout = _Layout(list(range(len(self._heads))), widths, GAP, cut=False, tails=self._tails)
        if self._width is None:
            return layout
        first = {0} - {*self._droppable}
        kept = first | {number for number, head in enumerate(self._heads) if head in _WHOLE}
        return _fitting(layout, self._width, least, kept, self._droppable)


class _Layout(NamedTuple):
    """The layout of a table.

    ``columns``: the shown columns. ``widths``: of all columns. ``gap``: blanks between columns. ``cut``: cells are cut
    to the width. ``tails``: columns whose cells are cut at the beginning.
    """

    columns: list[int]
    widths: list[int]
    gap: int
    cut: bool
    tails: frozenset[int]

    @property
    def total(self) -> int:
        """Width of a row."""
        return sum(self.widths[column] for column in self.columns) + self.gap * (len(self.columns) - 1)

    def narrowed(self, column: int, by: int) -> _Layout:
        """Return the layout with one column narrower."""
        return self._replace(widths=[width - by * (number == column) for number, width in enumerate(self.widths)])

    def without(self, column: int) -> _Layout:
        """Return the layout without one column."""
        return self._replace(columns=[other for other in self.columns if other != column])


def _shown(cell: str) -> str:
    """Return a cell with control characters escaped."""
    if cell.isprintable():
        return cell
    return visible(cell)


def _fitting(layout: _Layout, limit: int, least: Sequence[int], kept: Collection[int], order: Sequence[int]) -> _Layout:
    """Return a layout that fits the limit, as :class:`Table` describes; the given one if none fits.

    :param least: the width of each heading.
    :param kept: columns that stay complete.
    :param order: columns that are omitted or cut first.
    """
    if layout.total <= limit:
        return layout
    tried = layout._replace(gap=_NARROW_GAP, cut=True)
    last = tried.columns[-1]
    spare = max(0, tried.widths[last] - max(_SHORTEST_LAST, least[last])) if last not in {*kept, *order} else 0
    for column in order:
        over = tried.total - spare - limit
        if over > 0 and column in tried.tails and tried.widths[column] > _SHORTEST:
            tried = tried.narrowed(column, min(over, tried.widths[column] - _SHORTEST))
        elif over > 0:
            tried = tried.without(column)
    tried = tried.narrowed(last, min(spare, max(0, tried.total - limit)))
    others = [column for column in tried.columns if column not in kept]
    while tried.total > limit:
        spares = {column: tried.widths[column] - max(_SHORTEST, least[column]) for column in others}
        widest = max(spares, key=lambda column: spares[column], default=None)
        if widest is None or spares[widest] <= 0:
            break
        tried = tried.narrowed(widest, 1)
    while tried.total > limit and others:
        tried = tried.without(others.pop())
    return tried if tried.total <= limit else layout


def _line(row: Sequence[str], layout: _Layout, state: int | None) -> str:
    out = []
    for column in layout.columns:
        cell, width = row[column], layout.widths[column]
        shown = cut_cell(cell, width, tail=column in layout.tails) if layout.cut else cell
        padding = " " * max(1, width - width_of(shown) + layout.gap)
        if column == state and state_colour(cell) is not None:
            shown = click.style(shown, fg=state_colour(cell))
        out.append(shown + padding)
    return "".join(out).rstrip()


def state_colour(status: str) -> str | None:
    """Return the colour of a status: green runs, yellow waits, red needs attention."""
    return _COLOURS.get(status.replace(" ", "").removeprefix("Init:"))


def cut_cell(text: str, width: int, *, tail: bool = False) -> str:
    """Return a text of at most ``width`` columns, cut with ``…`` at its end, or with ``tail`` at its beginning."""
    if width_of(text) <= width:
        return text
    shown = ""
    taken = 0
    for character in reversed(text) if tail else text:
        taken += width_of(character)
        if taken > width - 1:
            break
        shown += character
    return "…" + shown[::-1] if tail else shown + "…"


def detail_lines(pairs: Iterable[tuple[str, str]], *, style: Callable[[str], str] = str) -> Iterator[str]:
    """Yield lines ``Name:   value`` with aligned values; further lines of a value are indented."""
    known = [(name, value if value else EMPTY) for name, value in pairs]
    column = max((width_of(name) for name, _ in known), default=0) + 1 + GAP
    for name, value in known:
        head, *rest = escape_controls(value).rstrip("\n").split("\n")
        yield f"{style(name + ':')}{' ' * (column - width_of(name) - 1)}{head}".rstrip()
        for line in rest:
            yield f"{' ' * column}{line}".rstrip()

"""Tables: aligned, coloured by state on a terminal and no wider than it; whole and plain in a pipe."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import click

GAP = 3
"""Blanks between columns, as kubectl prints them."""
EMPTY = "-"
"""What stands for nothing, so that every row has as many words as columns."""
_NARROW_GAP = 2
_SHORTEST, _SHORTEST_LAST = 8, 16
_MEASURED = 1000

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
"""Colour -> words of a STATUS column."""
_COLOURS = {word: colour for colour, words in STATES.items() for word in words}


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes: a Chinese character two."""
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
    """The lines of a table that is printed once: :class:`Table` says how it looks."""
    return Table(headers, headings=headings, width=width, coloured=coloured, droppable=droppable).lines(rows)


class Table:
    """A table that is printed in one go, or goes on with rows that come later, in the columns that it began with.

    Blanks within words of a column other than the last one are left out (``Partially Running`` is
    ``PartiallyRunning``), so that awk finds every column; ``with_blanks`` they stay.

    With a ``width`` that is too narrow columns move together, the last one is cut (``…``), ``droppable`` ones are left
    out, in their order, and the others are cut, but never the first: it is what one copies. Where even that does not
    help, lines are whole and the terminal breaks them.
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
        self._layout: _Layout | None = None

    def lines(self, rows: Iterable[Sequence[str]]) -> Iterator[str]:
        """The lines of rows, the first time below the headings.

        ``rows`` may be endless: columns are as wide as the first thousand rows of the first call need.
        """
        rows = iter(rows)
        first: list[list[str]] = []
        if self._layout is None:
            first = [self._cells(row) for row in itertools.islice(rows, _MEASURED)]
            if not first and not self._headings:
                return
            self._layout = self._laid_out(first)
            if self._headings:
                yield _line(self._heads, self._layout, None)
        for row in itertools.chain(first, map(self._cells, rows)):
            yield _line(row, self._layout, self._state)

    def _cells(self, row: Sequence[str]) -> list[str]:
        *others, last = (_shown(" ".join(str(cell).split())) or EMPTY for cell in row)
        return [*(others if self._with_blanks else (cell.replace(" ", "") for cell in others)), last]

    def _laid_out(self, rows: Sequence[Sequence[str]]) -> _Layout:
        least = [width_of(head) if self._headings else 1 for head in self._heads]
        widths = [max([low, *(width_of(row[column]) for row in rows)]) for column, low in enumerate(least)]
        layout = _Layout(list(range(len(self._heads))), widths, GAP, cut=False)
        return layout if self._width is None else _fitting(layout, self._width, least, self._droppable)


class _Layout(NamedTuple):
    """The columns that are shown, the width of every column, the blanks between them, and whether cells are cut."""

    columns: list[int]
    widths: list[int]
    gap: int
    cut: bool

    @property
    def total(self) -> int:
        """How wide a row is."""
        return sum(self.widths[column] for column in self.columns) + self.gap * (len(self.columns) - 1)


def _shown(cell: str) -> str:
    """A cell without what would control a terminal, or move its neighbours."""
    if cell.isprintable():
        return cell
    from gpuctl.language.wording import visible

    return visible(cell)


def _fitting(layout: _Layout, limit: int, least: Sequence[int], droppable: Sequence[int]) -> _Layout:
    """The layout that fits, as :func:`table` says; the one that was given when none does."""
    if layout.total <= limit:
        return layout
    last = layout.columns[-1]
    tried = layout._replace(gap=_NARROW_GAP)
    for gone in (None, *droppable):
        tried = tried._replace(columns=[column for column in tried.columns if column != gone])
        spare = max(0, tried.widths[last] - max(_SHORTEST_LAST, least[last]))
        over = tried.total - limit
        if over <= spare:
            widths = [width - (max(0, over) if column == last else 0) for column, width in enumerate(tried.widths)]
            return tried._replace(widths=widths, cut=True)
    widths = list(tried.widths)
    others = tried.columns[1:]
    while tried._replace(widths=widths).total > limit:
        widest = max(others, key=lambda column: widths[column] - max(_SHORTEST, least[column]), default=None)
        if widest is None or widths[widest] <= max(_SHORTEST, least[widest]):
            return layout
        widths[widest] -= 1
    return tried._replace(widths=widths, cut=True)


def _line(row: Sequence[str], layout: _Layout, state: int | None) -> str:
    out = []
    for column in layout.columns:
        cell, width = row[column], layout.widths[column]
        shown = shorten(cell, width) if layout.cut else cell
        padding = " " * max(1, width - width_of(shown) + layout.gap)
        if column == state and colour_of(cell) is not None:
            shown = click.style(shown, fg=colour_of(cell))
        out.append(shown + padding)
    return "".join(out).rstrip()


def colour_of(status: str) -> str | None:
    """The colour of a state: green runs, yellow waits, red needs somebody."""
    return _COLOURS.get(status.replace(" ", "").removeprefix("Init:"))


def shorten(text: str, width: int) -> str:
    """A text that takes at most so many columns, cut with ``…``."""
    if width_of(text) <= width:
        return text
    shown = ""
    taken = 0
    for character in text:
        taken += width_of(character)
        if taken > width - 1:
            break
        shown += character
    return shown + "…"


def details(pairs: Iterable[tuple[str, str]], *, style: Callable[[str], str] = str) -> Iterator[str]:
    """Lines ``Name:   value``, values aligned; those of several lines are indented below each other."""
    known = [(name, value if value else EMPTY) for name, value in pairs]
    column = max((width_of(name) for name, _ in known), default=0) + 1 + GAP
    for name, value in known:
        head, *rest = value.splitlines()
        yield f"{style(name + ':')}{' ' * (column - width_of(name) - 1)}{head}".rstrip()
        for line in rest:
            yield f"{' ' * column}{line}".rstrip()

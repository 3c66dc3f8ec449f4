"""Tables: aligned, coloured by state on a terminal and no wider than it; whole and plain in a pipe."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import click

GAP = 3
"""Blanks between columns, as kubectl prints them."""
EMPTY = "-"
"""What stands for nothing, so that every row has as many words as columns."""
_NARROWEST = 8
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
) -> Iterator[str]:
    """The lines of a table.

    ``rows`` may be endless: columns are as wide as the first thousand rows need. With a ``width`` long cells are cut
    (``…``) until a row fits. Blanks within words of a column other than the last one are left out (``Partially
    Running`` is ``PartiallyRunning``), so that awk finds every column.
    """
    rows = iter(rows)
    first = [_cells(row) for row in itertools.islice(rows, _MEASURED)]
    if not first and not headings:
        return
    heads = list(headers)
    widths = [width_of(head) if headings else 1 for head in heads]
    for row in first:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], width_of(cell))
    if width is not None:
        _narrow(widths, width, [width_of(head) if headings else 1 for head in heads])
    if headings:
        yield _line(heads, widths, None, cut=width is not None)
    state = heads.index("STATUS") if coloured and "STATUS" in heads else None
    for row in itertools.chain(first, map(_cells, rows)):
        yield _line(row, widths, state, cut=width is not None)


def _cells(row: Sequence[str]) -> list[str]:
    *others, last = (" ".join(str(cell).split()) or EMPTY for cell in row)
    return [*(cell.replace(" ", "") for cell in others), last]


def _narrow(widths: list[int], limit: int, least: Sequence[int]) -> None:
    """Take from the widest column, again and again, until the row fits or nothing is left to take."""
    while sum(widths) + GAP * (len(widths) - 1) > limit:
        floors = [max(_NARROWEST, head) for head in least]
        spare = [width - floor for width, floor in zip(widths, floors, strict=True)]
        widest = max(range(len(widths)), key=lambda column: widths[column] if spare[column] > 0 else -1)
        if spare[widest] <= 0:
            return
        widths[widest] -= 1


def _line(row: Sequence[str], widths: Sequence[int], state: int | None, *, cut: bool) -> str:
    out = []
    last = len(row) - 1
    for column, cell in enumerate(row):
        shown = shorten(cell, widths[column]) if cut else cell
        padding = "" if column == last else " " * max(1, widths[column] - width_of(shown) + GAP)
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

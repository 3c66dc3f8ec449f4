"""Texts under headings in a margin, broken into lines where a terminal ends; whole in a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gpuctl.cli.printers.table import width_of

MARGIN = 12
_NARROWEST = 20


def section(
    title: str, texts: Iterable[str], width: int | None, *, style: Callable[[str], str] = str, indent: int = MARGIN
) -> Iterator[str]:
    """``title`` in the margin beside the first text; each further line below the text."""
    head = style(title) + " " * max(1, indent - width_of(title)) if title else " " * indent
    for text in texts:
        for number, line in enumerate(broken(text, None if width is None else max(_NARROWEST, width - indent - 1))):
            # What goes on is set in by two, so that one sees where the next text begins.
            yield f"{head}{'  ' if number and title else ''}{line}"
            head = " " * indent


def broken(text: str, width: int | None) -> Iterator[str]:
    """Lines of at most so many columns, broken at blanks; a word that is longer stays whole, to be copied."""
    if width is None:
        yield text
        return
    line = ""
    limit = width
    for word in text.split():
        if line and width_of(line) + 1 + width_of(word) > limit:
            yield line
            line, limit = word, width - 2
        else:
            line = f"{line} {word}" if line else word
    yield line

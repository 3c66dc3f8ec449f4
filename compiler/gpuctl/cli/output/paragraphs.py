"""Texts under headings in a margin, broken into lines where a terminal ends; whole in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gpuctl.cli.output.table import width_of
from gpuctl.cli.output.terminal import terminal_width
from gpuctl.language.display_text import visible

MARGIN = 12
# A wide character is a word of its own; blanks belong to the word behind them.
_WORDS = re.compile(
    r"\s*(?:[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef][,.:;!?]*|[^\s\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]+)"
)
_NARROWEST = 20


def section(
    title: str, texts: Iterable[str], width: int | None, *, style: Callable[[str], str] = str, indent: int = MARGIN
) -> Iterator[str]:
    """``title`` in the margin beside the first text; each further line below the text."""
    head = style(title) + " " * max(1, indent - width_of(title)) if title else " " * indent
    for text in texts:
        text = visible(text.replace("\n", " "))
        for number, line in enumerate(
            wrapped_lines(text, None if width is None else max(_NARROWEST, width - indent - 1))
        ):
            # What goes on is set in by two, so that one sees where the next text begins.
            yield f"{head}{'  ' if number and title else ''}{line}"
            head = " " * indent


def fit_terminal(text: str, margin: int) -> str:
    """A text as lines that fit beside a margin on the terminal that standard output is; as it is in a pipe."""
    width = terminal_width()
    return text if width is None else "\n".join(wrapped_lines(text, max(_NARROWEST, width - margin)))


def wrapped_lines(text: str, width: int | None) -> Iterator[str]:
    """Lines of at most so many columns, broken at blanks, and between Chinese characters.

    A word of Latin letters that is longer stays whole, to be copied.
    """
    if width is None:
        yield text
        return
    line, limit = "", width
    for word in _WORDS.findall(text):
        word = word if line else word.lstrip()
        if line and width_of(line) + width_of(word.rstrip()) > limit:
            yield line.rstrip()
            line, limit = word.lstrip(), width - 2
        else:
            line += word
    yield line.rstrip()

"""Paragraphs beside headings, wrapped to the width of the terminal; not wrapped in a pipe."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gpuctl.cli.output.table import width_of
from gpuctl.cli.output.terminal import terminal_width
from gpuctl.language.display_text import visible

MARGIN = 12
_WIDE = r"\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
# A wide character is a word of its own, with its punctuation; blanks belong to the following word.
_WORDS = re.compile(rf"\s*[（“《【]*(?:[{_WIDE}][,.:;!?]*|[^\s{_WIDE}“”]+|.)[，。、；：？！）”》】]*", re.DOTALL)
_NARROWEST = 20


def section(
    title: str, texts: Iterable[str], width: int | None, *, style: Callable[[str], str] = str, indent: int = MARGIN
) -> Iterator[str]:
    """Yield texts beside a title in the margin; the title stands before the first line only."""
    head = style(title) + " " * max(1, indent - width_of(title)) if title else " " * indent
    for text in texts:
        text = visible(text.replace("\n", " "))
        for number, line in enumerate(
            wrapped_lines(text, None if width is None else max(_NARROWEST, width - indent - 1))
        ):
            # Continuation lines are indented by two, to mark where the next text begins.
            yield f"{head}{'  ' if number and title else ''}{line}"
            head = " " * indent


def fit_terminal(text: str, margin: int) -> str:
    """Return a text wrapped to the terminal's width minus a margin; unchanged if standard output is not a terminal."""
    width = terminal_width()
    return text if width is None else "\n".join(wrapped_lines(text, max(_NARROWEST, width - margin)))


def wrapped_lines(text: str, width: int | None, *, indent: int = 2) -> Iterator[str]:
    """Yield lines of at most ``width`` columns, broken at blanks and between Chinese characters.

    A longer word of Latin letters is not broken, so that it can be copied.

    :param indent: the columns by which the second and later lines are shorter.
    """
    if width is None:
        yield text
        return
    line, limit = "", width
    for word in _WORDS.findall(text):
        word = word if line else word.lstrip()
        if line and width_of(line) + width_of(word.rstrip()) > limit:
            yield line.rstrip()
            line, limit = word.lstrip(), width - indent
        else:
            line += word
    yield line.rstrip()

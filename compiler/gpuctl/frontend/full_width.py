"""Detects full-width punctuation in place of YAML's own, a common slip with a Chinese or Japanese keyboard.

YAML reads ``：``, ``，`` and ``“`` as text, so the document fails elsewhere or changes its meaning. Quoted text, block
text and comments are not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Severity, SourceSpan
from gpuctl.frontend.source import lines_of
from gpuctl.frontend.yaml_tree import MAPPING, SCALAR, Chunk, RawDocument, YamlNode
from gpuctl.language.display_text import shorten
from gpuctl.language.sentences import Sentence, Template, say

CODE = "GPU014"
_NO_BREAK = "\u00a0"
ASCII = str.maketrans(
    {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    | {"“": '"', "”": '"', "‘": "'", "’": "'", "、": ",", "【": "[", "】": "]", "\u3000": " ", _NO_BREAK: " "}
)
"""Full-width characters (Unicode block "Halfwidth and Fullwidth Forms") and Chinese punctuation -> the intended ASCII.
"""
_DASHES = re.compile(r"[\u2012-\u2015\u2212]+-*(?=[A-Za-z])")
"""Matches dashes that editors substitute for the hyphens of an option."""
_ILLEGAL_TEXTS = frozenset({"GPU207", "GPU208", "GPU212", "GPU226"})
"""Codes of illegal names, quantities, labels and values of a sweep."""
_ILLEGAL = re.compile(r"[^\w./:-]")
"""Matches a character that no name, quantity or label has, nor a name with its key: `hf:token`."""
_COMMANDS = frozenset({"command", "args"})
_NO_BREAK_SPACE = Template("write `{text}`: `{character}` is a no-break space")
_FULL_WIDTH = Template("write `{text}`: `{character}` is a full-width character")


def report_full_width(raw: RawDocument, diagnostics: list[Diagnostic], first: int) -> None:
    """Report plain text that would be ASCII without its full-width characters.

    If an error was already found at the same place, its hint is replaced, so that each slip is reported once.

    :param first: index of the document's first diagnostic.
    """
    if raw.chunk.text.isascii():
        return
    for node, path in _plain_texts(raw.root, ()):
        if _COMMANDS.intersection(path) and (dashes := _DASHES.match(node.value)) is not None:
            diagnostics.append(_dash(raw.chunk, node, path, dashes))
            continue
        meant = node.value.translate(ASCII)
        if node.value.isascii() or not meant.isascii():
            continue
        position = next(place for place, character in enumerate(node.value) if not character.isascii())
        span = _character(raw.chunk, node, position)
        character = node.value[position]
        known = [
            index
            for index, found in enumerate(diagnostics[first:], first)
            if found.severity is Severity.ERROR and found.span is not None and _holds(found.span, span)
        ]
        for index in known:
            # The hint of an illegal text is legal, or a list; in ASCII the text is as illegal: `a、b`, `a,b`.
            if diagnostics[index].code in _ILLEGAL_TEXTS and diagnostics[index].hint and _ILLEGAL.search(meant):
                continue
            # A mapping or its key: the colon must be followed by a blank.
            is_pair = diagnostics[index].code in ("GPU201", "GPU202", "GPU203", "GPU205")
            text = re.sub(r"：\s*", ": ", node.value).translate(ASCII) if is_pair else meant
            if diagnostics[index].code == "GPU202":
                # Of a number, or true and false: neither is quoted.
                text = re.sub(r"\A([\"'])([^\"']*)\1\Z", r"\2", text)
            template = _NO_BREAK_SPACE if character == _NO_BREAK else _FULL_WIDTH
            hint = say(template, text=shorten(text), character=character)
            diagnostics[index] = diagnostics[index]._replace(hint=hint)
        if not known:
            severity = Severity.ERROR if _COMMANDS.intersection(path) else Severity.WARNING
            message = _is_text(character)
            # Of a pair of quotes or brackets, both are replaced.
            text = meant if len(node.value.encode("ascii", "ignore")) < len(node.value) - 1 else meant[position]
            hint = say("write `{text}`, or quote the text if it is meant", text=shorten(text))
            diagnostics.append(Diagnostic(severity, CODE, message, span, path, hint))


def syntax_error_at(chunk: Chunk, error: Diagnostic) -> Diagnostic:
    """Return an error at the full-width character that explains a syntax error, or else the given error.

    Only characters directly after an ASCII character or a blank count, on the error's line, the line above it, and the
    line where libyaml began the construct. Prose in comments and quoted text does not explain an error.
    """
    spans = [error.span, *(related.span for related in error.related)]
    numbers = {span.line - 1 - chunk.first_line for span in spans if span is not None}
    lines = lines_of(chunk.text)
    for number in sorted({*numbers, *(number - 1 for number in numbers)}, reverse=True):
        line = lines[number] if 0 <= number < len(lines) else ""
        for column in _unquoted(line):
            character = line[column]
            before = line[column - 1 : column]
            if character.translate(ASCII) != character and before.isascii() and (before != " " or character != "："):
                meant = character.translate(ASCII)
                hint = say("write `{text}`", text=meant)
                if meant == ":" and line[column + 1 :].strip():
                    hint = say("write `{text}` and a blank", text=meant)
                return error._replace(
                    code=CODE, message=_is_text(character), span=chunk.point(number, column), hint=hint, related=()
                )
    return error


def ascii_meant(text: str) -> str:
    """Return a command in ASCII if only full-width characters and dashes prevent that, else the text unchanged."""
    meant = re.sub(rf"(?<!\S){_DASHES.pattern}", _hyphens, text).translate(ASCII)
    return meant if meant.isascii() else text


def _hyphens(dashes: re.Match[str]) -> str:
    """Return the hyphens for an option that begins with dashes: one before a single letter, else two."""
    return "-" if re.match(r"[A-Za-z](?:[\s=]|\Z)", dashes.string[dashes.end() :]) else "--"


def _dash(chunk: Chunk, node: YamlNode, path: FieldPath, dashes: re.Match[str]) -> Diagnostic:
    option = _hyphens(dashes) + shorten(node.value[dashes.end() :])
    message = say("`{dash}` is a dash, and no option begins with one", dash=dashes[0])
    hint = say("write `{text}`, or quote the text if it is meant", text=option)
    return Diagnostic(Severity.ERROR, CODE, message, _character(chunk, node, 0), path, hint)


def _is_text(character: str) -> Sentence:
    """Return the message about a character that YAML reads as text."""
    meant = character.translate(ASCII)
    if character == _NO_BREAK:
        return say("the no-break space is text, not `{meant}`", meant=meant)
    return say("the full-width `{character}` is text, not `{meant}`", character=character, meant=meant)


def _plain_texts(node: YamlNode, path: FieldPath) -> Iterator[tuple[YamlNode, FieldPath]]:
    if node.kind == SCALAR:
        if node.plain:
            yield node, path
    elif node.kind == MAPPING:
        for key, value in node.value:
            yield from _plain_texts(key, (*path, key.value))
            yield from _plain_texts(value, (*path, key.value))
    else:
        for position, item in enumerate(node.value):
            yield from _plain_texts(item, (*path, position))


def _character(chunk: Chunk, node: YamlNode, position: int) -> SourceSpan:
    """Return the position of a character of a plain scalar; for a scalar of several lines, the scalar's start."""
    chunk = chunk.holding(node)
    line, column = chunk.place(node.start)
    return chunk.point(line, column + position if chunk.is_on_one_line(node) else column)


def _holds(outer: SourceSpan, inner: SourceSpan) -> bool:
    return (outer.line, outer.column) <= (inner.line, inner.column) < (outer.end_line, outer.end_column)


def _unquoted(line: str) -> Iterator[int]:
    """Yield the columns of a line's non-ASCII characters outside of quotes and comments."""
    quote = ""
    for column, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'" and (column == 0 or line[column - 1] in " [{,:"):
            quote = character
        elif character == "#" and (column == 0 or line[column - 1] == " "):
            return
        elif not character.isascii():
            yield column

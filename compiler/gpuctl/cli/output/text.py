"""Diagnostics as text in the form of rustc: message, place, source line, hint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

import click

from gpuctl.cli.output.table import width_of
from gpuctl.cli.output.terminal import is_coloured
from gpuctl.frontend.diagnostics import SECRET_CODES, Diagnostic, Severity, SourceSpan, count
from gpuctl.frontend.source import Source, lines_of
from gpuctl.language.display_text import count_text
from gpuctl.language.masking import redact

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_WIDEST = 120


def write(diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source], stream: TextIO) -> None:
    """Write diagnostics and their count; coloured on a terminal, unless NO_COLOR is set."""
    if not diagnostics:
        return
    stream.write(render(diagnostics, sources, coloured=is_coloured(stream)))


def render(
    diagnostics: Iterable[Diagnostic], sources: Mapping[str, Source], *, coloured: bool = False, summary: bool = True
) -> str:
    """Return all diagnostics as text; with ``summary`` the last line counts errors and warnings."""
    diagnostics = list(diagnostics)
    lines = _Lines(sources, [item.span for item in diagnostics if item.code in SECRET_CODES and item.span is not None])
    parts = [_one(diagnostic, lines, coloured) for diagnostic in diagnostics]
    errors, warnings = count(diagnostics, Severity.ERROR), count(diagnostics, Severity.WARNING)
    if summary and (errors or warnings):
        said = [count_text(number, noun) for number, noun in ((errors, "error"), (warnings, "warning")) if number]
        parts.append(", ".join(said) + "\n")
    return "\n".join(parts)


class _Lines:
    """The lines of sources, each source split once."""

    def __init__(self, sources: Mapping[str, Source], secrets: Iterable[SourceSpan]) -> None:
        self.sources = sources
        self.secrets: dict[tuple[str, int], list[SourceSpan]] = {}
        for span in secrets:
            self.secrets.setdefault((span.file, span.line), []).append(span)
        self.split: dict[str, list[str]] = {}

    def get(self, span: SourceSpan) -> str | None:
        source = self.sources.get(span.file)
        if source is None:
            return None
        lines = self.split.get(span.file)
        if lines is None:
            lines = self.split[span.file] = lines_of(source.text)
        if span.line > len(lines) or (span.line == span.end_line and span.column == span.end_column):
            return None
        line = lines[span.line - 1]
        for secret in self.secrets.get((span.file, span.line), ()):
            line = _blotted(line, secret)
        return redact(line)


def _blotted(line: str, secret: SourceSpan) -> str:
    """Return the line with the secret replaced by asterisks: the part behind its `=`, or all of it."""
    start, end = secret.column - 1, secret.end_column - 1 if secret.end_line == secret.line else len(line)
    option, equals, value = line[start:end].partition("=")
    blotted = option + equals + "*" * len(value) if equals else "*" * len(option)
    return line[:start] + blotted + line[end:]


def _one(diagnostic: Diagnostic, lines: _Lines, coloured: bool) -> str:
    colour = _COLOURS[diagnostic.severity]
    head = _style(f"{diagnostic.severity.value}[{diagnostic.code}]", colour, coloured)
    text = f"{head}{_style(': ' + diagnostic.message, None, coloured)}\n"
    span = diagnostic.span
    if span is None:
        return text + (f"  = {diagnostic.hint}\n" if diagnostic.hint else "")
    margin = " " * len(str(span.line))
    bar = _style("|", "blue", coloured)
    text += f"{margin}{_style('-->', 'blue', coloured)} {span}\n"
    line = lines.get(span)
    if line is not None:
        before, marked = _excerpt(line, span)
        shown, caret = before[0] + marked + before[1], "^" * max(1, width_of(marked))
        text += f"{margin} {bar}\n"
        text += f"{_style(str(span.line), 'blue', coloured)} {bar} {shown}\n"
        hint, indent = diagnostic.hint, width_of(before[0])
        beside = hint is not None and "\n" not in hint and indent + len(caret) + len(hint) < _WIDEST
        advice = f" {hint}" if beside else ""
        text += f"{margin} {bar} {' ' * indent}{_style(caret + advice, colour, coloured)}\n"
        if hint is not None and not beside:
            text += f"{margin} = {hint}\n"
    elif diagnostic.hint:
        text += f"{margin} = {diagnostic.hint}\n"
    for related in diagnostic.related:
        text += f"{margin} = {related.message}: {related.span}\n"
    return text


def _excerpt(line: str, span: SourceSpan) -> tuple[tuple[str, str], str]:
    """Return the line as (before, after) and the marked part; a long line is cut, tabs become blanks."""
    line = "".join(c if c.isprintable() else " " for c in line)
    start = min(span.column - 1, len(line))
    end = len(line) if span.end_line != span.line else min(span.end_column - 1, len(line))
    marked = line[start:end]
    if len(marked) > _WIDEST:
        marked, end = marked[: _WIDEST - 3] + "...", len(line)
    before, after = line[:start], line[end:]
    room = max(0, _WIDEST - len(marked))
    if len(before) > room:
        before = "..." + before[len(before) - room + 3 :] if room > 3 else ""
    room = max(0, _WIDEST - len(before) - len(marked))
    if len(after) > room:
        after = after[: max(0, room - 3)] + "..."
    return (before, after), marked


def _style(text: str, colour: str | None, coloured: bool) -> str:
    return click.style(text, fg=colour, bold=True) if coloured else text

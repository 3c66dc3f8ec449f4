"""Diagnostics: the one type for problems in sources, with their position and a hint."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from gpuctl.language.sentences import Sentence, Template, say

MAX_DIAGNOSTICS = 100
"""Maximum number of diagnostics shown per file; the rest are counted."""


UNREAD_CODES = frozenset({"GPU011", "GPU012", "GPU107"})
"""Codes for input that was not read: skipped files, files without a document, documents whose owner is unclear."""
SECRET_CODES = frozenset({"GPU507"})
"""Codes whose source line must not be shown: it contains a credential."""
FieldPath = tuple[str | int, ...]
"""Path of a field in its document or object: keys in canonical spelling, and list indices."""


class Severity(str, Enum):
    """Errors fail the compile, warnings do not (unless ``--strict``), notes are for information."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class SourceSpan(NamedTuple):
    """A range of a source. Lines and columns count from 1, in code points; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Related(NamedTuple):
    """A second position that a diagnostic refers to, with its role."""

    message: Sentence
    span: SourceSpan


class Diagnostic(NamedTuple):
    """A problem of a source.

    :param code: stable between releases; ``gpuctl explain CODE`` explains it.
    :param span: None only for problems without a file, such as an invalid option.
    :param path: the field's path in its document, in canonical spelling.
    :param hint: the remedy.
    :param not_shown: of GPU030, the number of omitted diagnostics by severity.
    """

    severity: Severity
    code: str
    message: Sentence
    span: SourceSpan | None = None
    path: FieldPath = ()
    hint: Sentence | None = None
    related: tuple[Related, ...] = ()
    not_shown: tuple[tuple[Severity, int], ...] = ()

    def as_error(self) -> Diagnostic:
        """Return the diagnostic as ``--strict`` reports it: a warning becomes an error."""
        return self._replace(severity=Severity.ERROR) if self.severity is Severity.WARNING else self


def format_path(path: FieldPath) -> str:
    """Return a path as text: ``("environment", "env", 0, "name")`` -> ``environment.env[0].name``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def count(diagnostics: Iterable[Diagnostic], severity: Severity) -> int:
    """Return the number of diagnostics with the severity, including those that are not shown."""
    return sum(
        dict(diagnostic.not_shown).get(severity, 0) if diagnostic.not_shown else diagnostic.severity is severity
        for diagnostic in diagnostics
    )


def in_source_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics sorted by file, line and column, without duplicates, independent of the order of the
    inputs.
    """

    def key(diagnostic: Diagnostic) -> tuple[str, int, int, str, str]:
        span = diagnostic.span
        if span is None:
            return ("", 0, 0, diagnostic.code, diagnostic.message)
        return (span.file, span.line, span.column, diagnostic.code, diagnostic.message)

    return sorted(dict.fromkeys(diagnostics), key=key)


def limited_per_file(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Return at most :data:`MAX_DIAGNOSTICS` per file, errors first, plus one diagnostic that counts the rest.

    :param diagnostics: in source order; so is the result.
    """
    files: dict[str, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        files.setdefault(diagnostic.span.file if diagnostic.span else "", []).append(diagnostic)
    if all(len(found) <= MAX_DIAGNOSTICS for found in files.values()):
        return [diagnostic for found in files.values() for diagnostic in found]
    result: list[Diagnostic] = []
    for found in files.values():
        ranked = sorted(found, key=lambda diagnostic: _RANKS[diagnostic.severity])
        result += ranked[:MAX_DIAGNOSTICS]
        if len(ranked) > MAX_DIAGNOSTICS:
            result.append(_rest(ranked[MAX_DIAGNOSTICS:]))
    return in_source_order(result)


_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


def _rest(hidden: list[Diagnostic]) -> Diagnostic:
    """Return the diagnostic that counts a file's hidden diagnostics, with the worst severity among them."""
    said = {
        Severity.ERROR: Template("{number:error}"),
        Severity.WARNING: Template("{number:warning}"),
        Severity.NOTE: Template("{number:note}"),
    }
    numbers = [(severity, number) for severity in said if (number := count(hidden, severity))]
    message = say(
        "{counts:and} more in this file {number:is/are} not shown",
        counts=[say(said[severity], number=number) for severity, number in numbers],
        number=len(hidden),
    )
    hint = say("correct those that are shown, and run this again")
    return Diagnostic(hidden[0].severity, "GPU030", message, hidden[0].span, hint=hint, not_shown=tuple(numbers))

"""The one type in which gpuctl says that something is wrong, and where."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

MAX_DIAGNOSTICS = 100
"""Diagnostics of one file that are shown; of the rest only the number."""


UNREAD_CODES = frozenset({"GPU011", "GPU012", "GPU107"})
"""Codes of what was not read: files that are passed over, that hold no document, or one whose owner is unclear."""
SECRET_CODES = frozenset({"GPU507"})
"""Diagnostics whose place in the source must not be shown: it holds a credential."""
FieldPath = tuple[str | int, ...]
"""Where a field stands in its document or object: keys in canonical spelling, and indices."""


class Severity(str, Enum):
    """How bad it is: an error refuses, a warning does not (unless ``--strict``), a note only tells."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class SourceSpan(NamedTuple):
    """A stretch of a source: lines and columns count from 1, in code points; the end is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Related(NamedTuple):
    """A second place that matters for a diagnostic, and what it is."""

    message: str
    span: SourceSpan


class Diagnostic(NamedTuple):
    """A problem of a source.

    ``code`` is stable (``gpuctl explain CODE`` tells more), ``path`` is the field's path within its document in
    canonical spelling, ``hint`` what to do. ``span`` is None only for problems that no file has (a bad option).
    """

    severity: Severity
    code: str
    message: str
    span: SourceSpan | None = None
    path: FieldPath = ()
    hint: str | None = None
    related: tuple[Related, ...] = ()

    def as_error(self) -> Diagnostic:
        """The same, as an error: what ``--strict`` makes of a warning."""
        return self._replace(severity=Severity.ERROR) if self.severity is Severity.WARNING else self

    def to_dict(self) -> dict[str, Any]:
        """The JSON form that every command prints."""
        span = self.span
        return {
            "severity": self.severity.value,
            "code": self.code,
            "message": self.message,
            "file": span.file if span else None,
            "line": span.line if span else None,
            "column": span.column if span else None,
            "endLine": span.end_line if span else None,
            "endColumn": span.end_column if span else None,
            "path": format_path(self.path),
            "hint": self.hint,
            "related": [
                {
                    "message": related.message,
                    "file": related.span.file,
                    "line": related.span.line,
                    "column": related.span.column,
                    "endLine": related.span.end_line,
                    "endColumn": related.span.end_column,
                }
                for related in self.related
            ],
        }


def format_path(path: FieldPath) -> str:
    """``("environment", "env", 0, "name")`` -> ``environment.env[0].name``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


def count(diagnostics: Iterable[Diagnostic], severity: Severity) -> int:
    """How many of the diagnostics have the severity."""
    return sum(1 for diagnostic in diagnostics if diagnostic.severity is severity)


def in_source_order(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Sorted by file name, line and column, without exact repetitions: one order whatever the order of the inputs."""

    def key(diagnostic: Diagnostic) -> tuple[str, int, int, str, str]:
        span = diagnostic.span
        if span is None:
            return ("", 0, 0, diagnostic.code, diagnostic.message)
        return (span.file, span.line, span.column, diagnostic.code, diagnostic.message)

    return sorted(dict.fromkeys(diagnostics), key=key)


def limited_per_file(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """At most :data:`MAX_DIAGNOSTICS` diagnostics of each file, errors before others, and one that counts the rest.

    :param diagnostics: in source order, as the result is.
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
    """What stands for the diagnostics of a file that are not shown, as bad as the worst of them."""
    counts = [(count(hidden, severity), severity.value) for severity in Severity]
    shown = " and ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in counts if number)
    message = f"{shown} more in this file {'is' if len(hidden) == 1 else 'are'} not shown"
    hint = "correct those that are shown, and run this again"
    return Diagnostic(hidden[0].severity, "GPU030", message, hidden[0].span, hint=hint)

"""The one type in which gpuctl says that something is wrong, and where."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple


class Severity(str, Enum):
    """How bad it is: an error refuses, a warning does not (unless ``--strict``), a note only tells."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Span(NamedTuple):
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
    span: Span


class Diagnostic(NamedTuple):
    """A problem of a source.

    ``code`` is stable (``gpuctl explain CODE`` tells more), ``path`` is the field's path within its document in
    canonical spelling, ``hint`` what to do. ``span`` is None only for problems that no file has (a bad option).
    """

    severity: Severity
    code: str
    message: str
    span: Span | None = None
    path: tuple[str | int, ...] = ()
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


def format_path(path: tuple[str | int, ...]) -> str:
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

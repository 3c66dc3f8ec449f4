"""Diagnostics as GitHub Actions' workflow commands, which annotate the lines of a pull request."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.cli.output.repository_paths import repository_path
from gpuctl.frontend.diagnostics import Diagnostic, Severity

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """Return one ``::error file=...::message`` line per diagnostic."""
    return "".join(_line(diagnostic) for diagnostic in diagnostics)


def _line(diagnostic: Diagnostic) -> str:
    properties = {"title": diagnostic.code}
    span = diagnostic.span
    if span is not None:
        file = repository_path(span.file)
        properties = {"file": file, "line": str(span.line), "endLine": str(span.end_line), "col": str(span.column)}
        if span.end_line == span.line:
            properties["endColumn"] = str(span.end_column)
        properties["title"] = diagnostic.code
    text = diagnostic.message + (f"\n{diagnostic.hint}" if diagnostic.hint else "")
    listed = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_COMMANDS[diagnostic.severity]} {listed}::{_data(text)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")

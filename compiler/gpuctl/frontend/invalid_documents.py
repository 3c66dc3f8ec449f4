"""The exception for documents that cannot be compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.source import Source


class InvalidDocuments(Exception):
    """Documents, or the platform's settings, have errors; nothing was changed.

    ``diagnostics``: all of them, in source order. ``sources``: name -> source, to show the lines.
    """

    def __init__(self, diagnostics: Sequence[Diagnostic], sources: Mapping[str, Source]) -> None:
        errors = [item for item in diagnostics if item.severity is Severity.ERROR]
        super().__init__("\n".join(f"{item.span}: {item.message}" if item.span else item.message for item in errors))
        self.diagnostics = list(diagnostics)
        self.sources = dict(sources)

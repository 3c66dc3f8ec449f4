"""Diagnostics as JSON, in the same form for every command."""

from __future__ import annotations

from collections.abc import Iterable

from gpuctl.api.document_answers import DiagnosticsAnswer
from gpuctl.api.json_values import to_json
from gpuctl.frontend.diagnostics import Diagnostic


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """Return one JSON value; lines and columns count from 1, in code points."""
    return to_json(DiagnosticsAnswer.of(diagnostics).as_json())

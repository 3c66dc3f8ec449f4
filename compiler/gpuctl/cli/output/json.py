"""Diagnostics as JSON: one shape for every command."""

from __future__ import annotations

import json
from collections.abc import Iterable

from gpuctl.frontend.diagnostics import Diagnostic, Severity, count


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """One JSON value; lines and columns count from 1, in code points."""
    listed = list(diagnostics)
    value = {
        "diagnostics": [diagnostic.to_dict() for diagnostic in listed],
        "errors": count(listed, Severity.ERROR),
        "warnings": count(listed, Severity.WARNING),
    }
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"

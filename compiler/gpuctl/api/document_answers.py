"""What is said of documents, and of gpuctl itself, as JSON: every command's diagnostics, and ``version``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuctl.backend.validation import VERSIONS
from gpuctl.frontend.diagnostics import Diagnostic, Severity, count
from gpuctl.language.kinds import VERSION
from gpuctl.release import __version__


def diagnostics_answer(diagnostics: Iterable[Diagnostic]) -> dict[str, Any]:
    """``validate -o json``; lines and columns count from 1, in code points."""
    told = list(diagnostics)
    return {
        "diagnostics": [diagnostic.to_dict() for diagnostic in told],
        "errors": count(told, Severity.ERROR),
        "warnings": count(told, Severity.WARNING),
    }


def version_answer() -> dict[str, Any]:
    """``version -o json``: gpuctl's version, the language's, and the Kubernetes versions that can be validated for."""
    return {"gpuctl": __version__, "language": VERSION, "kubernetes": list(VERSIONS)}

"""Diagnostics as SARIF 2.1.0, which code scanning reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from gpuctl.cli.output.repository_paths import repository_path
from gpuctl.frontend.codes import CODES
from gpuctl.frontend.diagnostics import Diagnostic, SourceSpan
from gpuctl.release import __version__


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """Return a SARIF log with one run; its rules are the codes that occur."""
    listed = list(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in listed})
    run = {
        "tool": {"driver": {"name": "gpuctl", "version": __version__, "rules": [_rule(code) for code in codes]}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(diagnostic, codes) for diagnostic in listed],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    rule = CODES[code]
    return {
        "id": code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.explanation},
        "help": {"text": rule.fix},
        "defaultConfiguration": {"level": rule.severity},
    }


def _result(diagnostic: Diagnostic, codes: list[str]) -> dict[str, Any]:
    text = diagnostic.message + (f" ({diagnostic.hint})" if diagnostic.hint else "")
    result: dict[str, Any] = {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": diagnostic.severity.value,
        "message": {"text": text},
    }
    if diagnostic.span is not None:
        result["locations"] = [{"physicalLocation": _location(diagnostic.span)}]
    if diagnostic.related:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": related.message}, "physicalLocation": _location(related.span)}
            for number, related in enumerate(diagnostic.related, 1)
        ]
    return result


def _location(span: SourceSpan) -> dict[str, Any]:
    path = PurePath(repository_path(span.file))
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    region = {
        "startLine": span.line,
        "startColumn": span.column,
        "endLine": span.end_line,
        "endColumn": max(span.end_column, span.column) if span.end_line == span.line else span.end_column,
    }
    return {"artifactLocation": {"uri": uri}, "region": region}

"""Diagnostics as a JUnit report: a test case a file, failed when the file has an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from gpuctl.frontend.diagnostics import Diagnostic, Severity

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(diagnostics: Iterable[Diagnostic]) -> str:
    """A ``testsuites`` document; without a diagnostic one passed case, because an empty report fails some readers."""
    by_file: dict[str, list[Diagnostic]] = {}
    for diagnostic in diagnostics:
        by_file.setdefault(diagnostic.span.file if diagnostic.span else "gpuctl", []).append(diagnostic)
    if not by_file:
        by_file["gpuctl"] = []
    cases = [_case(file, found) for file, found in by_file.items()]
    failures = sum(1 for found in by_file.values() if any(item.severity is Severity.ERROR for item in found))
    head = f'<testsuite name="gpuctl validate" tests="{len(cases)}" failures="{failures}" errors="0" skipped="0">'
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{head}\n{"".join(cases)}</testsuite>\n</testsuites>\n'
    )


def _case(file: str, found: list[Diagnostic]) -> str:
    lines = [
        f"{item.span or file}: {item.severity.value}[{item.code}]: {item.message}"
        + (f" ({item.hint})" if item.hint else "")
        for item in found
    ]
    errors = [line for line, item in zip(lines, found, strict=True) if item.severity is Severity.ERROR]
    others = [line for line, item in zip(lines, found, strict=True) if item.severity is not Severity.ERROR]
    body = ""
    if errors:
        body += f"<failure message={_attribute(errors[0])}>{_text(chr(10).join(errors))}</failure>"
    if others:
        body += f"<system-out>{_text(chr(10).join(others))}</system-out>"
    return f'<testcase classname="gpuctl" name={_attribute(file)}>{body}</testcase>\n'


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text))


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("?", text))

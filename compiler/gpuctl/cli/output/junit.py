"""Diagnostics as a JUnit report: one test case per document, failed if the document has an error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.sax.saxutils import escape, quoteattr

from gpuctl.frontend.diagnostics import Diagnostic, Severity
from gpuctl.frontend.document import Document

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(diagnostics: Iterable[Diagnostic], documents: Iterable[Document]) -> str:
    """Return a ``testsuites`` document.

    Each valid document is a case, ``FILE: KIND/NAME``. What is reported outside of valid documents makes a case of its
    file. Without any of both there is one passed case, because some readers fail on an empty report.
    """
    known: dict[str, list[tuple[range, str]]] = {}
    for document in filter(lambda item: item.is_first, documents):
        title = f"{document.kind}/{document.written_name}" if document.written_name else document.kind
        known.setdefault(document.file, []).append((_lines(document), title))
    found: dict[tuple[str, str], list[Diagnostic]] = {
        (file, title): []
        for file, listed in known.items()
        for _, title in sorted(listed, key=lambda item: item[0].start)
    }
    for diagnostic in diagnostics:
        file, line = (diagnostic.span.file, diagnostic.span.line) if diagnostic.span else ("gpuctl", 0)
        title = next((title for lines, title in known.get(file, ()) if line in lines), "")
        found.setdefault((file, title), []).append(diagnostic)
    if not found:
        found[("gpuctl", "")] = []
    failures = sum(any(item.severity is Severity.ERROR for item in group) for group in found.values())
    head = f'<testsuite name="gpuctl validate" tests="{len(found)}" failures="{failures}" errors="0" skipped="0">'
    # Sorted by file only: the sort is stable and keeps the order of the documents of a file.
    cases = "".join(_case(*key, found[key]) for key in sorted(found, key=lambda key: key[0]))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{head}\n{cases}</testsuite>\n</testsuites>\n'


def _lines(document: Document) -> range:
    """Return the line numbers of a document in its file, counted from 1."""
    chunk = document.chunk
    return range(chunk.first_line + 1, chunk.first_line + chunk.place(chunk.end - chunk.start)[0] + 2)


def _case(file: str, title: str, found: list[Diagnostic]) -> str:
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
    name = f"{file}: {title}" if title else file
    return f'<testcase classname="gpuctl" name={_attribute(name)} file={_attribute(file)}>{body}</testcase>\n'


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("?", text))


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("?", text))

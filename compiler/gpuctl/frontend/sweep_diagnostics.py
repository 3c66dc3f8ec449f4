"""Reports a problem of a sweep once, at its place in the document, and not for each of its jobs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.document import Document
from gpuctl.frontend.yaml_tree import Chunk


class SweepDiagnostics:
    """Leaves out the diagnostics of a sweep's job that an earlier job of the sweep has at the same place."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Chunk, int], set[tuple[Any, ...]]] = {}

    def new(self, document: Document, found: Iterable[Diagnostic]) -> list[Diagnostic]:
        """Return the diagnostics of a document without those of earlier jobs of its sweep."""
        if document.first is None:
            return list(found)
        seen = self._seen.setdefault((document.chunk, document.index), set())
        fresh = [item for item in found if _place(item) not in seen]
        seen.update(map(_place, fresh))
        return fresh

    @staticmethod
    def once(diagnostics: Iterable[Diagnostic], documents: Iterable[Document]) -> list[Diagnostic]:
        """Return diagnostics about any documents, one for each place in a document with a sweep."""
        sweeps = {document.chunk: document for document in documents if document.first is not None}
        if not sweeps:
            return list(diagnostics)
        lines = [
            (chunk.source.name, chunk.first_line, chunk.first_line + chunk.text.count("\n") + 1) for chunk in sweeps
        ]
        seen: set[tuple[Any, ...]] = set()
        kept = []
        for item in diagnostics:
            span = item.span
            inside = span is not None and any(
                name == span.file and first < span.line <= last for name, first, last in lines
            )
            if not inside or _place(item) not in seen:
                kept.append(item)
            seen.add(_place(item))
        return kept


def _place(item: Diagnostic) -> tuple[Any, ...]:
    return item.code, item.span, item.path

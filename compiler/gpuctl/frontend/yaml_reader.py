"""Reads YAML 1.2 text into trees of nodes that keep the exact text of scalars and their positions.

A source is split at its ``---`` lines, and :mod:`gpuctl.frontend.composer` reads each chunk on its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuctl.frontend.composer import compose
from gpuctl.frontend.diagnostics import Diagnostic, Severity, SourceSpan
from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import Chunk, RawDocument, ReadError, YamlNode
from gpuctl.language.kinds import ALIASES, KINDS
from gpuctl.language.sentences import say

_BOUNDARY = r"(?m)^---(?=[ \t\r\n]|\Z)"
_DIRECTIVE = r"(?m)^%"
_GPUCTL_KIND = rf"(?mi)^[\"']?kind[\"']?[ \t]*[:：][ \t]*[\"']?({'|'.join([*KINDS, *ALIASES])})\b"
"""Matches a line that identifies a document as gpuctl's, in text that is not valid YAML."""
_MANIFEST_LINES = (r"(?m)^apiVersion:[ \t]+\S", r"(?m)^kind:[ \t]+\S")
"""Match lines that identify a Kubernetes manifest, such as a Helm template, which is not valid YAML."""


def read(source: Source, diagnostics: list[Diagnostic]) -> Iterator[RawDocument]:
    """Yield the documents of a source one by one, so that one tree at a time is in memory.

    Problems of the YAML are appended to ``diagnostics``. An empty source is an error if it was named directly.
    """
    before = len(diagnostics)
    empty = True
    for chunk in split(source):
        try:
            for number, root in enumerate(compose(chunk, diagnostics)):
                if not root.is_null:
                    empty = False
                    yield RawDocument(chunk, number, root)
        except ReadError as error:
            if source.direct or re.search(_GPUCTL_KIND, chunk.text):
                diagnostics.append(error.diagnostic)
            else:
                code = "GPU105" if all(re.search(line, chunk.text) for line in _MANIFEST_LINES) else "GPU107"
                message = say(
                    "a document of another tool cannot be read as YAML: skipped ({problem})",
                    problem=error.diagnostic.message,
                )
                diagnostics.append(Diagnostic(Severity.NOTE, code, message, error.diagnostic.span))
    if empty and len(diagnostics) == before:
        message, span = say("there is no document in this file"), SourceSpan(source.name, 1, 1, 1, 1)
        if source.direct:
            hint = say("start with `gpuctl init training`, or name another file")
            diagnostics.append(Diagnostic(Severity.ERROR, "GPU009", message, span, hint=hint))
        else:
            hint = say("it is empty or holds only comments; remove it if that is intended")
            diagnostics.append(Diagnostic(Severity.NOTE, "GPU012", message, span, hint=hint))


def split(source: Source) -> Iterator[Chunk]:
    """Split the source at its ``---`` lines. With YAML directives it stays whole: a directive belongs to the document
    after it.
    """
    text = source.text
    starts = [0]
    if "---" in text and not re.search(_DIRECTIVE, text):
        starts += [match.start() for match in re.finditer(_BOUNDARY, text) if match.start() > 0]
    if len(starts) == 1:
        # Most files contain one document.
        yield Chunk(source, 0, len(text), 0)
        return
    line, has_returns = 0, "\r" in text
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        yield Chunk(source, start, end, line)
        line += text.count("\n", start, end)
        if has_returns:
            line += text.count("\r", start, end) - text.count("\r\n", start, end)


def recompose(chunk: Chunk, index: int) -> YamlNode:
    """Return the tree of a document that was read before.

    Trees are large and not kept, except for those of a chunk with several documents.
    """
    if chunk.trees is not None:
        return chunk.trees[index]
    trees = compose(chunk, [])
    if len(trees) > 1:
        chunk.trees = trees
    return trees[index]

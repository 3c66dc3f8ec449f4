"""The problems found in one document while it is bound."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity, SourceSpan
from gpuctl.frontend.spans import locate
from gpuctl.frontend.yaml_tree import SCALAR, Chunk, YamlNode
from gpuctl.language.sentences import Sentence


class Findings:
    """Collects the problems of a document while it is bound.

    ``bad``: paths of the fields with problems. They are left out of the document's data, and their absence is not
    reported again. ``misspelt``: paths of the fields that are written under another name. ``puzzling``: paths of the
    blocks with unknown fields, which may stand for the field that is absent.
    """

    def __init__(self, chunk: Chunk, root: YamlNode, diagnostics: list[Diagnostic]) -> None:
        self.chunk = chunk
        self.root = root
        self.diagnostics = diagnostics
        self.bad: set[FieldPath] = set()
        self.misspelt: set[FieldPath] = set()
        self.puzzling: set[FieldPath] = set()
        self.failed = False

    def at_node(
        self,
        code: str,
        message: Sentence,
        node: YamlNode,
        path: FieldPath,
        hint: Sentence | None = None,
        *,
        key: YamlNode | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Add an error at a node, or at its key if the node is empty or has several lines."""
        if node.start == node.end or (node.kind != SCALAR and not self.chunk.is_on_one_line(node)):
            span = self.span((), key=True) if node is self.root else self.chunk.span(key or node)
        else:
            span = self.chunk.span(node)
        self.add(code, message, span, path, hint, related)

    def at_path(
        self, code: str, message: Sentence, path: FieldPath, hint: Sentence | None = None, *, key: bool = False
    ) -> None:
        """Add an error at the field with this path, or at its key."""
        self.add(code, message, self.span(path, key=key), path, hint)

    def add(
        self,
        code: str,
        message: Sentence,
        span: SourceSpan,
        path: FieldPath,
        hint: Sentence | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Add an error. The document then has no model."""
        self.failed = True
        self.diagnostics.append(Diagnostic(Severity.ERROR, code, message, span, path, hint, related))

    def span(self, path: FieldPath, *, key: bool = False) -> SourceSpan:
        """Return the position of a field, or of the nearest enclosing one that is written."""
        return locate(self.chunk, self.root, path, key=key)

    def is_reported(self, path: FieldPath) -> bool:
        """Return True if a problem of the field, or of a block around it, was reported."""
        parts = {path[:length] for length in range(1, len(path) + 1)}
        return not parts.isdisjoint(self.bad) or not parts.isdisjoint(self.misspelt)

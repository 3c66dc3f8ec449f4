"""A document and the places of its fields."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, Span
from gpuctl.frontend.reader import Chunk, Node, recompose
from gpuctl.frontend.source import lines_of
from gpuctl.language.kinds import Model
from gpuctl.language.spelling import fold

_LONG = 32

Path = tuple[str | int, ...]
"""Where a field stands in its document: keys in canonical spelling, and indices."""


class Document:
    """A valid document: its kind, its model, and where each of its fields stands.

    ``namespace`` (of a workload) and ``gpu_type`` are what the linker resolved: the default namespace filled in, the
    GPU type spelled as the pool declares it.
    """

    __slots__ = ("_root", "chunk", "gpu_type", "index", "kind", "model", "namespace")

    def __init__(self, kind: str, model: Model, chunk: Chunk, index: int) -> None:
        self.namespace = ""
        self.gpu_type: str | None = None
        self.kind = kind
        self.model = model
        self.chunk = chunk
        self.index = index
        self._root: Node | None = None

    @property
    def file(self) -> str:
        """Name of the source it stands in."""
        return self.chunk.source.name

    def diagnostic(
        self,
        severity: Severity,
        code: str,
        message: str,
        path: Path = (),
        hint: str | None = None,
        *,
        key: bool = False,
        related: tuple[Related, ...] = (),
    ) -> Diagnostic:
        """A diagnostic at one of the document's fields."""
        return Diagnostic(severity, code, message, self.span(path, key=key), path, hint, related)

    def is_written(self, path: Path) -> bool:
        """Whether the document itself has a field, and not only its default."""
        node = self._tree()
        for part in path:
            step = child(node, part)
            if step is None:
                return False
            node = step[1]
        return True

    def _tree(self) -> Node:
        if self._root is None:
            self._root = recompose(self.chunk, self.index)
        return self._root

    def span(self, path: Path = (), *, key: bool = False) -> Span:
        """Where a field stands; of a field that is not written, where the nearest block around it stands.

        The tree is read again when first asked for: it takes far more memory than the model, and only documents
        that something is said about need it.
        """
        return locate(self.chunk, self._tree(), path, key=key)


def within(chunk: Chunk, span: Span, part: str) -> Span:
    """The span of ``part`` inside a value's span, where the source shows it literally; else the value's span."""
    lines = lines_of(chunk.text)
    for number in range(span.line, span.end_line + 1):
        line = lines[number - chunk.first_line - 1]
        first = span.column - 1 if number == span.line else 0
        last = span.end_column - 1 if number == span.end_line else len(line)
        found = line.find(part, first, last)
        if found >= 0:
            return Span(span.file, number, found + 1, number, found + 1 + len(part))
    return span


def locate(chunk: Chunk, root: Node, path: Path, *, key: bool = False) -> Span:
    """The span of the value at ``path`` (or of its key), or of the nearest enclosing thing that is written."""
    node = root
    key_node: Node | None = None
    for part in path:
        step = child(node, part)
        if step is None:
            key = key or node.kind != "scalar"
            break
        key_node, node = step
    if key_node is None and node is root and root.kind == "mapping" and root.value:
        # The document itself: its `kind` line says what it is.
        for candidate, _ in root.value:
            if fold(candidate.value) == "kind":
                return chunk.span(candidate)
        return chunk.span(root.value[0][0])
    if key_node is not None and (key or (node.kind == "mapping" and node.end.line != node.start.line)):
        return chunk.span(key_node)
    return chunk.span(node)


def child(node: Node, part: str | int) -> tuple[Node | None, Node] | None:
    """One step down: the key's node (None in a list) and the value's; None where there is nothing."""
    if isinstance(part, int):
        if node.kind == "list" and part < len(node.value):
            return (None, node.value[part])
        return None
    if node.kind != "mapping":
        return None
    if len(node.value) > _LONG:
        return _child_of_long(node, part)
    for candidate, value in node.value:
        if candidate.value == part:
            return (candidate, value)
    for candidate, value in node.value:
        if fold(candidate.value) == fold(part):
            return (candidate, value)
    return None


def _child_of_long(node: Node, part: str) -> tuple[Node, Node] | None:
    """As :func:`child`, of a mapping whose many keys may each be asked for: one search a key would be quadratic."""
    if node.keys is None:
        written: dict[str, int] = {}
        folded: dict[str, int] = {}
        for index, (key, _) in enumerate(node.value):
            # A key can be a mapping or a list, which is no text and names nothing.
            if isinstance(key.value, str):
                written.setdefault(key.value, index)
                folded.setdefault(fold(key.value), index)
        node.keys = (written, folded)
    written, folded = node.keys
    index = written.get(part, folded.get(fold(part), -1))
    return None if index < 0 else node.value[index]

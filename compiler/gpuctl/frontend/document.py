"""A document and the places of its fields."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity, SourceSpan
from gpuctl.frontend.spans import child, column_of, locate, within
from gpuctl.frontend.yaml_reader import recompose
from gpuctl.frontend.yaml_tree import Chunk, YamlNode
from gpuctl.language.kinds import WORKLOADS, Model
from gpuctl.language.service_block import ServiceBlock


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
        self._root: YamlNode | None = None

    @property
    def file(self) -> str:
        """Name of the source it stands in."""
        return self.chunk.source.name

    @property
    def is_workload(self) -> bool:
        """Whether it is a job's."""
        return self.kind in WORKLOADS

    @property
    def name(self) -> str:
        """The name of its job, pool or quota; "" of a platform."""
        header = getattr(self.model, "job" if self.is_workload else "header", None)
        return str(header.name) if header is not None else ""

    @property
    def names_namespace(self) -> bool:
        """Whether its job says itself in which namespace it is."""
        return getattr(getattr(self.model, "job", None), "namespace", None) is not None

    @property
    def clusters(self) -> tuple[str, ...]:
        """The clusters that it belongs on, by its ``placement``; none where it has none."""
        placed = getattr(self.model, "placement", None)
        return tuple(placed.clusters) if placed is not None else ()

    def diagnostic(
        self,
        severity: Severity,
        code: str,
        message: str,
        path: FieldPath = (),
        hint: str | None = None,
        *,
        key: bool = False,
        related: tuple[Related, ...] = (),
    ) -> Diagnostic:
        """A diagnostic at one of the document's fields."""
        return Diagnostic(severity, code, message, self.span(path, key=key), path, hint, related)

    def within(self, diagnostic: Diagnostic, part: str, earlier: int = 0) -> Diagnostic:
        """Return the diagnostic at the place of ``part`` in the field's text, where the source has it literally.

        :param earlier: the number of times that it stands there before.
        """
        if diagnostic.span is None:
            return diagnostic
        return diagnostic._replace(span=within(self.chunk, diagnostic.span, part, earlier))

    def column(self, path: FieldPath) -> int | None:
        """Return the column, from 0, of a key; None if it is not written, or stands in flow style."""
        return column_of(self.chunk, self._tree(), path)

    def is_written(self, path: FieldPath) -> bool:
        """Whether the document itself has a field, and not only its default."""
        node = self._tree()
        for part in path:
            step = child(node, part)
            if step is None:
                return False
            node = step[1]
        return True

    def _tree(self) -> YamlNode:
        if self._root is None:
            self._root = recompose(self.chunk, self.index)
        return self._root

    def span(self, path: FieldPath = (), *, key: bool = False) -> SourceSpan:
        """Where a field stands; of a field that is not written, where the nearest block around it stands.

        The tree is read again when first asked for: it takes far more memory than the model, and only documents
        that something is said about need it.
        """
        return locate(self.chunk, self._tree(), path, key=key)


def service_of(model: Model) -> ServiceBlock | None:
    """How a workload is reached; None where nobody reaches it, or it is not known because of a mistake."""
    service = getattr(model, "service", None)
    if service is None:
        return None
    return service if isinstance(service, ServiceBlock) else None

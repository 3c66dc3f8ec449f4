"""A document and the positions of its fields."""

from __future__ import annotations

from gpuctl.frontend.diagnostics import Diagnostic, FieldPath, Related, Severity, SourceSpan
from gpuctl.frontend.spans import column_of, locate, value_at, within
from gpuctl.frontend.variants import Overlay
from gpuctl.frontend.yaml_reader import recompose
from gpuctl.frontend.yaml_tree import Chunk, YamlNode
from gpuctl.language.kinds import WORKLOADS, Model
from gpuctl.language.sentences import Sentence
from gpuctl.language.service_block import ServiceBlock


class Document:
    """A valid document: its kind, its model, and the positions of its fields.

    ``overlay``: the changes by a profile or an option; None without any. ``first``: of a job of a sweep, the document
    of the sweep's first job, which may be this one; they share their positions. ``sweep_size``: the number of jobs of
    the sweep, 0 without one. The linker sets ``namespace`` (of a workload, with the default filled in) and
    ``gpu_types`` (spelled as the pool declares them, the preferred ones first).

    :param tree: the tree of the source with the changes of ``overlay``, until :meth:`forget_tree`.
    """

    __slots__ = ("_root", "chunk", "first", "gpu_types", "index", "kind", "model", "namespace", "overlay", "sweep_size")

    def __init__(
        self,
        kind: str,
        model: Model,
        chunk: Chunk,
        index: int,
        overlay: Overlay | None = None,
        first: Document | None = None,
        sweep_size: int = 0,
        tree: YamlNode | None = None,
    ) -> None:
        self.namespace = ""
        self.gpu_types: tuple[str, ...] = ()
        self.kind = kind
        self.model = model
        self.chunk = chunk
        self.index = index
        self.overlay = overlay
        self.first = first
        self.sweep_size = sweep_size
        self._root = tree

    @property
    def gpu_type(self) -> str | None:
        """Its GPU types as text: `H100 or A100`; None for any type. No name of a type contains a space."""
        return " or ".join(self.gpu_types) or None

    @property
    def file(self) -> str:
        """Name of the source that contains it."""
        return self.chunk.source.name

    @property
    def is_workload(self) -> bool:
        """True for the document of a job."""
        return self.kind in WORKLOADS

    @property
    def name(self) -> str:
        """Name of its job, pool or quota; "" for a platform."""
        header = getattr(self.model, "job" if self.is_workload else "header", None)
        return str(header.name) if header is not None else ""

    @property
    def is_first(self) -> bool:
        """True unless the source document has a sweep, and this is not its first job."""
        return self.first is None or self.first is self

    @property
    def written_name(self) -> str:
        """Its name in the source: for a job of a sweep, the name of the sweep."""
        membership = self.model.job.sweep if self.first is not None and self.model.kind == "training" else None
        return membership.name if membership is not None else self.name

    @property
    def nodes_field(self) -> str:
        """The field with the number of nodes, as hints name it."""
        return "resources.nodes"

    @property
    def names_namespace(self) -> bool:
        """True if the document itself names its job's namespace."""
        return getattr(getattr(self.model, "job", None), "namespace", None) is not None

    @property
    def clusters(self) -> tuple[str, ...]:
        """Clusters named by its ``placement``; empty without one."""
        placed = getattr(self.model, "placement", None)
        return tuple(placed.clusters) if placed is not None else ()

    def diagnostic(
        self,
        severity: Severity,
        code: str,
        message: Sentence,
        path: FieldPath = (),
        hint: Sentence | None = None,
        *,
        key: bool = False,
        related: tuple[Related, ...] = (),
    ) -> Diagnostic:
        """Return a diagnostic at one of the document's fields."""
        place = self._written(path)
        span = locate(self.chunk, self._tree(), place, key=key)
        return Diagnostic(severity, code, message, span, place, hint, related)

    def within(self, diagnostic: Diagnostic, part: str, earlier: int = 0) -> Diagnostic:
        """Return the diagnostic at the position of ``part`` in the field's text, if the source contains it literally.

        :param earlier: number of occurrences to skip.
        """
        if diagnostic.span is None:
            return diagnostic
        return diagnostic._replace(span=within(self.chunk, diagnostic.span, part, earlier))

    def column(self, path: FieldPath) -> int | None:
        """Return the column, from 0, of a key; None if it is not written or is in flow style."""
        return column_of(self.chunk, self._tree(), self._written(path))

    def is_written(self, path: FieldPath) -> bool:
        """Return True if the document itself contains the field, so that its value is not a default."""
        return value_at(self._tree(), self._written(path)) is not None

    def forget_tree(self) -> None:
        """Free the tree; it is composed again if it is needed later."""
        self._root = None

    def _tree(self) -> YamlNode:
        if self.first is not None and self.first is not self:
            return self.first._tree()
        if self._root is None:
            root = recompose(self.chunk, self.index)
            self._root = root if self.overlay is None else self.overlay.merged(self.chunk, root)
        return self._root

    def span(self, path: FieldPath = (), *, key: bool = False) -> SourceSpan:
        """Return the position of a field; if it is not written, that of the nearest enclosing block.

        The tree is composed again when first needed: it takes far more memory than the model, and only documents with
        diagnostics need it.
        """
        return locate(self.chunk, self._tree(), self._written(path), key=key)

    def _written(self, path: FieldPath) -> FieldPath:
        """Return the path at which the source has a field of the model."""
        return path


def service_of(model: Model) -> ServiceBlock | None:
    """Return the service block of a model; None if it has none, or if the block is invalid."""
    service = getattr(model, "service", None)
    if service is None:
        return None
    return service if isinstance(service, ServiceBlock) else None

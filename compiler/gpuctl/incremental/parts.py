"""A compile cut into parts: what each stretch of the sources becomes by itself, as plain data.

A part knows nothing of the others, so that another process can make it and a later run can use it again. What
documents have to do with each other is found when the parts are put together. Only what is right has parts: the words
about a mistake may depend on everything, so a compile with an error is done as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuctl.backend.context import Context, Lowered, Object, OutputOptions
from gpuctl.backend.lower import lower_document
from gpuctl.compilation import pod_spec_check, validator_of
from gpuctl.frontend.binder import bind
from gpuctl.frontend.diagnostics import Diagnostic, Severity, Span, count
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_checks import check
from gpuctl.frontend.linker import link
from gpuctl.frontend.load import is_platform
from gpuctl.frontend.reader import compose, read
from gpuctl.frontend.tree import Chunk, RawDocument, ReadError
from gpuctl.incremental.entry import identity, packed, unpacked
from gpuctl.incremental.manifests import Form, text_of
from gpuctl.incremental.units import Unit
from gpuctl.language.fields import Block
from gpuctl.language.job import Workload
from gpuctl.language.settings import Settings

FACTS = ("kind", "job", "resources", "service", "autoscaling", "placement")
"""The blocks of a workload that the linker looks at, and what is kept of its document."""
_OF_JOB = ("name", "namespace")


class NoPart(Exception):
    """A stretch has a mistake, so the compile is to be done as a whole."""


class PartRow(NamedTuple):
    """A manifest of a part: the object's identity, whether jobs share it, and its text."""

    api_version: str
    kind: str
    namespace: str | None
    name: str
    shared: bool
    text: str

    @property
    def identity(self) -> Object:
        """The object without what it holds."""
        return identity(self.api_version, self.kind, self.namespace, self.name)


class Piece(NamedTuple):
    """What one document of a part becomes.

    ``facts`` are what the linker asks of a workload, None of other kinds. ``namespace`` and ``gpu_type`` are those
    that it was lowered with. ``told`` is what lowering says.
    """

    kind: str
    number: int
    facts: dict[str, Any] | None
    namespace: str
    gpu_type: str | None
    told: list[Any]
    rows: list[PartRow]


class Part(NamedTuple):
    """What a unit becomes: its documents, and what reading and checking say of it. ``filled``: it is not empty."""

    filled: bool
    read: list[Any]
    checked: list[Any]
    pieces: list[Piece]


def written(part: Part, index: Mapping[tuple[Any, ...], int]) -> list[Any]:
    """A part as plain data: for its manifests stand their numbers among those of the whole."""
    pieces = [[*piece[:-1], [index[row[:4]] for row in piece.rows]] for piece in part.pieces]
    return [part.filled, part.read, part.checked, pieces]


class Maker:
    """Makes parts under one platform and the options of one compile."""

    def __init__(
        self,
        settings: Settings,
        options: OutputOptions,
        namespace: str,
        defaults: dict[str, dict[str, Any]],
        *,
        form: Form = "yaml",
    ) -> None:
        """:param form: that of the manifests."""
        self.settings = settings
        self.options = options
        self.namespace = namespace
        self.defaults = defaults
        self.form = form
        self.validator = validator_of(settings)
        self.check_pod_spec = pod_spec_check(self.validator)
        self.shared: dict[tuple[str, str], tuple[Object, str]] = {}

    def make(self, units: Sequence[Unit]) -> list[Part]:
        """The parts of units. Step by step for all of them: a step that is repeated runs faster than steps in turn.

        :raises NoPart: one of them holds a mistake.
        """
        said: list[list[Diagnostic]] = [[] for _ in units]
        found = [self.documents(unit, told) for unit, told in zip(units, said, strict=True)]
        checked = [
            [item for document in documents for item in check(document, self.settings)] for _, documents in found
        ]
        for told in checked:
            _refuse_errors(told)
        # As if there were nothing else: where a pool of another unit says otherwise, it is lowered again.
        for _ in link([each for _, documents in found for each in documents], self.settings, self.namespace):
            pass
        pieces = self.pieces([documents for _, documents in found])
        return [
            Part(filled, _told(read, unit.chunk), _told(told, unit.chunk), own)
            for unit, (filled, _), read, told, own in zip(units, found, said, checked, pieces, strict=True)
        ]

    def documents(self, unit: Unit, found: list[Diagnostic]) -> tuple[bool, list[Document]]:
        """Whether a unit holds anything, and its documents but for platforms, which are bound before all others."""
        filled, documents = False, []
        for raw in _raws(unit, found):
            filled = True
            bound = None if is_platform(raw) else bind(raw, found, self.defaults)
            if bound is None:
                continue
            if bound.model is None:
                raise NoPart
            documents.append(Document(bound.kind, bound.model, raw.chunk, raw.number))
        _refuse_errors(found)
        return filled, documents

    def pieces(self, found: Iterable[Sequence[Document]]) -> list[list[Piece]]:
        """What the documents of each unit become, their namespaces and GPU types being known."""
        lowered = [[(document, *self._lowered(document)) for document in documents] for documents in found]
        for unit in lowered:
            for _, items, _ in unit:
                for item in items:
                    if self._is_new(item) and self.validator.check(item.object):
                        raise NoPart
        return [[self._piece(*each) for each in unit] for unit in lowered]

    def _lowered(self, document: Document) -> tuple[list[Lowered], list[Diagnostic]]:
        context = Context(self.settings, self.options)
        context.check_pod_spec = self.check_pod_spec
        items = list(lower_document(context, document))
        _refuse_errors(context.diagnostics)
        return items, context.diagnostics

    def _is_new(self, item: Lowered) -> bool:
        """Whether this is no object that another document has brought along already, as it does what they share."""
        if not item.shared:
            return True
        obj = item.object
        key = (obj["kind"], obj["metadata"]["name"])
        known = self.shared.get(key)
        if known is not None and known[0] == obj:
            return False
        self.shared[key] = (obj, self.text_of(obj))
        return True

    def _piece(self, document: Document, items: Iterable[Lowered], told: list[Diagnostic]) -> Piece:
        rows = []
        for item in items:
            obj, metadata = item.object, item.object["metadata"]
            known = self.shared.get((obj["kind"], metadata["name"])) if item.shared else None
            text = known[1] if known is not None and known[0] == obj else self.text_of(obj)
            rows.append(
                PartRow(obj["apiVersion"], obj["kind"], metadata.get("namespace"), metadata["name"], item.shared, text)
            )
        said, facts = _told(told, document.chunk), _facts(document)
        return Piece(document.kind, document.index, facts, document.namespace, document.gpu_type, said, rows)

    def text_of(self, obj: Object) -> str:
        """The manifest of an object."""
        return text_of(obj, self.form)


def _raws(unit: Unit, found: list[Diagnostic]) -> Iterator[RawDocument]:
    if unit.whole:
        yield from read(unit.chunk.source, found)
        return
    try:
        roots = compose(unit.chunk, found)
    except ReadError:
        raise NoPart from None
    for number, root in enumerate(roots):
        if not root.is_null:
            yield RawDocument(unit.chunk, number, root)


def _refuse_errors(diagnostics: Sequence[Diagnostic]) -> None:
    if count(diagnostics, Severity.ERROR):
        raise NoPart


def _facts(document: Document) -> dict[str, Any] | None:
    model = document.model
    if not isinstance(model, Workload):
        return None
    facts: dict[str, Any] = {}
    for name in FACTS:
        value = model.__dict__.get(name)
        facts[name] = _plain(value, _OF_JOB if name == "job" else None)
    return facts


def _plain(value: Any, only: Sequence[str] | None = None) -> Any:
    """A block as its fields, by the names that the model has them under."""
    if isinstance(value, Block):
        return {name: _plain(item) for name, item in value.__dict__.items() if only is None or name in only}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# Of what is told of a part the file is the part's, and lines count from where it begins: what stands before may change.


def _told(items: Iterable[Diagnostic], chunk: Chunk) -> list[Any]:
    """Diagnostics of a part as plain data."""
    first = chunk.first_line

    def place_of(span: Span) -> list[Any]:
        return [span.line - first, span.column, span.end_line - first, span.end_column]

    return [packed(_within_a_file(item), place_of) for item in items]


def _within_a_file(item: Diagnostic) -> Diagnostic:
    if item.span is not None and any(related.span.file != item.span.file for related in item.related):
        raise NoPart
    return item


def retold(items: Iterable[Sequence[Any]], chunk: Chunk) -> list[Diagnostic]:
    """The diagnostics of a part, where it stands now."""
    file, first = chunk.source.name, chunk.first_line

    def span_of(place: Sequence[Any]) -> Span:
        line, column, end_line, end_column = place
        return Span(file, line + first, column, end_line + first, end_column)

    return [unpacked(item, span_of) for item in items]

"""Parts put together: what documents have to do with each other, and the whole in its order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple, get_args

from gpuctl.backend.context import Context, Lowered
from gpuctl.backend.lower import lower_document, merged
from gpuctl.compilation import Compilation, result_of
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.document import Document
from gpuctl.frontend.linker import link
from gpuctl.frontend.load import Loaded
from gpuctl.incremental.manifests import Emitted
from gpuctl.incremental.parts import Maker, NoPart, Part, retold
from gpuctl.incremental.units import Unit
from gpuctl.language.fields import Block
from gpuctl.language.kinds import model_of


class Joined(NamedTuple):
    """The whole: the compilation (its objects are identities), its manifests, and the parts as they are now."""

    compilation: Compilation
    emitted: list[Emitted]
    parts: list[Part]


def joined(loaded: Loaded, maker: Maker, units: Sequence[Unit], parts: Sequence[Part], *, strict: bool) -> Joined:
    """Link the documents of all parts and order their manifests.

    ``loaded`` has the platform, what is wrong with the inputs as such, and, at last, the documents. A part whose job
    runs on another GPU type than it was lowered for, because a pool spells it otherwise, is made again.

    :raises NoPart: the whole has a mistake that no part has.
    """
    own = list(loaded.documents)
    context = Context(loaded.settings, maker.options)
    for unit, part in zip(units, parts, strict=True):
        loaded.diagnostics += retold(part.read, unit.chunk)
    found = [_documents(maker, unit, part) for unit, part in zip(units, parts, strict=True)]
    loaded.documents += [document for documents in found for document in documents]
    for unit, part in zip(units, parts, strict=True):
        loaded.diagnostics += retold(part.checked, unit.chunk)
    loaded.diagnostics += link(loaded.documents, loaded.settings, maker.namespace)
    parts = [_as_linked(maker, *each) for each in zip(units, parts, found, strict=True)]
    items = [*_lowered_here(maker, context, own), *_rows(parts, found)]
    for part, documents in zip(parts, found, strict=True):
        for piece, document in zip(part.pieces, documents, strict=True):
            context.diagnostics += retold(piece.told, document.chunk)
    emitted = merged(context, items)
    lowered = [Lowered(item.object, item.document, item.shared) for item in emitted]  # type: ignore[arg-type]
    compilation = result_of(loaded, context, lowered, strict)
    # Whatever is an error is said by a compile of the whole, in its words.
    if not compilation.ok or not loaded.documents or _holds_nothing(units, parts):
        raise NoPart
    return Joined(compilation, emitted, list(parts))


def _holds_nothing(units: Sequence[Unit], parts: Sequence[Part]) -> bool:
    """Whether there is a source of several stretches and no document in any of them, which is told of the whole."""
    filled: dict[int, bool] = {}
    for unit, part in zip(units, parts, strict=True):
        if not unit.whole:
            source = id(unit.chunk.source)
            filled[source] = filled.get(source, False) or part.filled
    return not all(filled.values())


def _documents(maker: Maker, unit: Unit, part: Part) -> list[Document]:
    """The documents of a part: workloads as the linker needs them, the few others bound again."""
    if any(piece.facts is None for piece in part.pieces):
        said: list[Diagnostic] = []
        return maker.documents(unit, said)[1]
    return [
        Document(piece.kind, revived(model_of(piece.kind), piece.facts or {}), unit.chunk, piece.number)
        for piece in part.pieces
    ]


def _as_linked(maker: Maker, unit: Unit, part: Part, documents: Sequence[Document]) -> Part:
    wanted = [(document.namespace, document.gpu_type) for document in documents]
    if wanted == [(piece.namespace, piece.gpu_type) for piece in part.pieces]:
        return part
    said: list[Diagnostic] = []
    anew = maker.documents(unit, said)[1]
    for document, (namespace, gpu_type) in zip(anew, wanted, strict=True):
        document.namespace, document.gpu_type = namespace, gpu_type
    return part._replace(pieces=maker.pieces([anew])[0])


def _rows(parts: Sequence[Part], found: Sequence[Sequence[Document]]) -> Iterator[Emitted]:
    for part, documents in zip(parts, found, strict=True):
        for piece, document in zip(part.pieces, documents, strict=True):
            for row in piece.rows:
                yield Emitted(row.identity, document, row.shared, row.text)


def _lowered_here(maker: Maker, context: Context, documents: Sequence[Document]) -> Iterator[Emitted]:
    for document in documents:
        for item in lower_document(context, document):
            yield Emitted(item.object, document, item.shared, maker.text_of(item.object))


def revived(model: type[Block], fields: dict[str, Any]) -> Any:
    """A block with the fields that are known, unchecked: they were checked when they were written down."""
    block = model.__new__(model)
    inner = _blocks_of(model)
    values = {name: _revived(inner[name], value) if name in inner else value for name, value in fields.items()}
    object.__setattr__(block, "__dict__", values)
    object.__setattr__(block, "__pydantic_fields_set__", set(values))
    object.__setattr__(block, "__pydantic_extra__", None)
    object.__setattr__(block, "__pydantic_private__", None)
    return block


def _revived(model: type[Block], value: Any) -> Any:
    if isinstance(value, dict):
        return revived(model, value)
    return [_revived(model, item) for item in value] if isinstance(value, list) else value


@cache
def _blocks_of(model: type[Block]) -> dict[str, type[Block]]:
    """field -> the block that it holds, or that its items are."""
    found = {}
    for name, info in model.model_fields.items():
        block = _block_in(info.annotation)
        if block is not None:
            found[name] = block
    return found


def _block_in(annotation: Any) -> type[Block] | None:
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return annotation
    return next((block for argument in get_args(annotation) for block in [_block_in(argument)] if block), None)

"""Documents of an earlier run: what they are called is kept, all else is read again when somebody asks for it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from gpuctl.backend.context import Lowered
from gpuctl.compilation import Compilation
from gpuctl.frontend.document import Document
from gpuctl.frontend.source import Source
from gpuctl.incremental.entry import Entry, unpacked
from gpuctl.language.settings import Settings


class KnownFacts(NamedTuple):
    """What is kept of a document beside its place, by the names that :class:`Document` has it under."""

    kind: str
    namespace: str
    gpu_type: str | None
    name: str
    names_namespace: bool
    clusters: list[str]


def facts_of(document: Document) -> KnownFacts:
    """What is to be kept of a document."""
    return KnownFacts(
        document.kind,
        document.namespace,
        document.gpu_type,
        document.name,
        document.names_namespace,
        list(document.clusters),
    )


class KnownDocument(Document):
    """A document by its facts. Its text is the one that was compiled, so that its model is what it was then."""

    __slots__ = ("_facts", "_settings", "_source", "_stretch")

    def __init__(self, source: Source, stretch: int, index: int, facts: KnownFacts, settings: Settings) -> None:
        """:param stretch: which piece of its source it stands in, and ``index`` as which one of it."""
        self.kind, self.namespace, self.gpu_type = facts.kind, facts.namespace, facts.gpu_type
        self.index = index
        self._root = None
        self._source = source
        self._stretch = stretch
        self._facts = facts
        self._settings = settings

    def __getattr__(self, name: str) -> Any:
        """The two that are missing until somebody asks for them."""
        if name == "chunk":
            from gpuctl.frontend.reader import split

            self.chunk = [*split(self._source)][self._stretch]
            return self.chunk
        if name == "model":
            from gpuctl.frontend.binder import bind
            from gpuctl.frontend.load import platform_defaults
            from gpuctl.frontend.tree import RawDocument

            raw = RawDocument(self.chunk, self.index, self._tree())
            bound = bind(raw, [], {} if self.kind == "platform" else platform_defaults(self._settings))
            assert bound is not None, "it was bound before, from the same text"
            assert bound.model is not None
            self.model = bound.model
            return self.model
        raise AttributeError(name)

    @property
    def file(self) -> str:
        return self._source.name

    @property
    def name(self) -> str:
        return self._facts.name

    @property
    def names_namespace(self) -> bool:
        return self._facts.names_namespace

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(self._facts.clusters)


def recalled_objects(entry: Entry, sources: dict[str, Source], settings: Settings) -> Compilation:
    """The compilation whose objects an entry has, as JSON. The objects are new ones each time."""
    head, listed = entry.head, list(sources.values())
    documents: list[Document] = [
        KnownDocument(listed[number], stretch, index, KnownFacts(*facts), settings)
        for (number, stretch, index), facts in zip(head["places"], head["known"], strict=True)
    ]
    lowered = [
        Lowered(json.loads(bytes(text)), documents[place], shared)
        for (*_, shared, place), text in zip(entry.rows, entry.texts, strict=True)
    ]
    return Compilation(
        [item.object for item in lowered],
        [unpacked(item) for item in head["diagnostics"]],
        documents[: head["documents"]],
        lowered,
        settings,
        sources,
        documents[head["documents"] :],
    )

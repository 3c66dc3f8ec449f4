"""What a compile leaves in the cache, as bytes and back: three lines of JSON, and the texts of the manifests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuctl.backend.context import Object
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, Span
from gpuctl.incremental.manifests import Emitted, Manifests
from gpuctl.language.settings import Settings

if TYPE_CHECKING:
    from gpuctl.frontend.source import Source
    from gpuctl.language.platform import Platform


class Entry(NamedTuple):
    """An entry as it was read: the facts of the whole, and what is looked at only when it is needed."""

    head: dict[str, Any]
    parts: bytes
    rows: bytes
    text: memoryview


def to_bytes(head: dict[str, Any], parts: Sequence[Any], rows: Sequence[Any], texts: Iterable[str]) -> list[bytes]:
    """An entry, in pieces. ``rows`` and ``texts`` are those of the manifests, in the same order."""
    blobs = [text.encode() for text in texts]
    sized = [[*row, len(blob)] for row, blob in zip(rows, blobs, strict=True)]
    lines = [json.dumps(value, separators=(",", ":")).encode() + b"\n" for value in (head, parts, sized)]
    return [*lines, b"".join(blobs)]


def from_bytes(data: bytes) -> Entry | None:
    """The entry; None when it is not one."""
    lines, start = [], 0
    for _ in range(3):
        end = data.find(b"\n", start)
        if end < 0:
            return None
        lines.append(data[start:end])
        start = end + 1
    try:
        head = json.loads(lines[0])
    except ValueError:
        return None
    # Most of it is the texts, which are not copied.
    return Entry(head, lines[1], lines[2], memoryview(data)[start:]) if isinstance(head, dict) else None


def rows_of(entry: Entry) -> Iterator[tuple[list[Any], str]]:
    """Each manifest's row and text."""
    start = 0
    for *row, size in json.loads(entry.rows):
        yield row, str(entry.text[start : start + size], "utf-8")
        start += size


def packed(item: Diagnostic, place_of: Callable[[Span], list[Any]] = list) -> list[Any]:
    """A diagnostic as plain data; ``place_of`` makes that of a place, by default all of it."""
    related = [[told.message, place_of(told.span)] for told in item.related]
    place = None if item.span is None else place_of(item.span)
    return [item.severity.value, item.code, item.message, place, list(item.path), item.hint, related]


def unpacked(data: Sequence[Any], span_of: Callable[[Sequence[Any]], Span] = Span._make) -> Diagnostic:
    """The diagnostic that :func:`packed` made data of; ``span_of`` undoes ``place_of``."""
    severity, code, message, place, path, hint, related = data
    told = tuple(Related(words, span_of(at)) for words, at in related)
    span = None if place is None else span_of(place)
    return Diagnostic(Severity(severity), code, message, span, tuple(path), hint, told)


class _Place:
    """Where a document stands: found again in its source when somebody asks."""

    def __init__(self, source: Source, where: Sequence[int]) -> None:
        self.source = source
        self.where = where

    @property
    def file(self) -> str:
        return self.source.name

    def span(self) -> Span:
        from gpuctl.frontend.reader import recompose
        from gpuctl.frontend.spans import locate
        from gpuctl.frontend.tree import Chunk

        start, end, first_line, number = self.where
        chunk = Chunk(self.source, start, end, first_line)
        return locate(chunk, recompose(chunk, number), ())


class _Settings(Settings):
    """Settings whose document is read again only when somebody asks for more than its labels."""

    def __init__(self, domain: str, load: Callable[[], Settings]) -> None:
        self._known = domain
        self._load = load
        super().__init__()

    @property
    def domain(self) -> str:
        return self._known

    @property
    def _platform(self) -> Platform | None:
        return self._loaded.platform

    @_platform.setter
    def _platform(self, value: Platform | None) -> None:
        pass

    @cached_property
    def _loaded(self) -> Settings:
        return self._load()


def recalled(entry: Entry, sources: dict[str, Source], load: Callable[[], Settings]) -> Manifests:
    """The outcome that was kept, for the same sources. ``load`` reads the platform."""
    head = entry.head
    domain = head["domain"]
    listed = list(sources.values())

    def lowered() -> list[Emitted]:
        places = [_Place(listed[number], where) for number, *where in head["places"]]
        return [Emitted(identity(*row), places[place], shared, text) for (*row, shared, place), text in rows_of(entry)]

    return Manifests(
        [unpacked(item) for item in head["diagnostics"]],
        sources,
        Settings() if domain is None else _Settings(domain, load),
        head["version"],
        (head["documents"], head["objects"]),
        lowered,
        lambda: (text for _, text in rows_of(entry)),
    )


def identity(api_version: str, kind: str, namespace: str | None, name: str) -> Object:
    """The object that a row is of, without what it holds."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

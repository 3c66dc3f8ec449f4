"""What a compile leaves in the cache, as bytes and back: JSON, and the texts of the manifests.

The first line has the facts of the whole, which are always looked at. Then come the parts, one a line, of which only
those of what changed are, and the rows of the manifests, in one line, as long as the last two items of the first say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from gpuctl.backend.context import Object
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, Span
from gpuctl.incremental.manifests import Emitted, Manifests
from gpuctl.language.settings import Settings

if TYPE_CHECKING:
    from gpuctl.frontend.source import Source
    from gpuctl.language.platform import Platform


_Bytes = bytes | memoryview
_FACTS = {"inputs", "diagnostics", "documents", "objects", "domain", "version", "places", "known", "keys", "frame"}
"""What the first line says: the digest of all that was read, and what is told and counted of the whole; where each
document stands, and what is kept of it where its objects are; the key of each part, and the digest of all else that
the whole consists of."""
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class Changes(NamedTuple):
    """What an entry has otherwise than its origin: keys of parts and texts of manifests, by number."""

    keys: dict[int, str]
    texts: dict[int, _Bytes]


class Origin(NamedTuple):
    """The bytes that an entry was read from: their digest and how many they are."""

    digest: str
    size: int


class Entry:
    """An entry: the facts of the whole, its parts, and the rows and texts of its manifests, in the same order.

    What was read is taken apart when somebody looks at it. ``changes`` are what it has otherwise than its ``origin``,
    which one that was made now has not.
    """

    def __init__(self, head: dict[str, Any], parts: _Bytes, rows: list[Any] | _Bytes, texts: list[_Bytes] | _Bytes):
        self.head = head
        self.origin: Origin | None = None
        self.changes = Changes({}, {})
        self._parts = parts
        self._rows = rows
        self._texts = texts

    @cached_property
    def parts(self) -> list[bytes]:
        """Each part's line."""
        return bytes(self._parts).split(b"\n")[:-1]

    @cached_property
    def rows(self) -> list[Any]:
        """The row of each manifest, without the length of its text."""
        return self._rows if isinstance(self._rows, list) else [row[:-1] for row in self._sized]

    @cached_property
    def texts(self) -> list[_Bytes]:
        """The text of each manifest."""
        if isinstance(self._texts, list):
            return self._texts
        found, start = [], 0
        for row in self._sized:
            found.append(self._texts[start : start + row[-1]])
            start += row[-1]
        for number, text in self.changes.texts.items():
            found[number] = text
        return found

    @cached_property
    def _sized(self) -> list[Any]:
        """The rows as they were read, with the length of each text."""
        return json.loads(bytes(self._rows))  # type: ignore[no-any-return]

    def renewed(self, keys: Mapping[int, str], texts: Mapping[int, str]) -> Entry:
        """The same, but for the keys of some parts and the texts of some manifests, by their numbers."""
        encoded = {number: text.encode() for number, text in texts.items()}
        anew = Entry({**self.head}, self._parts, self.rows, [*self.texts])
        anew.origin = self.origin
        anew.change(Changes({**self.changes.keys, **keys}, {**self.changes.texts, **encoded}))
        return anew

    def change(self, changes: Changes) -> None:
        """Have these changes, which are all there are, before anybody looks at what was read."""
        self.changes = changes
        self.head["keys"] = _with(self.head["keys"], changes.keys)
        if isinstance(self._texts, list):
            self._texts = _with(self._texts, changes.texts)

    def to_bytes(self) -> list[_Bytes]:
        """The entry, in pieces."""
        rows = _ENCODE([[*row, len(text)] for row, text in zip(self.rows, self.texts, strict=True)]).encode()
        head = {**self.head, "parts": len(self._parts), "rows": len(rows)}
        return [_ENCODE(head).encode(), b"\n", self._parts, rows, b"".join(self.texts)]


def _with(items: Sequence[Any], changed: Mapping[int, Any]) -> list[Any]:
    anew = [*items]
    for number, item in changed.items():
        anew[number] = item
    return anew


def entry_of(head: dict[str, Any], parts: Iterable[Any], rows: list[Any], texts: Iterable[str]) -> Entry:
    """The entry of a compile."""
    lines = "".join(f"{_ENCODE(part)}\n" for part in parts)
    return Entry(head, lines.encode(), rows, [text.encode() for text in texts])


def from_bytes(data: bytes, digest: str) -> Entry | None:
    """The entry; None when it is not one. ``digest`` is that of the data."""
    line, _, _ = data[: data.find(b"\n") + 1].partition(b"\n")
    try:
        head = json.loads(line)
        parts, rows = head.pop("parts"), head.pop("rows")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(parts, int) or not isinstance(rows, int) or not head.keys() >= _FACTS:
        return None
    # Most of it is the texts, which are not copied.
    start, view = len(line) + 1, memoryview(data)
    middle = start + parts
    entry = Entry(head, view[start:middle], view[middle : middle + rows], view[middle + rows :])
    entry.origin = Origin(digest, len(data))
    return entry


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
    """Where a document stands: in which stretch of its source, and as which one of it. Looked up when somebody asks."""

    def __init__(self, source: Source, where: Sequence[int]) -> None:
        self.source = source
        self.where = where

    @property
    def file(self) -> str:
        return self.source.name

    def span(self) -> Span:
        from gpuctl.frontend.reader import recompose, split
        from gpuctl.frontend.spans import locate

        stretch, number = self.where
        chunk = [*split(self.source)][stretch]
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
        return [
            Emitted(identity(*row), places[place], shared, text)
            for (*row, shared, place), text in zip(entry.rows, texts(), strict=True)
        ]

    def texts() -> Iterator[str]:
        return (str(text, "utf-8") for text in entry.texts)

    return Manifests(
        [unpacked(item) for item in head["diagnostics"]],
        sources,
        Settings() if domain is None else _Settings(domain, load),
        head["version"],
        (head["documents"], head["objects"]),
        lowered,
        texts,
    )


def identity(api_version: str, kind: str, namespace: str | None, name: str) -> Object:
    """The object that a row is of, without what it holds."""
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}

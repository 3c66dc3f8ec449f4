"""The road of commands that compile: what an earlier run left is used where it is the same.

The result is that of :func:`gpuctl.compile`, byte for byte. What is unchanged as a whole is recalled; else the
unchanged parts are, others are made by as many processes as are worth it, and all are put together. A compile with a
mistake in it takes the road of :func:`gpuctl.compile` itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from gpuctl.backend.context import GitOps, JobNames, OutputOptions, options_of
from gpuctl.frontend.platform_file import find_platform
from gpuctl.frontend.source import Source, Sources, collect
from gpuctl.garbage import patient
from gpuctl.incremental.entry import Entry, entry_of, packed, recalled
from gpuctl.incremental.fingerprint import fingerprint
from gpuctl.incremental.keeping import read_entry, write_entry
from gpuctl.incremental.manifests import Emitted, Form, Manifests, text_of
from gpuctl.language.settings import Settings

if TYPE_CHECKING:
    from gpuctl.compilation import Compilation
    from gpuctl.frontend.load import Loaded
    from gpuctl.frontend.tree import Chunk
    from gpuctl.incremental.parts import Part
    from gpuctl.incremental.store import Store
    from gpuctl.incremental.units import Unit

Outcome = TypeVar("Outcome")
Leave = Callable[[], Entry | None]
"""Makes what the next run can use, if it can use anything; not called where nothing is kept."""
FEWEST = 16
"""Units below which parts are not worth while: all of them are compiled faster than the rest is put together."""


class _Wish(NamedTuple):
    """What is to be compiled, and how."""

    found: Sources
    beside: list[Source]
    platform: str | None
    namespace: str
    strict: bool
    options: OutputOptions
    form: Form
    cluster: str | None


def manifests(
    inputs: Sequence[str],
    *,
    platform: str | None = None,
    namespace: str = "default",
    strict: bool = False,
    nodes: bool = False,
    shared: bool = True,
    gitops: GitOps | Literal["platform"] | None = None,
    embed: bool = False,
    namespaces: bool = False,
    job_names: JobNames | None = None,
    without: Path | None = None,
    form: Form = "yaml",
    cluster: str | None = None,
    store: Store | None = None,
) -> Manifests:
    """Compile documents to manifests. The parameters are those of :func:`gpuctl.compile`, but for the last two.

    :param form: "none" when nobody will read the manifests, only what there is to say of them.
    :param store: where earlier runs left their results. What comes from standard input or a pipe is never kept: it may
        be on no disk for a reason.
    """
    options = options_of(nodes, shared, gitops, embed, namespaces, job_names)
    with patient():
        found = collect(inputs, None, without)
        wish = _Wish(found, _platforms(found, platform), platform, namespace, strict, options, form, cluster)

        def recall(entry: Entry) -> Manifests:
            return recalled(entry, _sources(wish), lambda: _opened(wish).settings)

        called = [[os.fspath(item) for item in inputs], str(without)]
        return _remembered(wish, called, store, recall, lambda entry: _made(wish, entry))


def compiled_for_cluster(
    inputs: Sequence[str],
    *,
    platform: str | None = None,
    namespace: str = "default",
    strict: bool = False,
    cluster: str | None = None,
    store: Store,
) -> Compilation:
    """As :func:`gpuctl.compile` with nodes, namespaces and embedded documents, of files.

    :raises ValueError: for an illegal ``namespace``.
    """
    from gpuctl.compilation import see_that_it_is_legal

    see_that_it_is_legal(namespace)
    options = OutputOptions(nodes=True, embed=True)
    with patient():
        found = collect(inputs, None)
        wish = _Wish(found, _platforms(found, platform), platform, namespace, strict, options, "json", cluster)

        def make(entry: Entry | None) -> tuple[Compilation, Leave]:
            outcome, leave = _made(wish, entry)
            if outcome.whole is not None:
                return outcome.whole, leave
            left = leave()
            result = _objects(wish, left) if left is not None else None
            return (result, lambda: left) if result is not None else (_compiled_anew(wish), lambda: None)

        called = [[os.fspath(item) for item in inputs]]
        return _remembered(wish, called, store, lambda entry: _objects(wish, entry), make)


def _remembered(
    wish: _Wish,
    called: list[Any],
    store: Store | None,
    recall: Callable[[Entry], Outcome | None],
    make: Callable[[Entry | None], tuple[Outcome, Leave]],
) -> Outcome:
    """What an earlier run left if nothing has changed, else what is made now, which is left for the next one.

    :param called: what distinguishes command lines beside how they compile.
    """
    if store is None or None in wish.found.starts:
        return make(None)[0]
    name = _digest([os.path.realpath("."), *called, *_how(wish)])
    digest = _inputs(wish)
    entry = read_entry(store, name)
    if entry is not None and entry.head["inputs"] == digest:
        known = recall(entry)
        if known is not None:
            return known
    outcome, leave = make(entry)
    left = leave()
    if left is not None:
        left.head["inputs"] = digest
        write_entry(store, name, left)
    return outcome


def _platforms(found: Sources, named: str | None) -> list[Source]:
    """The files that the platform may come from, beside those that are compiled."""
    if named is not None:
        return collect([named]).sources
    paths = (find_platform("." if start is None else start) for start in found.starts)
    return collect(sorted({path for path in paths if path is not None})).sources


def _sources(wish: _Wish) -> dict[str, Source]:
    """The sources by name, as a compile has them."""
    return {source.name: source for source in (*wish.found.sources, *wish.beside)}


def _are_as_read(wish: _Wish, sources: Mapping[str, Source]) -> bool:
    """Whether the sources of a compile, some of which are read once more, are those that the digest is of."""
    read = _sources(wish)
    return all(read.get(name) == source for name, source in sources.items())


def _how(wish: _Wish) -> list[Any]:
    return [fingerprint(), wish.platform, wish.namespace, wish.strict, list(wish.options), wish.form, wish.cluster]


def _inputs(wish: _Wish) -> str:
    """The digest of all that is read."""
    digest = hashlib.sha256()
    facts = [*_how(wish), list(wish.found.starts), [packed(item) for item in wish.found.diagnostics]]
    digest.update(json.dumps(facts).encode())
    for sources in (wish.found.sources, wish.beside):
        texts = [source.text.encode() for source in sources]
        told = [(source.name, source.direct, source.path) for source in sources]
        digest.update(json.dumps([told, [len(text) for text in texts]]).encode())
        for text in texts:
            digest.update(text)
    return digest.hexdigest()


def _digest(facts: Any) -> str:
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _opened(wish: _Wish) -> Loaded:
    """The sources with their platform, read once more."""
    from gpuctl.backend.validation import VERSIONS
    from gpuctl.frontend.load import open_sources

    return open_sources(wish.found, platform=wish.platform, versions=VERSIONS, directory=None)[0]


def _objects(wish: _Wish, entry: Entry) -> Compilation | None:
    """The compilation that an entry has the objects of; None when the platform has changed since it was read."""
    settings = Settings()
    if entry.head["domain"] is not None:
        loaded = _opened(wish)
        if not _are_as_read(wish, loaded.sources):
            return None
        settings = loaded.settings
    from gpuctl.incremental.known_documents import recalled_objects

    return recalled_objects(entry, _sources(wish), settings)


def _made(wish: _Wish, entry: Entry | None) -> tuple[Manifests, Leave]:
    """What is compiled now, and what the next run can use of it."""
    from gpuctl.incremental.units import units

    found = list(units(wish.found.sources))
    # Which documents belong on a cluster is known when all are read: they are not compiled in parts then.
    if len(found) >= FEWEST and wish.cluster is None:
        from gpuctl.incremental.parts import NoPart

        try:
            return _in_parts(wish, found, entry)
        except NoPart:
            pass
    return _as_a_whole(wish)


def _as_a_whole(wish: _Wish) -> tuple[Manifests, Leave]:
    result = _compiled_anew(wish)
    emitted = [
        Emitted(item.object, item.document, item.shared, text_of(item.object, wish.form)) for item in result.lowered
    ]
    outcome = _outcome(result, emitted)
    outcome.whole = result
    return outcome, lambda: _left(wish, result, emitted, [], "")


def _compiled_anew(wish: _Wish) -> Compilation:
    from gpuctl.compilation import compile_found

    return compile_found(
        wish.found,
        wish.options,
        platform=wish.platform,
        namespace=wish.namespace,
        strict=wish.strict,
        cluster=wish.cluster,
    )


def _in_parts(wish: _Wish, found: Sequence[Unit], entry: Entry | None) -> tuple[Manifests, Leave]:
    from gpuctl.backend.validation import VERSIONS
    from gpuctl.frontend.diagnostics import Severity, count
    from gpuctl.frontend.load import open_sources
    from gpuctl.incremental.joining import joined
    from gpuctl.incremental.parts import Maker, NoPart
    from gpuctl.incremental.renewal import frame, part_key, renewed
    from gpuctl.incremental.workers import make_all, processes

    loaded, _, defaults = open_sources(wish.found, platform=wish.platform, versions=VERSIONS, directory=None)
    if count(loaded.diagnostics, Severity.ERROR):
        raise NoPart
    maker = Maker(loaded.settings, wish.options, wish.namespace, defaults, form=wish.form)
    how = _how_parts_are_made(wish, loaded.settings)
    keys = [part_key(how, unit) for unit in found]
    around = frame(how, found, wish.found.starts, loaded.diagnostics)
    known = set(entry.head["keys"]) if entry is not None else set()
    missing = [(key, unit) for key, unit in zip(keys, found, strict=True) if key not in known]
    made = make_all(maker, [unit for _, unit in missing], processes(len(missing)))
    parts = dict(zip((key for key, _ in missing), made, strict=True))
    if entry is not None:
        same = entry.head["frame"] == around and _are_as_read(wish, loaded.sources)
        anew = renewed(entry, found, keys, parts) if same else None
        if anew is not None:
            return recalled(anew, _sources(wish), lambda: loaded.settings), lambda: anew
        parts.update(_kept(entry, set(keys)))
    whole = joined(loaded, maker, found, [parts[key] for key in keys], strict=wish.strict)
    return _outcome(whole.compilation, whole.emitted), lambda: _left(
        wish, whole.compilation, whole.emitted, list(zip(keys, whole.parts, strict=True)), around
    )


def _outcome(result: Compilation, emitted: list[Emitted]) -> Manifests:
    settings = result.settings
    counts = len(result.documents), len(result.lowered)
    return Manifests(result.diagnostics, result.sources, settings, settings.kubernetes_version, counts, lambda: emitted)


def _left(
    wish: _Wish, result: Compilation, emitted: Sequence[Emitted], parts: Sequence[tuple[str, Part]], around: str
) -> Entry | None:
    """What to keep; None when the sources changed while they were compiled."""
    from gpuctl.incremental.known_documents import facts_of
    from gpuctl.incremental.parts import written

    if not _are_as_read(wish, result.sources):
        return None
    numbers = {name: number for number, name in enumerate(_sources(wish))}
    stretch_of = _stretches()
    places: dict[int, int] = {}
    where: list[list[int]] = []
    rows: list[Any] = []
    index: dict[tuple[Any, ...], int] = {}

    def place_of(document: Any) -> int:
        place = places.setdefault(id(document), len(where))
        if place == len(where):
            where.append([numbers[document.file], stretch_of(document.chunk), document.index])
        return place

    known = [*result.documents, *result.left_out] if wish.form == "json" else []
    for document in known:
        place_of(document)
    for item in emitted:
        place = place_of(item.document)
        metadata = item.object["metadata"]
        key = (item.object["apiVersion"], item.object["kind"], metadata.get("namespace"), metadata["name"])
        index[key] = len(rows)
        rows.append([*key, item.shared, place])
    head = {
        "diagnostics": [packed(item) for item in result.diagnostics],
        "documents": len(result.documents),
        "objects": len(rows),
        "domain": None if result.settings.is_default else result.settings.domain,
        "version": result.settings.kubernetes_version,
        "places": where,
        "known": [facts_of(document) for document in known],
        "keys": [key for key, _ in parts],
        "frame": around,
    }
    return entry_of(head, (written(part, index) for _, part in parts), rows, (item.text for item in emitted))


def _stretches() -> Callable[[Chunk], int]:
    """A function that says which stretch of its source a chunk is."""
    from gpuctl.frontend.reader import split

    known: dict[str, dict[int, int]] = {}

    def number(chunk: Chunk) -> int:
        if chunk.start == 0:
            return 0
        name = chunk.source.name
        if name not in known:
            known[name] = {each.start: number for number, each in enumerate(split(chunk.source))}
        return known[name][chunk.start]

    return number


def _how_parts_are_made(wish: _Wish, settings: Settings) -> bytes:
    """The digest of all that a part depends on beside its stretch: gpuctl, the options and the platform."""
    platform = None if settings.is_default else settings.platform.model_dump(mode="json")
    return hashlib.blake2b(json.dumps([*_how(wish), platform]).encode(), digest_size=32).digest()


def _kept(entry: Entry, wanted: set[str]) -> dict[str, Part]:
    """The parts of an earlier run that are wanted."""
    from gpuctl.incremental.parts import Part, PartRow, Piece

    kept = [(key, json.loads(line)) for key, line in zip(entry.head["keys"], entry.parts, strict=True) if key in wanted]
    if not kept:
        return {}
    rows = [PartRow._make([*row[:5], str(text, "utf-8")]) for row, text in zip(entry.rows, entry.texts, strict=True)]
    parts = {}
    for key, (filled, read, checked, pieces) in kept:
        own = [Piece._make([*piece[:-1], [rows[at] for at in piece[-1]]]) for piece in pieces]
        parts[key] = Part(filled, read, checked, own)
    return parts

"""The frontend in one call: inputs to valid documents and everything there is to say about them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from gpuctl.frontend.binder import bind, kind_of
from gpuctl.frontend.checks import check, check_faulty, check_platform
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, Span
from gpuctl.frontend.document import Document
from gpuctl.frontend.linker import link
from gpuctl.frontend.reader import RawDocument, read
from gpuctl.frontend.source import Source, collect, find_platform
from gpuctl.language.kinds import ALIASES
from gpuctl.language.settings import Settings

if TYPE_CHECKING:
    from gpuctl.language.platform import Platform


class Loaded:
    """What the frontend found.

    ``documents`` are the valid ones, in source order, without a platform file that was only looked up; ``sources`` are
    by name, for showing lines.
    """

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.diagnostics: list[Diagnostic] = []
        self.settings = Settings()
        self.sources: dict[str, Source] = {}


def load(
    inputs: Sequence[str | os.PathLike[str] | Source],
    *,
    platform: str | os.PathLike[str] | Source | None = None,
    namespace: str = "default",
    versions: tuple[str, ...],
    directory: Path | None = None,
    stdin: BinaryIO | None = None,
) -> Loaded:
    """Read, bind, check and link all inputs. Never raises for what an input contains.

    ``platform`` is the platform's file; without it, ``platform.yaml`` at or above the first input is used.
    ``versions`` are the Kubernetes versions that the platform may name.
    """
    loaded = Loaded()
    found = collect(inputs, stdin)
    loaded.diagnostics += found.diagnostics
    for source in found.sources:
        loaded.sources[source.name] = source
    _find_platform(inputs, platform, directory or Path.cwd(), found.sources, loaded, versions)
    defaults = _defaults(loaded.settings.platform)
    for source in found.sources:
        for raw in read(source, loaded.diagnostics):
            if _is_platform(raw):
                continue
            bound = bind(raw, loaded.diagnostics, defaults)
            if bound is None:
                continue
            if bound.model is not None:
                loaded.documents.append(Document(bound.kind, bound.model, raw.chunk, raw.number))
            elif bound.tentative is not None:
                faulty = Document(bound.kind, bound.tentative, raw.chunk, raw.number)
                loaded.diagnostics += check_faulty(faulty, loaded.settings)
    complete = not any(diagnostic.severity is Severity.ERROR for diagnostic in loaded.diagnostics)
    if complete and not loaded.documents and loaded.sources:
        name = found.sources[0].name if found.sources else next(iter(loaded.sources))
        message = "there is no document of gpuctl's in the files that were named"
        hint = "a document starts with `kind:`; `gpuctl init training` prints one"
        loaded.diagnostics.append(Diagnostic(Severity.ERROR, "GPU009", message, Span(name, 1, 1, 1, 1), hint=hint))
    for document in loaded.documents:
        loaded.diagnostics += check(document, loaded.settings)
    loaded.diagnostics += link(loaded.documents, loaded.settings, namespace, complete=complete)
    return loaded


def load_platform(
    named: str | os.PathLike[str] | None, *, versions: tuple[str, ...], directory: Path | None = None
) -> Loaded:
    """The platform alone, for commands without documents: the file named, else the one at or above ``directory``."""
    loaded = Loaded()
    _find_platform([], named, directory or Path.cwd(), [], loaded, versions)
    return loaded


def _is_platform(raw: RawDocument) -> bool:
    _, kind = kind_of(raw.root)
    return kind is not None and ALIASES.get(kind, kind) == "platform"


def _find_platform(
    inputs: Sequence[str | os.PathLike[str] | Source],
    named: str | os.PathLike[str] | Source | None,
    directory: Path,
    sources: Sequence[Source],
    loaded: Loaded,
    versions: tuple[str, ...],
) -> None:
    """Bind the platform: the one named, the ones among the documents, or the one found beside them.

    Several that say the same are one; two different ones are an error, because a compile has one platform.
    """
    # Sources are read for the platform first, because its defaults fill in what other documents leave out; what is
    # wrong with their YAML is reported when they are read for good.
    mentioned = (source for source in sources if "platform" in source.text)
    candidates = [(raw, True) for source in mentioned for raw in read(source, []) if _is_platform(raw)]
    if named is not None:
        candidates = [(raw, False) for raw in _platform_file(named, loaded)] + candidates
    elif not candidates:
        path = find_platform(inputs, directory)
        if path is not None and str(path) not in loaded.sources:
            candidates = [(raw, False) for raw in _platform_file(path, loaded)]
    chosen: Document | None = None
    for raw, is_input in candidates:
        bound = bind(raw, loaded.diagnostics)
        if bound is None or bound.model is None or bound.model.kind != "platform":
            continue
        document = Document("platform", bound.model, raw.chunk, raw.number)
        if chosen is None:
            chosen = document
            loaded.diagnostics += check_platform(document, versions)
            loaded.settings = Settings(bound.model)
            if is_input:
                loaded.documents.append(document)
        elif chosen.model != bound.model:
            loaded.diagnostics.append(
                document.diagnostic(
                    Severity.ERROR,
                    "GPU603",
                    "a second platform, different from the first: a compile has one",
                    ("kind",),
                    "remove one, or compile the two sets of files apart",
                    related=(Related("the first", chosen.span(("kind",))),),
                )
            )
        elif is_input and chosen not in loaded.documents:
            loaded.documents.append(document)


def _platform_file(named: str | os.PathLike[str] | Source, loaded: Loaded) -> list[RawDocument]:
    source: Source
    if isinstance(named, Source):
        source = named
    else:
        found = collect([named])
        loaded.diagnostics += found.diagnostics
        if not found.sources:
            return []
        source = found.sources[0]
    loaded.sources[source.name] = source
    before = len(loaded.diagnostics)
    raws = list(read(source, loaded.diagnostics))
    platforms = [raw for raw in raws if _is_platform(raw)]
    if not platforms and raws and len(loaded.diagnostics) == before:
        span = raws[0].chunk.span(raws[0].root)
        message = "this file is used as the platform and holds no `kind: platform`"
        hint = "add a document of `kind: platform`, or name another file with --platform"
        loaded.diagnostics.append(Diagnostic(Severity.ERROR, "GPU604", message, span, hint=hint))
    return platforms


def _defaults(platform: Platform) -> dict[str, dict[str, Any]]:
    """kind -> the partial document that fills in what documents of the kind leave out.

    A ``podPatch`` is no filling: it is merged into the pod before the document's own (see the backend's ``patch``).
    """
    found = platform.defaults.model_dump(exclude_none=True)
    partials = {
        kind: {key: value for key, value in partial.items() if key != "podPatch"} for kind, partial in found.items()
    }
    return {kind: partial for kind, partial in partials.items() if partial}

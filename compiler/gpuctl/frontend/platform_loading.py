"""Chooses the platform of a compile: the named file, those found at or above the inputs, those among the inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpuctl.frontend.binder import bind, kind_of
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_owner import DocumentOwner, document_owner
from gpuctl.frontend.loading_result import Loaded
from gpuctl.frontend.platform_checks import check_platform
from gpuctl.frontend.platform_file import find_platform
from gpuctl.frontend.source import Source, Sources, collect
from gpuctl.frontend.yaml_reader import read
from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.language.kinds import ALIASES
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings


def open_platform(
    found: Sources,
    *,
    platform: str | os.PathLike[str] | Source | None,
    versions: tuple[str, ...],
    directory: Path | None,
) -> tuple[Loaded, PlatformSources, dict[str, dict[str, Any]]]:
    """Bind the platform and return it with its diagnostics, the sources read for it, and its defaults by kind."""
    loaded = Loaded()
    loaded.diagnostics += found.diagnostics
    for source in found.sources:
        loaded.sources[source.name] = source
    early = PlatformSources(found.sources)
    before = len(loaded.diagnostics)
    _use_platform(early.platforms, platform, found, directory, loaded, versions)
    loaded.has_sound_platform = all(item.severity is not Severity.ERROR for item in loaded.diagnostics[before:])
    return loaded, early, _platform_defaults(loaded.settings)


def load_platform(
    named: str | os.PathLike[str] | None, *, versions: tuple[str, ...], directory: Path | None = None
) -> Loaded:
    """Load only the platform, for commands without documents: the named file, or that in a directory or above it.

    :param directory: default: the current directory.
    """
    loaded = Loaded()
    _use_platform([], named, Sources([], [], [None]), directory, loaded, versions)
    return loaded


class PlatformSources:
    """Sources that may contain a platform. They are read before all others, which need the platform's defaults.

    They are few, so their trees are kept until they are bound. Of the other sources one tree at a time is in memory.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._read: dict[int, tuple[list[RawDocument], list[Diagnostic]]] = {}
        self.platforms: list[RawDocument] = []
        for source in sources:
            if "platform" in source.text and re.search(_MAY_BE_PLATFORM, source.text):
                diagnostics: list[Diagnostic] = []
                raws = list(read(source, diagnostics))
                self._read[id(source)] = raws, diagnostics
                self.platforms += [raw for raw in raws if is_platform(raw)]

    def is_platform_alone(self, source: Source) -> bool:
        """Return True if a source contains platforms only. Valid until the source is read by :meth:`read`."""
        raws, _ = self._read.get(id(source), ((), ()))
        return bool(raws) and all(map(is_platform, raws))

    def read(self, source: Source, diagnostics: list[Diagnostic]) -> Iterator[RawDocument]:
        """Yield the documents of a source, reusing the trees of an earlier read."""
        known = self._read.pop(id(source), None)
        if known is None:
            yield from read(source, diagnostics)
        else:
            diagnostics += known[1]
            yield from known[0]


# Matches a key that may be `kind`, unless another word directly follows it: a quoted text with escapes, an anchor or an
# alias may also mean `platform`.
_MAY_BE_PLATFORM = r"""(?i)k[-_]*i[-_]*n[-_]*d[-_]*["']?\s*:(?![ \t]+["']?(?!platform)[a-z])|"[^"\n\\]*\\[^"\n]*"\s*:"""


def is_platform(raw: RawDocument) -> bool:
    """Return True if a document is of kind platform."""
    _, kind = kind_of(raw.root)
    return kind is not None and ALIASES.get(kind, kind) == "platform"


def _use_platform(
    among: Sequence[RawDocument],
    named: str | os.PathLike[str] | Source | None,
    found: Sources,
    directory: Path | None,
    loaded: Loaded,
    versions: tuple[str, ...],
) -> None:
    """Bind the platform: the named one or else those found at or above the inputs, and those among the documents.

    Equal platforms count as one; two different ones are an error, because a compile has one platform.
    """
    if named is not None:
        candidates = [*((raw, False) for raw in _platform_file(named, loaded)), *((raw, True) for raw in among)]
    else:
        beside = _platforms_beside(found, directory, is_given=bool(among))
        # Resolving the real paths of thousands of files takes longer than reading them.
        paths = [source for source in found.sources if source.path is not None] if beside else []
        read_already = {os.path.realpath(source.path or ""): source for source in paths}
        candidates = [(raw, True) for raw in among]
        for path in beside:
            source = read_already.get(os.path.realpath(path))
            if source is None:
                candidates += [(raw, False) for raw in _platform_file(path, loaded, is_named=False)]
            elif not any(raw.chunk.source is source for raw in among):
                _platform_file(source, loaded, is_named=False)
        candidates.sort(key=lambda candidate: candidate[0].chunk.source.name)
    chosen: Document | None = None
    among_inputs = set()
    for raw, is_input in candidates:
        bound = bind(raw, loaded.diagnostics)
        if bound is None or bound.model is None or bound.model.kind != "platform":
            continue
        document = Document("platform", bound.model, raw.chunk, raw.number)
        if is_input:
            among_inputs.add(document)
        if chosen is None:
            chosen = document
            loaded.diagnostics += check_platform(document, versions)
            loaded.settings = Settings(bound.model)
            if is_input:
                loaded.documents.append(document)
        elif chosen.model != bound.model:
            both = {chosen, document}
            holds = None if both <= among_inputs else next(iter(both & among_inputs), chosen)
            loaded.diagnostics.append(_second_platform(chosen, document, holds))
        elif is_input and chosen not in loaded.documents:
            loaded.documents.append(document)


def _platforms_beside(found: Sources, directory: Path | None, *, is_given: bool) -> list[str]:
    """Return the ``platform.yaml`` of every input, without duplicates, sorted by name.

    Standard input and texts in memory belong to the current directory, unless they contain a platform.
    """
    here = str(directory) if directory is not None else "."
    starts = [here if start is None else start for start in found.starts if start is not None or not is_given]
    return sorted({path for path in map(find_platform, starts) if path is not None})


def _second_platform(chosen: Document, other: Document, holds: Document | None) -> Diagnostic:
    """Return the error for a second platform. ``holds``: the file for --platform; None if both are documents."""
    first, second = sorted((chosen, other), key=lambda document: (document.file, document.span(("kind",)).line))
    hint = say("remove one, or compile the two sets of files apart")
    if holds is not None:
        hint = say(
            "compile the two sets of files apart, or name the one to use, such as `--platform {file}`", file=holds.file
        )
    return second.diagnostic(
        Severity.ERROR,
        "GPU603",
        say("a second platform, different from the first (`{file}`): a compile has one", file=first.file),
        ("kind",),
        hint,
        related=(Related(say("the first"), first.span(("kind",))),),
    )


def _platform_file(
    named: str | os.PathLike[str] | Source, loaded: Loaded, *, is_named: bool = True
) -> list[RawDocument]:
    """Return the platforms in a file. A file found only by its name may consist of another tool's documents."""
    found = collect([named])
    loaded.diagnostics += found.diagnostics
    if not found.sources:
        return []
    source = found.sources[0]
    before = len(loaded.diagnostics)
    is_read = loaded.sources.get(source.name) == source
    loaded.sources[source.name] = source
    raws = list(read(source, [] if is_read else loaded.diagnostics))
    platforms = [raw for raw in raws if is_platform(raw)]
    theirs = not is_named and all(document_owner(raw.root, source.name) is DocumentOwner.OTHER_TOOL for raw in raws)
    if not platforms and raws and not theirs and len(loaded.diagnostics) == before:
        span = raws[0].chunk.span(raws[0].root)
        message = say("this file is used as the platform and holds no `kind: platform`")
        hint = say("add a document of `kind: platform`, or name another file with --platform")
        loaded.diagnostics.append(Diagnostic(Severity.ERROR, "GPU604", message, span, hint=hint))
    return platforms


def _platform_defaults(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the platform's defaults: kind -> partial document.

    A ``podPatch`` is not part of them: it is merged into the pod before the document's own (see
    backend/pod_patches.py).
    """
    if settings.is_default:
        return {}
    found = settings.platform.defaults.model_dump(exclude_none=True)
    partials = {
        kind: {key: value for key, value in partial.items() if key != "podPatch"} for kind, partial in found.items()
    }
    return {kind: partial for kind, partial in partials.items() if partial}

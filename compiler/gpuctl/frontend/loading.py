"""The whole frontend in one call: from inputs to valid documents and their diagnostics."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from gpuctl.frontend.binder import bind, kind_of
from gpuctl.frontend.diagnostics import Diagnostic, Related, Severity, SourceSpan
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_checks import check, check_faulty
from gpuctl.frontend.document_owner import DocumentOwner, owner_of
from gpuctl.frontend.document_variant import PLAIN, Variant
from gpuctl.frontend.linker import link
from gpuctl.frontend.platform_checks import check_platform
from gpuctl.frontend.platform_file import find_platform
from gpuctl.frontend.source import Source, Sources, collect
from gpuctl.frontend.sweep_diagnostics import SweepDiagnostics
from gpuctl.frontend.variants import Overlay, VariantSelection, check_overlay
from gpuctl.frontend.yaml_reader import read
from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.language.kinds import ALIASES
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.language.spelling import did_you_mean


class Loaded:
    """The result of the frontend.

    ``documents``: the valid ones, in source order, without a platform file that was only found beside them. ``faulty``:
    jobs with errors, for further checks. ``of_other_clusters``: documents left out because of their placement.
    ``sources``: by name, to show lines. ``has_sound_platform``: the platform has no errors.
    """

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self.faulty: list[Document] = []
        self.of_other_clusters: list[Document] = []
        self.diagnostics: list[Diagnostic] = []
        self.settings = Settings()
        self.sources: dict[str, Source] = {}
        self.has_sound_platform = True


def load(
    inputs: Sequence[str | os.PathLike[str] | Source],
    *,
    platform: str | os.PathLike[str] | Source | None = None,
    namespace: str = "default",
    versions: tuple[str, ...],
    directory: Path | None = None,
    stdin: BinaryIO | None = None,
    without: Path | None = None,
) -> Loaded:
    """Read, bind, check and link all inputs. Problems of an input become diagnostics, not exceptions.

    :param platform: the platform's file; None: the ``platform.yaml`` at or above each input, which must all agree.
    :param versions: Kubernetes versions that the platform may name.
    :param without: a directory below an input whose files are not read.
    """
    found = collect(inputs, stdin, without)
    return load_found(found, platform=platform, namespace=namespace, versions=versions, directory=directory)


def load_found(
    found: Sources,
    *,
    platform: str | os.PathLike[str] | Source | None = None,
    namespace: str = "default",
    versions: tuple[str, ...],
    directory: Path | None = None,
    cluster: str | None = None,
    variant: Variant = PLAIN,
    interrupt: Callable[[], None] = lambda: None,
) -> Loaded:
    """Load inputs that have been read, as :func:`load` does.

    :param cluster: leave out the documents of other clusters.
    :param variant: the profile and the overrides to compile.
    :param interrupt: called before each document is bound and checked.
    """
    loaded, early, defaults = open_platform(found, platform=platform, versions=versions, directory=directory)
    selection = VariantSelection(variant)
    if selection.overrides is not None:
        loaded.sources[selection.overrides.source.name] = selection.overrides.source
    raws = (raw for source in found.sources for raw in early.read(source, loaded.diagnostics))
    sweeps = SweepDiagnostics()
    checked: list[Diagnostic] = []
    for raw in selection.assign(raws, loaded.diagnostics):
        interrupt()
        documents = [] if is_platform(raw) else _bind(raw, selection.overlay(raw), loaded, defaults)
        # Now, because the tree of only one document is in memory at a time.
        for document in documents:
            interrupt()
            checked += sweeps.new(document, check(document, loaded.settings))
        for document in documents:
            document.forget_tree()
        loaded.documents += documents
    loaded.diagnostics += selection.missing_profiles(next(iter(loaded.sources), ""))
    complete = not any(diagnostic.severity is Severity.ERROR for diagnostic in loaded.diagnostics)
    if complete and not loaded.documents and loaded.sources:
        name = found.sources[0].name if found.sources else next(iter(loaded.sources))
        message = say("the named files contain no gpuctl document")
        hint = say("a document starts with `kind:`; `gpuctl init training` prints one")
        loaded.diagnostics.append(
            Diagnostic(Severity.ERROR, "GPU009", message, SourceSpan(name, 1, 1, 1, 1), hint=hint)
        )
    loaded.diagnostics += checked
    if cluster is not None:
        # Before linking: documents of two clusters do not conflict.
        loaded.of_other_clusters += [
            document for document in loaded.documents if not belongs_to_cluster(document, cluster)
        ]
        loaded.documents = [document for document in loaded.documents if belongs_to_cluster(document, cluster)]
        if loaded.settings.clusters and cluster not in loaded.settings.clusters:
            loaded.diagnostics.append(_no_such_cluster(cluster, loaded))
    linked = link(loaded.documents, loaded.settings, namespace, complete=complete)
    loaded.diagnostics += sweeps.once(linked, loaded.documents)
    return loaded


def _bind(
    raw: RawDocument, overlay: Overlay | None, loaded: Loaded, defaults: dict[str, dict[str, Any]]
) -> list[Document]:
    """Return a valid document, or the jobs of its sweep, with their tree. Check others as far as their valid fields
    allow.
    """
    merged = raw
    if overlay is not None:
        merged = raw._replace(root=overlay.merged(raw.root), is_overridden=bool(overlay.assignments))
    bound = bind(merged, loaded.diagnostics, defaults)
    if overlay is not None:
        # After the document: errors that it has without the profile are reported once.
        check_overlay(raw, overlay, loaded.diagnostics, defaults)
    if bound is None:
        return []
    if bound.model is not None:
        size = len(bound.jobs)
        document = Document(bound.kind, bound.model, raw.chunk, raw.number, overlay, sweep_size=size, tree=merged.root)
        if bound.jobs:
            document.first = document
        jobs = (Document(bound.kind, job, raw.chunk, raw.number, overlay, document, size) for job in bound.jobs[1:])
        return [document, *jobs]
    if bound.partial_model is not None:
        faulty = Document(bound.kind, bound.partial_model, raw.chunk, raw.number, overlay, tree=merged.root)
        loaded.faulty.append(faulty)
        loaded.diagnostics += check_faulty(faulty, loaded.settings)
        faulty.forget_tree()
    return []


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
    return loaded, early, platform_defaults(loaded.settings)


def _no_such_cluster(name: str, loaded: Loaded) -> Diagnostic:
    hint = did_you_mean(name, loaded.settings.clusters) or say(
        "it defines {clusters}", clusters=[*loaded.settings.clusters]
    )
    place = SourceSpan(next(iter(loaded.sources), "platform"), 1, 1, 1, 1)
    return Diagnostic(
        Severity.ERROR, "GPU211", say("the platform defines no cluster `{name}`", name=name), place, hint=hint
    )


def belongs_to_cluster(document: Document, cluster: str) -> bool:
    """Return True if a document belongs on a cluster; one without a placement belongs on all."""
    return not document.clusters or cluster in document.clusters


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
    theirs = not is_named and all(owner_of(raw.root, source.name) is DocumentOwner.OTHER_TOOL for raw in raws)
    if not platforms and raws and not theirs and len(loaded.diagnostics) == before:
        span = raws[0].chunk.span(raws[0].root)
        message = say("this file is used as the platform and holds no `kind: platform`")
        hint = say("add a document of `kind: platform`, or name another file with --platform")
        loaded.diagnostics.append(Diagnostic(Severity.ERROR, "GPU604", message, span, hint=hint))
    return platforms


def platform_defaults(settings: Settings) -> dict[str, dict[str, Any]]:
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

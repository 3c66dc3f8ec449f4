"""The whole frontend in one call: from collected inputs to valid documents and their diagnostics."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuctl.frontend.binder import bind
from gpuctl.frontend.diagnostics import Diagnostic, Severity, SourceSpan
from gpuctl.frontend.document import Document
from gpuctl.frontend.document_checks import check, check_faulty
from gpuctl.frontend.document_variant import PLAIN, Variant
from gpuctl.frontend.linker import link
from gpuctl.frontend.loading_result import Loaded
from gpuctl.frontend.platform_loading import is_platform, open_platform
from gpuctl.frontend.source import Source, Sources
from gpuctl.frontend.sweep_diagnostics import SweepDiagnostics
from gpuctl.frontend.variants import Overlay, VariantSelection, check_overlay
from gpuctl.frontend.yaml_tree import RawDocument
from gpuctl.language.sentences import say
from gpuctl.language.spelling import did_you_mean


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
    """Bind, check and link inputs. Problems of an input become diagnostics, not exceptions.

    :param platform: the platform's file; None: the ``platform.yaml`` at or above each input, which must all agree.
    :param versions: Kubernetes versions that the platform may name.
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
        merged = raw._replace(root=overlay.merged(raw.chunk, raw.root), is_overridden=bool(overlay.assignments))
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

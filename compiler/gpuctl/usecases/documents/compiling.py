"""Compile documents for a cluster, and build the apply request."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from gpuctl.apply.plan.apply_request import ApplyRequest, SetOptions
from gpuctl.apply.plan.plan_draft import title_of
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.apply.state.provenance import sources_of
from gpuctl.backend.lowering_context import JobNames
from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.compilation import Compilation, compile
from gpuctl.frontend.diagnostics import Diagnostic, Severity, count
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.loading_result import Loaded
from gpuctl.frontend.platform_file import PLATFORM_FILE
from gpuctl.frontend.platform_loading import load_platform
from gpuctl.frontend.source import Source
from gpuctl.kube.session import Session
from gpuctl.language.display_text import first_few
from gpuctl.language.names import is_dns_label
from gpuctl.language.settings import Settings
from gpuctl.usecases.documents.change_options import DocumentOptions, InvalidOptions

_NAMED = 8
POOL_UNKNOWN = "GPU401"
"""Diagnostic that is left out: the cluster is asked for pools instead of the documents."""


def compile_and_report(
    session: Session, documents: DocumentOptions, callbacks: RunCallbacks, *, empty: bool = False
) -> Compilation:
    """Compile for a cluster as :func:`compile_for`, and report diagnostics and the documents of other clusters."""
    compilation = compile_for(session, documents, empty=empty)
    callbacks.on_diagnostics(reportable_diagnostics(compilation), compilation.sources)
    _report_left_out(compilation, documents, callbacks)
    return compilation


def compile_for(session: Session, documents: DocumentOptions, *, empty: bool = False) -> Compilation:
    """Compile for a cluster, with Node objects and embedded documents.

    :param empty: an empty set of documents is valid.
    :raises InvalidDocuments: the documents have errors.
    :raises InvalidOptions: documents have a ``placement``, and the name of this cluster is unknown.
    """
    result = compiled(documents, documents.namespace or session.namespace, embed=True)
    if empty and _is_nothing(result, documents.sources):
        return result
    if not result.ok:
        raise InvalidDocuments(result.diagnostics, result.sources)
    if documents.cluster is None and not documents.are_here:
        _see_that_none_is_placed(result)
    return result


def compiled(
    documents: DocumentOptions,
    namespace: str,
    *,
    embed: bool = False,
    tolerated: frozenset[str] = frozenset(),
    job_names: JobNames | None = None,
) -> Compilation:
    """Compile documents with Node objects and Namespaces; see :func:`gpuctl.compile` for the parameters."""
    return compile(
        documents.sources,
        platform=documents.platform,
        namespace=namespace,
        strict=documents.strict,
        nodes=True,
        embed=embed,
        namespaces=True,
        job_names=job_names,
        tolerated=tolerated,
        directory=documents.directory,
        stdin=documents.stdin,
        cluster=documents.cluster,
        profile=documents.variant.profile,
        overrides=documents.variant.overrides,
        interrupt=documents.interrupt,
    )


def _see_that_none_is_placed(result: Compilation) -> None:
    """Raise InvalidOptions if a document has a placement: without the cluster's name it cannot be matched."""
    named = dict.fromkeys(name for document in result.documents for name in document.clusters)
    if named:
        raise InvalidOptions(
            f"documents have a `placement` ({', '.join(named)}), but the name of this cluster is unknown: remove "
            "`placement`, or name the cluster"
        )


def reportable_diagnostics(compilation: Compilation) -> list[Diagnostic]:
    """Return the diagnostics to report for documents that are applied; [] without documents."""
    if not compilation.documents:
        return []
    return [item for item in compilation.diagnostics if item.code != POOL_UNKNOWN]


def _report_left_out(compilation: Compilation, documents: DocumentOptions, callbacks: RunCallbacks) -> None:
    """Report which documents belong to other clusters."""
    said = [f"{title_of(document)} ({', '.join(document.clusters)})" for document in compilation.left_out]
    if said:
        callbacks.on_message(
            f"note: not for the cluster {documents.cluster}, by `placement`: {first_few(said, _NAMED)}"
        )


def _is_nothing(result: Compilation, sources: Sequence[str | os.PathLike[str] | Source]) -> bool:
    """Return True if the sources exist but contain no documents: an empty directory, or files of other tools."""
    there = all(isinstance(source, Source) or source == "-" or os.path.exists(source) for source in sources)
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR}
    return there and not result.documents and errors <= {"GPU009", "GPU013"}


def platform_source(settings: Settings) -> Source:
    """Return a platform that was already read as a source, so that the compilation uses no other platform."""
    model = settings.platform.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return Source(PLATFORM_FILE, json.dumps({"version": "v0.1", **model, "kind": "platform"}))


def read_platform(platform: str | os.PathLike[str] | None) -> Loaded:
    """Read the platform for commands without documents. Its ``diagnostics`` contain no errors.

    :param platform: its file; None: ``platform.yaml`` in the working directory or above, up to the git root.
    :raises InvalidDocuments: the file has errors.
    """
    loaded = load_platform(platform, versions=VERSIONS)
    if count(loaded.diagnostics, Severity.ERROR):
        raise InvalidDocuments(loaded.diagnostics, loaded.sources)
    return loaded


def request_of(
    compilation: Compilation, planning: PlanOptions, set_options: SetOptions | None = None, *, offline: bool = False
) -> ApplyRequest:
    """Return the apply request for a compilation's objects. ``offline``: plan without the API server's dry-runs."""
    return ApplyRequest(
        compilation.lowered,
        compilation.settings,
        planning,
        set_options,
        offline=offline,
        unread=tuple(dict.fromkeys(item.span.file for item in compilation.unread if item.span is not None)),
    )


def set_options(session: Session, planning: PlanOptions, documents: DocumentOptions) -> SetOptions | None:
    """Return the options of `--set`; None without it.

    :raises InvalidOptions: an option needs `--set`, or the name is invalid.
    """
    if planning.set_name is None:
        for flag in planning.set_flags:
            raise InvalidOptions(f"--{flag} needs --set NAME: only what a set applied earlier can be pruned")
        return None
    name = planning.set_name
    if not is_dns_label(name):
        raise InvalidOptions(f"`{name}` is not a legal name of a set: use lower case letters, digits and -")
    sources = sources_of(documents.sources, documents.directory)
    return SetOptions(documents.namespace or session.namespace, sources, planning)

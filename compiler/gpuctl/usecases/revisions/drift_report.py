"""`drift`: compare a cluster with documents on disk or at a git revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuctl.apply.plan.drift_detection import Drift, find_drift
from gpuctl.apply.plan.plan_options import PlanOptions
from gpuctl.apply.run.run_options import RunCallbacks
from gpuctl.apply.state.provenance import sources_of
from gpuctl.frontend.diagnostics import Severity, count
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.gitops.build_error import RevisionError
from gpuctl.kube.session import Session
from gpuctl.language.display_text import visible
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.compiling import compile_and_report, request_of
from gpuctl.usecases.revisions.files_at_revision import read_revision


@dataclass(frozen=True)
class DriftReport:
    """The drift of a cluster. ``revision`` is the commit of the documents; "" for documents on disk."""

    drift: Drift
    server: str
    cluster: str | None
    revision: str = ""


def documents_at(reference: str, inputs: Sequence[str], documents: DocumentOptions) -> tuple[DocumentOptions, str]:
    """Return the documents at a revision, and its commit.

    :raises RevisionError: the revision or repository does not exist, or an input does not exist there.
    :raises InvalidDocuments: files cannot be read.
    """
    found = read_revision(reference, inputs, None if documents.platform is None else str(documents.platform))
    if count(found.problems, Severity.ERROR):
        raise InvalidDocuments(found.problems, {})
    if found.missing:
        raise RevisionError(f"`{visible(found.missing[0])}` does not exist at {visible(reference)}")
    return replace(documents, sources=found.sources, platform=found.platform), found.commit


def drift_of(
    session: Session,
    documents: DocumentOptions,
    callbacks: RunCallbacks,
    *,
    revision: str = "",
    inputs: Sequence[str] | None = None,
) -> DriftReport:
    """Compare documents with a cluster. Only reads; sends no dry-runs.

    :param inputs: the files and directories of the documents, if they are from a revision.
    :raises InvalidDocuments: the documents have errors.
    """
    sources = sources_of(documents.sources if inputs is None else inputs, documents.directory)
    compilation = compile_and_report(session, documents, callbacks)
    callbacks.on_wait("comparing with the cluster ...")
    request = request_of(compilation, PlanOptions(), offline=True)
    return DriftReport(find_drift(session, request, sources), session.server, documents.cluster, revision)

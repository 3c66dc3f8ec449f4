"""Compile documents at two git revisions, or at one revision and on disk."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import NamedTuple

from gpuctl.backend.lowering_context import JobNames
from gpuctl.compilation import Compilation
from gpuctl.frontend.diagnostics import Severity, count
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import SUFFIXES, Source
from gpuctl.gitops.build_error import RevisionError
from gpuctl.language.display_text import visible
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.documents.compiling import compiled
from gpuctl.usecases.revisions.files_at_revision import read_revision


class InvalidRevisionDocuments(InvalidDocuments):
    """One side has errors, so nothing can be compared. ``side`` is where, as in ``at origin/main``; "" if files of a
    revision could not be read.
    """

    def __init__(self, cause: InvalidDocuments, side: str) -> None:
        super().__init__(cause.diagnostics, cause.sources)
        self.side = side


class RevisionPair(NamedTuple):
    """The compilations before and after; None for a side without documents."""

    before: Compilation | None
    after: Compilation | None


def compiled_pair(
    before: str, after: str | None, documents: DocumentOptions, *, tolerated: frozenset[str] = frozenset()
) -> RevisionPair:
    """Return the compilations at two revisions, or (without ``after``) at one revision and on disk.

    An input that does not exist, or a directory without YAML, counts as no documents.

    :param documents: files and directories, and the options of their compilation. Their default namespace is
        ``default``.
    :param tolerated: codes of errors that are ignored.
    :raises RevisionError: the revision or repository does not exist, or an input exists on neither side.
    :raises InvalidRevisionDocuments: documents do not compile.
    """
    old, not_before = _compiled(before, documents, tolerated)
    new, not_after = _compiled(after, documents, tolerated)
    for name in inputs_of(documents):
        if name in not_before and name in not_after:
            raise RevisionError(f"`{visible(name)}` exists on neither side")
    return RevisionPair(old, new)


def compiled_at(reference: str | None, documents: DocumentOptions, job_names: JobNames = "plain") -> Compilation | None:
    """Return the compilation at a revision, or (None) of the documents on disk; None without documents.

    :raises RevisionError: the revision or repository does not exist.
    :raises InvalidRevisionDocuments: documents do not compile.
    """
    return _compiled(reference, documents, frozenset(), job_names)[0]


def inputs_of(documents: DocumentOptions) -> list[str]:
    """Return the files and directories of documents."""
    return [os.fspath(source) for source in documents.sources if not isinstance(source, Source)]


def _compiled(
    reference: str | None, documents: DocumentOptions, tolerated: frozenset[str], job_names: JobNames = "plain"
) -> tuple[Compilation | None, list[str]]:
    """Return the compilation, and the inputs that do not exist."""
    inputs = inputs_of(documents)
    if reference is None:
        missing = [name for name in inputs if name != "-" and not os.path.lexists(name)]
        documents = replace(documents, sources=[name for name in inputs if name not in missing and not _is_empty(name)])
    else:
        found = read_revision(reference, inputs, None if documents.platform is None else str(documents.platform))
        if count(found.problems, Severity.ERROR):
            raise InvalidRevisionDocuments(InvalidDocuments(found.problems, {}), "")
        documents, missing = replace(documents, sources=found.sources, platform=found.platform), found.missing
    if not documents.sources:
        return None, missing
    result = compiled(documents, documents.namespace or "default", tolerated=tolerated, job_names=job_names)
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR} - tolerated
    if not result.documents and errors and errors <= {"GPU009", "GPU013"}:
        return None, missing
    if errors:
        side = f"at {visible(reference)}" if reference is not None else "on disk"
        raise InvalidRevisionDocuments(InvalidDocuments(result.diagnostics, result.sources), side)
    return result, missing


def _is_empty(name: str) -> bool:
    """Return True for a directory without YAML files."""
    return os.path.isdir(name) and not any(
        file.endswith(SUFFIXES) for _, _, files in os.walk(name) for file in files if not file.startswith(".")
    )

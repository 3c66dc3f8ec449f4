"""Documents compiled as they are at two revisions of git, or at one and on disk."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.backend.lowering_context import JobNames
from gpuctl.compilation import Compilation, compile
from gpuctl.frontend.diagnostics import Severity, count
from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.frontend.source import SUFFIXES, Source
from gpuctl.gitops.build_error import RevisionError
from gpuctl.language.display_text import visible
from gpuctl.usecases.revisions import revision


@dataclass(frozen=True)
class SidesOptions:
    """Which documents, on both sides: files and directories, the platform's file, the namespace of jobs that name none,
    whether warnings are errors, and the cluster without whose documents they are (None: all are there)."""

    inputs: Sequence[str]
    platform: str | None = None
    namespace: str = "default"
    strict: bool = False
    cluster: str | None = None


class InvalidSide(InvalidDocuments):
    """One side has errors, so that nothing can be determined. ``side`` is where they are, as in ``at origin/main``; ""
    when files of a revision could not even be read."""

    def __init__(self, cause: InvalidDocuments, side: str) -> None:
        super().__init__(cause.diagnostics, cause.sources)
        self.side = side


class RevisionPair(NamedTuple):
    """Compilations of before and after, None where there is no document."""

    before: Compilation | None
    after: Compilation | None


def compiled_pair(
    before: str, after: str | None, options: SidesOptions, *, tolerated: frozenset[str] = frozenset()
) -> RevisionPair:
    """The compilations at two revisions; without ``after`` as the documents are on disk.

    An input that is not there, or a directory without YAML, holds no document.

    :param tolerated: codes of errors that are no obstacle.
    :raises RevisionError: no such revision, no repository, or an input that exists on neither side.
    :raises InvalidSide: documents do not compile.
    """
    old, not_before = _compiled(before, options, tolerated)
    new, not_after = _compiled(after, options, tolerated)
    for name in options.inputs:
        if name in not_before and name in not_after:
            raise RevisionError(f"`{visible(name)}` exists on neither side")
    return RevisionPair(old, new)


def compiled_at(reference: str | None, options: SidesOptions, job_names: JobNames = "plain") -> Compilation | None:
    """The compilation at a revision, or (None) as the documents are on disk; None when there is no document.

    :raises RevisionError: no such revision, or no repository.
    :raises InvalidSide: documents do not compile.
    """
    return _compiled(reference, options, frozenset(), job_names)[0]


def _compiled(
    reference: str | None, options: SidesOptions, tolerated: frozenset[str], job_names: JobNames = "plain"
) -> tuple[Compilation | None, list[str]]:
    """The compilation, and the inputs that do not exist."""
    sources: Sequence[str | Source]
    named: str | Source | None
    if reference is None:
        missing = [name for name in options.inputs if name != "-" and not os.path.lexists(name)]
        sources = [name for name in options.inputs if name not in missing and not _is_empty(name)]
        named = options.platform
    else:
        found = revision(reference, options.inputs, options.platform)
        if count(found.problems, Severity.ERROR):
            raise InvalidSide(InvalidDocuments(found.problems, {}), "")
        sources, named, missing = found.sources, found.platform, found.missing
    if not sources:
        return None, missing
    result = compile(
        sources,
        platform=named,
        namespace=options.namespace,
        strict=options.strict,
        nodes=True,
        namespaces=True,
        job_names=job_names,
        tolerated=tolerated,
        cluster=options.cluster,
    )
    errors = {item.code for item in result.diagnostics if item.severity is Severity.ERROR} - tolerated
    if not result.documents and errors and errors <= {"GPU009", "GPU013"}:
        return None, missing
    if errors:
        side = f"at {visible(reference)}" if reference is not None else "on disk"
        raise InvalidSide(InvalidDocuments(result.diagnostics, result.sources), side)
    return result, missing


def _is_empty(name: str) -> bool:
    """Whether this is a directory without YAML."""
    return os.path.isdir(name) and not any(
        file.endswith(SUFFIXES) for _, _, files in os.walk(name) for file in files if not file.startswith(".")
    )

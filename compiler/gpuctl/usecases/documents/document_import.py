"""`import`: documents from the job descriptions of other tools, compiled before they are returned."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.compilation import Compilation, compile
from gpuctl.frontend.diagnostics import Diagnostic, Severity, SourceSpan
from gpuctl.frontend.document_checks import longest_name
from gpuctl.frontend.platform_loading import load_platform
from gpuctl.frontend.source import STDIN, Source, lines_of
from gpuctl.importing.draft import Draft
from gpuctl.importing.fields_from_options import check_nodes
from gpuctl.importing.import_values import Given, ImportFailure, Missing, Unreadable
from gpuctl.importing.line_ledger import LedgerEntry, Outcome, count_of, line_numbers
from gpuctl.importing.tools import find_importer
from gpuctl.language.names import shortened
from gpuctl.language.workload import Workload

_OF_PLATFORM = frozenset({"GPU244", "GPU423", "GPU429", "GPU443"})
"""Errors that settings of the platform mend: groups of nodes for a replica, allowed paths of nodes, JobSet for roles,
and spot nodes."""


class ImportedFile(NamedTuple):
    """The import of one file.

    ``documents``: their texts, [] if something is missing or wrong; a document that only needs settings of the
    platform is printed with that error. ``diagnostics`` are those of the documents, whose texts are in ``sources``.
    ``problem``: why the file cannot be imported.
    """

    file: str
    tool: str | None
    documents: Sequence[str]
    entries: Sequence[LedgerEntry] = ()
    missing: Sequence[Missing] = ()
    diagnostics: Sequence[Diagnostic] = ()
    sources: Mapping[str, Source] = MappingProxyType({})
    problem: ImportFailure | None = None

    @property
    def is_valid(self) -> bool:
        """True if there are documents without errors."""
        return bool(self.documents) and all(item.severity is not Severity.ERROR for item in self.diagnostics)

    @property
    def is_complete(self) -> bool:
        """True if there are documents without errors, and each line of the file is in them."""
        return self.is_valid and count_of(self.entries, Outcome.DROPPED) == 0


def import_file(source: Source, given: Given, tool: str | None, platform: str | None) -> ImportedFile:
    """Return the documents of a file. Nothing is written.

    :param tool: the tool that wrote it; None: it is detected.
    :param platform: the platform that the documents are checked with. Default: platform.yaml beside or above the file.
    """
    directory = Path(source.path).parent if source.path is not None and source.name != STDIN else None
    try:
        importer = find_importer(source, tool)
        found = load_platform(platform, versions=VERSIONS, directory=directory)
        imported = importer.run(source, given._replace(settings=found.settings))
        check_nodes(given, imported.drafts)
    except Unreadable as error:
        return ImportedFile(source.name, tool, [], problem=error.problem)
    if imported.missing:
        return ImportedFile(source.name, imported.tool, [], imported.entries, imported.missing)
    dropped = [entry for entry in imported.entries if entry.outcome is Outcome.DROPPED]
    if imported.drafts:
        imported.drafts[0].head += [_dropped_line(entry) for entry in dropped]
    documents = [draft.text() for draft in imported.drafts]
    name = "the imported document" if len(documents) == 1 else "the imported documents"
    # The file may be a pipe, which is read once. One that was found may be another tool's, and an error if it is named.
    read = list(found.sources.values()) if platform is not None or not found.settings.is_default else []
    settings = read[0] if read else platform
    result = compile(Source(name, "---\n".join(documents)), platform=settings, directory=directory, namespaces=True)
    if given.name is None and not given.names and (names := _shorter_names(result)):
        # Labels, selectors and the names of later jobs follow from the name.
        return import_file(source, given._replace(names=names), tool, platform)
    # Notes are about output for a cluster.
    diagnostics = [item for item in result.diagnostics if item.severity is not Severity.NOTE]
    sources = result.sources
    if any(item.severity is Severity.ERROR and item.code not in _OF_PLATFORM for item in diagnostics):
        # The documents are not printed, so that their lines mean nothing to the user.
        diagnostics = list(_in_file(diagnostics, name, imported.drafts, documents, source))
        sources, documents = {**sources, source.name: source}, []
    return ImportedFile(source.name, imported.tool, documents, imported.entries, (), diagnostics, sources)


def _in_file(
    diagnostics: Iterable[Diagnostic], name: str, drafts: Sequence[Draft], documents: Sequence[str], source: Source
) -> Iterator[Diagnostic]:
    """Yield diagnostics of documents, each at the first line of the file that its field comes from.

    :param name: the name of the documents in the diagnostics.
    """
    # Each document but the last has a separator behind it.
    ends = list(accumulate(document.count("\n") + 1 for document in documents))
    texts = lines_of(source.text)
    for item in diagnostics:
        found = None
        if item.span is not None and item.span.file == name:
            found = drafts[bisect_left(ends, item.span.line)].source_lines(item.path)
        if found is None:
            yield item
            continue
        line, text = found[0], texts[found[0] - 1]
        start = len(text) - len(text.lstrip()) + 1
        yield item._replace(span=SourceSpan(source.name, line, start, line, len(text.rstrip()) + 1), related=())


def _shorter_names(result: Compilation) -> dict[str, str]:
    """Return the names that are too long for the jobs that they name, each with the one in its place."""
    if all(item.code != "GPU217" for item in result.diagnostics):
        return {}
    limits = {
        document.written_name: longest_name(document, document.model, result.settings)[0]
        for document in result.documents
        if isinstance(document.model, Workload)
    }
    return {name: shortened(name, longest) for name, longest in limits.items() if len(name) > longest}


def _dropped_line(entry: LedgerEntry) -> str:
    lines = line_numbers(range(entry.line, entry.last_line + 1))
    return f"Dropped, {lines}: {entry.text}: {entry.note}"

"""The clusters that documents belong to, by their ``placement``."""

from __future__ import annotations

import io
import os
import sys
from dataclasses import replace

from gpuctl.apply.plan.plan_draft import title_of
from gpuctl.backend.schema_validation import VERSIONS
from gpuctl.frontend.directory_listing import MAX_BYTES
from gpuctl.frontend.loading import load_found
from gpuctl.frontend.source import Source, collect
from gpuctl.language.display_text import first_few
from gpuctl.usecases.documents.change_options import DocumentOptions, InvalidOptions

_NAMED = 4


class _ReadAgain(io.BytesIO):
    """Buffered standard input that every read starts from the beginning."""

    def read(self, size: int | None = -1) -> bytes:
        self.seek(0)
        return super().read(size)


def with_buffered_input(documents: DocumentOptions) -> DocumentOptions:
    """Return options with standard input buffered: it can be read only once, but is compiled for each cluster."""
    if "-" not in documents.sources:
        return documents
    return replace(documents, stdin=_ReadAgain((documents.stdin or sys.stdin.buffer).read(MAX_BYTES + 1)))


def _is_pipe(source: str | os.PathLike[str] | Source) -> bool:
    if isinstance(source, Source) or not os.path.exists(source):
        return False
    return not (os.path.isfile(source) or os.path.isdir(source))


def clusters_of_documents(documents: DocumentOptions) -> list[str]:
    """Return the clusters that documents name, in the platform's order; [] if no document has a placement.

    :raises InvalidOptions: only some documents have a placement.
    """
    # A pipe can be read only once; the compilation reports a missing placement in it.
    lasting = [source for source in documents.sources if source == "-" or not _is_pipe(source)]
    found = collect(lasting, documents.stdin)
    if not any("placement" in source.text.lower() for source in found.sources):
        return []
    loaded = load_found(
        found,
        platform=documents.platform,
        versions=VERSIONS,
        directory=documents.directory,
        variant=documents.variant,
    )
    named: dict[str, None] = {}
    without = []
    for document in loaded.documents:
        named.update(dict.fromkeys(document.clusters))
        if not document.clusters and document.kind != "platform":
            without.append(title_of(document))
    if named and without:
        raise InvalidOptions(
            f"some documents have a `placement` ({', '.join(named)}), others do not: "
            f"{first_few(without, _NAMED)}: name the clusters for those with --cluster, or add a `placement`"
        )
    known = list(loaded.settings.clusters)
    return sorted(named, key=lambda name: (known.index(name) if name in known else len(known), name))

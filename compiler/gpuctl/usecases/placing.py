"""On which clusters documents belong, by their ``placement``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuctl.usecases.change_options import InvalidOptions

if TYPE_CHECKING:
    from gpuctl.frontend.source import Source
    from gpuctl.usecases.change_options import DocumentOptions

_NAMED = 4


def with_texts(sources: Sequence[str | os.PathLike[str] | Source]) -> list[str | os.PathLike[str] | Source]:
    """The sources with standard input read: it can be read once, and is compiled for each cluster."""
    from gpuctl.frontend.source import STDIN, collect

    result: list[str | os.PathLike[str] | Source] = []
    for source in sources:
        texts = collect(["-"]).sources if source == "-" else []
        result.append(texts[0]._replace(name=STDIN) if texts else source)
    return result


def placed_on(documents: DocumentOptions) -> list[str]:
    """The clusters that the documents name, in the platform's order; none where no document has a placement.

    :raises InvalidOptions: some say where they belong and others do not.
    """
    from gpuctl.apply.plan.planner import title_of
    from gpuctl.backend.validation import VERSIONS
    from gpuctl.frontend.load import load_found
    from gpuctl.frontend.source import collect

    found = collect(documents.sources)
    if not any("placement" in source.text.lower() for source in found.sources):
        return []
    loaded = load_found(found, platform=documents.platform, versions=VERSIONS, directory=documents.directory)
    named: dict[str, None] = {}
    without = []
    for document in loaded.documents:
        placed = getattr(document.model, "placement", None)
        named.update(dict.fromkeys(placed.clusters if placed is not None else ()))
        if placed is None and document.kind != "platform":
            without.append(title_of(document))
    if named and without:
        shown = ", ".join(without[:_NAMED]) + (f" and {len(without) - _NAMED} more" if len(without) > _NAMED else "")
        raise InvalidOptions(
            f"some documents say on which clusters they belong ({', '.join(named)}), and others do not: {shown}: name "
            "the clusters for those with --cluster, or give them a `placement`"
        )
    known = list(loaded.settings.clusters)
    return sorted(named, key=lambda name: (known.index(name) if name in known else len(known), name))

"""What a compile is cut into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuctl.frontend.reader import split
from gpuctl.frontend.source import Source
from gpuctl.frontend.tree import Chunk


class Unit(NamedTuple):
    """A stretch of a source: one YAML document of several, or the whole of it."""

    chunk: Chunk
    whole: bool


def units(sources: Iterable[Source]) -> Iterator[Unit]:
    """The sources, cut where they are read piece by piece."""
    for source in sources:
        chunks = list(split(source))
        for chunk in chunks:
            yield Unit(chunk, len(chunks) == 1)

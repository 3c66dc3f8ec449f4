"""Sources of a build: named alike on every machine, and never the directory that is built."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuctl.frontend.source import STDIN, Source, collect


def source_names(inputs: Sequence[str]) -> Callable[[str], str]:
    """A function that names sources relative to the nearest directory that contains all inputs, with ``/``.

    Neither the current directory nor where a repository is checked out, nor how it was named, changes such a name.
    """
    paths = [os.path.abspath(name) for name in inputs if name != "-"]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in paths]
    root = os.path.commonpath(folders) if folders else os.getcwd()

    def name(source: str) -> str:
        return source if source == STDIN else Path(os.path.relpath(os.path.abspath(source), root)).as_posix()

    return name


def sources_outside(inputs: Sequence[str], directory: Path) -> Sequence[str | Source]:
    """The inputs without what stands in ``directory``: its manifests are a build's result, not its sources.

    Only where an input is a directory around it is there anything to leave out.
    """
    real = Path(os.path.realpath(directory))
    folders = [Path(os.path.realpath(name)) for name in inputs if name != "-" and os.path.isdir(name)]
    if "-" in inputs or not any(folder in real.parents for folder in folders):
        return inputs
    found = collect(inputs)
    outside = [source for source in found.sources if real not in Path(os.path.realpath(source.name)).parents]
    # What cannot be read, or that nothing is left, the compiler says better.
    return inputs if found.diagnostics or not outside else outside

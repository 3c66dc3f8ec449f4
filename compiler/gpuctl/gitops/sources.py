"""Sources of a build, named alike on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuctl.frontend.source import STDIN


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

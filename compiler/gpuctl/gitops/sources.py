"""Sources of a build, named alike on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import cache

from gpuctl.frontend.source import STDIN


def source_names(inputs: Sequence[str]) -> Callable[[str], str]:
    """A function that names sources relative to the nearest directory that contains all inputs, with ``/``.

    Neither the current directory nor where a repository is checked out, nor how it was named, changes such a name.
    """
    paths = [os.path.abspath(name) for name in inputs if name != "-"]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in paths]
    root = os.path.commonpath(folders) if folders else os.getcwd()

    inside = os.path.join(root, "")

    @cache
    def name(source: str) -> str:
        if source == STDIN:
            return source
        path = os.path.abspath(source)
        # POSIX keeps two leading slashes, and only `relpath` knows that they are one.
        is_inside = path.startswith(inside) and not path.startswith("//")
        return (path[len(inside) :] if is_inside else os.path.relpath(path, root)).replace(os.sep, "/")

    return name

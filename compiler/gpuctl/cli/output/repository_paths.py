"""File names for CI systems: relative to the root of the repository."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from gpuctl.frontend.work_tree import work_tree


def repository_path(file: str) -> str:
    """Return the path of a file relative to the root of its git repository, with ``/`` as separator.

    GitHub, GitLab and code scanning attach a result to a line of a pull request only by this path, in whatever
    directory the command runs. A file outside a repository, and a name that is not a file (``<stdin>``), are returned
    unchanged.
    """
    path = Path(os.path.abspath(file))
    if not path.exists():
        return file
    root = work_tree(path)
    return str(PurePosixPath(path.relative_to(root))) if root is not None else file

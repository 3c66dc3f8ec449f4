"""File names as CI systems want them: relative to the root of the repository."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath


def repository_path(file: str) -> str:
    """Return the path of a file relative to the root of its git repository, with ``/`` as separator.

    GitHub, GitLab and code scanning attach a result to a line of a pull request only under this path, wherever the
    command runs. A file outside of every repository, and a name that is no file (``<stdin>``), keep their name.
    """
    path = Path(os.path.abspath(file))
    if not path.exists():
        return file
    root = next((parent for parent in path.parents if (parent / ".git").exists()), None)
    return str(PurePosixPath(path.relative_to(root))) if root is not None else file

"""The git work tree around a path."""

from __future__ import annotations

import os
from pathlib import Path


def work_tree(path: Path) -> Path | None:
    """Return the root of the git work tree around a path: the nearest directory with a directory or file ``.git``.

    As in git, a broken link ``.git`` makes none.
    """
    return next((folder for folder in (path, *path.parents) if os.path.exists(folder / ".git")), None)

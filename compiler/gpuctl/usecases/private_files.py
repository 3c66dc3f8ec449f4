"""Write files that only their owner may read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_privately(path: Path, text: str) -> None:
    """Replace or create a file with mode 0600, atomically.

    :raises OSError: the file cannot be written; the old content stays.
    """
    # mkstemp creates the file with mode 0600.
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise

"""Files that only their owner may read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_privately(path: Path, text: str) -> None:
    """Replace a file, or make it, with mode 0600: whole or not at all.

    :raises OSError: it cannot be written; what was there stays.
    """
    # Made with 0600.
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

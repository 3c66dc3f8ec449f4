"""What a compile rests on beside its input: gpuctl itself and the libraries that read and check for it.

In a checkout the files change under one version, so their sizes and times count as well.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache

from gpuctl.release import __version__

_ROOMS = ("language", "frontend", "backend", "incremental")
_LIBRARIES = ("pydantic", "pyyaml", "jsonschema_rs")


@cache
def fingerprint() -> str:
    """A digest that differs when another gpuctl, or another version of its libraries, might say something else."""
    facts: list[object] = [__version__, sys.version_info[:3], _libraries()]
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (package, *(os.path.join(package, room) for room in _ROOMS)):
        # The last change of an inode cannot be set back, as the time of a file's content can.
        facts += sorted(
            (path[len(package) :], at.st_size, at.st_mtime_ns, at.st_ctime_ns)
            for path, at in _files(folder, deeply=folder != package)
        )
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def _files(folder: str, *, deeply: bool) -> Iterator[tuple[str, os.stat_result]]:
    """What is run or read of a room, with what is told of it; ``deeply``: of the folders in it, too."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".json")):
                yield entry.path, entry.stat()
            elif deeply and entry.is_dir() and entry.name != "__pycache__":
                yield from _files(entry.path, deeply=True)


def _libraries() -> list[str]:
    """The directories in which installers write down the name and version of a library."""
    found = set()
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and name.lower().startswith(_LIBRARIES):
                found.add(name)
    return sorted(found)

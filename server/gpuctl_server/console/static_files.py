"""The files of the web console, compressed once. Their path has a digest of all of them, so that browsers keep them."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILES = Path(__file__).parent / "files"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
PAGE = "index.html"
_DIGEST = "{digest}"
"""Place in the page for the digest."""


class StaticFile(NamedTuple):
    """A file: media type, content, compressed content, and entity tag without quotes."""

    media_type: str
    content: bytes
    compressed: bytes
    tag: str


class StaticFiles(NamedTuple):
    """All files by their path; ``digest`` changes with any of them."""

    digest: str
    files: dict[str, StaticFile]


@cache
def static_files() -> StaticFiles:
    """Return the files. They are read and compressed at the first request."""
    found = {
        path.relative_to(_FILES).as_posix(): path.read_bytes()
        for path in sorted(_FILES.rglob("*"))
        if path.suffix in _TYPES
    }
    every = hashlib.sha256()
    for name, content in found.items():
        every.update(f"{name}\0{len(content)}\0".encode() + content)
    digest = every.hexdigest()[:16]
    found[PAGE] = found[PAGE].replace(_DIGEST.encode(), digest.encode())
    return StaticFiles(digest, {name: _file(name, content) for name, content in found.items()})


def _file(name: str, content: bytes) -> StaticFile:
    # The time is not part of the compressed file: replicas must agree.
    compressed = gzip.compress(content, mtime=0)
    return StaticFile(_TYPES[Path(name).suffix], content, compressed, hashlib.sha256(content).hexdigest()[:20])

"""The directory in which compiles leave what the next one can use: ``$XDG_CACHE_HOME/gpuctl/compile``.

A file a command line, and a small one beside it of what was changed since, written aside and renamed into place, so
that any number of processes may read and write. A file is used only when directory and file are this user's own and
nobody else may write to them, and when its digest is right; anything else is as good as no file. Nothing here is ever
an error: without a cache a compile takes longer, and that is all.

What is read is JSON and text. A digest tells of damage, not of malice: whoever can write to the directory is this user
and could as well replace gpuctl.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

OFF = "GPUCTL_NO_CACHE"
"""The variable that switches the cache off."""
LARGEST = 256 * 2**20
"""Bytes of a file that is written or read."""
MOST_BYTES = 512 * 2**20
MOST_FILES = 256
"""What the directory may hold; the files that were not used for longest go first, until three quarters are left."""
_DAY = 86400.0
_MAGIC = b"gpuctl-compile 2 "
_HEAD = len(_MAGIC) + 64 + 1
_TEMPORARY = ".tmp-"


class Kept(NamedTuple):
    """What was kept, and its digest, by which another file can say that it belongs to this one."""

    digest: str
    body: bytes


class Store:
    """The directory, made when something is first written."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def read(self, name: str) -> Kept | None:
        """What was last written under a name; None where that is nothing, damaged, or not this user's own."""
        try:
            with self._opened() as folder:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
                with open(descriptor, "rb", buffering=0) as stream:
                    found = os.fstat(descriptor)
                    if not stat.S_ISREG(found.st_mode) or not _is_own(found) or found.st_size > LARGEST:
                        return None
                    # The head by itself: what follows it is large, and so in no need of being copied.
                    head = stream.read(_HEAD)
                    body = stream.readall()
                if time.time() - found.st_mtime > _DAY:
                    os.utime(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None
        digest = _digest(body)
        return Kept(digest, body) if head == _head(digest) else None

    def write(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        """Keep the parts, one after the other, under a name, for as long as there is room."""
        size = sum(map(len, parts))
        if size > LARGEST - 1024:
            return
        temporary = f"{_TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        try:
            os.makedirs(self.directory, mode=0o700, exist_ok=True)
            with self._opened() as folder:
                try:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                    with open(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as stream:
                        stream.write(_head(_digest(*parts)))
                        stream.writelines(parts)
                    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                finally:
                    with contextlib.suppress(OSError):
                        os.unlink(temporary, dir_fd=folder)
                _tidy(folder)
        except OSError:
            return

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The directory itself, whatever its name may lead to later. :raises OSError: it is not to be trusted."""
        folder = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if not _is_own(os.fstat(folder)):
                raise PermissionError
            yield folder
        finally:
            os.close(folder)


def user_store() -> Store | None:
    """The store of this user; None where it is switched off, or there is no place for it."""
    if os.environ.get(OFF, "") not in ("", "0") or not hasattr(os, "geteuid"):
        return None
    # A relative path is to be taken for none (XDG Base Directory Specification).
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            return None
        base = str(Path(home, ".cache"))
    return Store(os.path.join(base, "gpuctl", "compile"))


def _digest(*parts: bytes | memoryview) -> str:
    # Most processors have instructions for this one: of a large entry it takes less than half as long as others.
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _head(digest: str) -> bytes:
    return _MAGIC + digest.encode() + b"\n"


def _is_own(found: os.stat_result) -> bool:
    """Whether something is this user's, and nobody else can read or write it."""
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _tidy(folder: int) -> None:
    """Remove what is too much, and what writers that were killed have left."""
    now = time.time()
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if not entry.name.startswith(_TEMPORARY):
                files.append((found.st_mtime, found.st_size, entry.name))
            elif now - found.st_mtime > _DAY:
                os.unlink(entry.name, dir_fd=folder)
    size = sum(each for _, each, _ in files)
    if size <= MOST_BYTES and len(files) <= MOST_FILES:
        return
    left = len(files)
    for _, each, name in sorted(files):
        if size <= MOST_BYTES * 3 // 4 and left <= MOST_FILES * 3 // 4:
            return
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        size, left = size - each, left - 1

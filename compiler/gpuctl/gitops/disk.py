"""Writing that survives a power failure, and the directory in which a build prepares what it swaps in."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuctl.gitops.build_error import BuildError, shown

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STAYS = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY})
_IGNORE = ".gitignore"


def write_new(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, down to the disk."""
    descriptor = os.open(path, _NEW, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Bring a directory's entries down to the disk. Some file systems have no such thing; then nothing is lost."""
    descriptor = os.open(path, _FOLDER)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_empty(tree: Path, folders: Iterable[str]) -> None:
    """Remove those of the directories in a tree in which nothing is left."""
    for folder in folders:
        try:
            os.rmdir(tree / folder)
        except OSError as error:
            if error.errno not in _STAYS:
                raise


@contextlib.contextmanager
def workshop(path: Path, built: Path) -> Iterator[Path]:
    """A directory of ours to prepare in, held by one process at a time; what a killed build left is still in it.

    git does not see it. It is removed at the end if it is empty. The lock ends with the process, however that ends.
    ``built`` is the directory that is built, for messages.
    """
    descriptor = _lock(path, built)
    try:
        ignore = path / _IGNORE
        if not os.path.lexists(ignore):
            write_new(ignore, b"*\n")
        yield path
    finally:
        with contextlib.suppress(OSError):
            if os.listdir(path) == [_IGNORE]:
                os.unlink(path / _IGNORE)
            os.rmdir(path)
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _lock(path: Path, built: Path) -> int:
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        try:
            descriptor = os.open(path, _FOLDER)
        except FileNotFoundError:
            continue  # The build that had it has just removed it.
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.stat(path).st_ino == os.fstat(descriptor).st_ino:
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            message = f"another `gpuctl build` is writing `{shown(built)}`: run this one when that has ended"
            raise BuildError(message) from None
        except FileNotFoundError:
            pass
        os.close(descriptor)

"""Durable file writes, and the lock and the staging directory of a build."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuctl.gitops.build_error import BuildError, relative_path

STAGING = ".gpuctl-build"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_STAYS = frozenset({errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.EBUSY})
_IGNORE = ".gitignore"
_PREPARED = re.compile(r"new-[0-9]+\Z")


def write_new(path: Path, data: bytes) -> None:
    """Create a file and sync it to the disk."""
    descriptor = os.open(path, _NEW, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Sync the entries of a directory to the disk, if the file system supports that."""
    descriptor = os.open(path, _FOLDER)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_empty(tree: Path, folders: Iterable[str]) -> None:
    """Remove those directories of a tree that are empty."""
    for folder in folders:
        try:
            os.rmdir(tree / folder)
        except OSError as error:
            if error.errno not in _STAYS:
                raise


@contextlib.contextmanager
def locked_staging(directory: Path) -> Iterator[Path]:
    """Lock a directory for one build, and yield a staging directory inside it.

    git ignores the staging directory, and kubectl -R reads none of its files, because no name ends in ``.yaml``. Files
    left by a killed build are removed first; at the end the directory itself. The lock ends with the process.

    :raises BuildError: another process has the lock.
    """
    descriptor = os.open(directory, _FOLDER)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = (
                f"another `gpuctl build` is writing `{relative_path(directory)}`: run this one when that has ended"
            )
            raise BuildError(message) from None
        staging = directory / STAGING
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(staging, 0o700)
            if not os.path.lexists(staging / _IGNORE):
                write_new(staging / _IGNORE, b"*\n")
            _empty(staging)
            yield staging
        finally:
            # The next build removes what cannot be removed now.
            with contextlib.suppress(OSError):
                _empty(staging)
                if os.listdir(staging) == [_IGNORE]:
                    os.unlink(staging / _IGNORE)
                    os.rmdir(staging)
    finally:
        with contextlib.suppress(OSError):
            os.close(descriptor)


def _empty(staging: Path) -> None:
    for name in os.listdir(staging):
        if _PREPARED.match(name):
            os.unlink(staging / name)

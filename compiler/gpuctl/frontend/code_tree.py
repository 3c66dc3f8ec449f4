"""The files around a source: those of its repository on disk, from which ``code.local`` takes a directory."""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from gpuctl.frontend.directory_listing import NotAFile, read_bytes
from gpuctl.frontend.work_tree import work_tree

EntryKind = Literal["file", "directory", "link", "other"]
MOST_LINKS = 40
"""Number of links that are followed. Linux reports a loop behind it."""


class TreeEntry(NamedTuple):
    """An entry of a directory."""

    name: str
    kind: EntryKind
    is_executable: bool = False


class CodeTree(Protocol):
    """The files of a repository. Paths are relative to its root, with `/`; the root is "".

    ``cache``: results by directory; the documents of one source share them.
    """

    cache: dict[Any, Any]

    @property
    def file(self) -> str:
        """Path of the source."""

    def real_path(self, path: str) -> str | None:
        """Return a path with the targets of its links; None if it leaves the repository.

        Relative links are followed: absolute ones lead elsewhere on another machine.
        """

    def entries(self, directory: str) -> list[TreeEntry] | None:
        """Return the entries of a directory, in any order; None if it is not a directory of the repository.

        :param directory: a path without links.
        :raises OSError: it cannot be read.
        """

    def sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Return path -> size of files and links, bytes.

        :raises OSError: one cannot be read.
        """

    def read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return path -> content of files, and the targets of links.

        :raises OSError: one cannot be read.
        """


class DiskTree:
    """The files around a file on disk. The root is the enclosing git repository, else the directory of the file."""

    def __init__(self, path: str) -> None:
        self._source = path
        self.cache: dict[Any, Any] = {}

    # Most documents do not need these, which read directories.
    @cached_property
    def _folder(self) -> str:
        return os.path.realpath(os.path.dirname(self._source) or ".")

    @cached_property
    def _root(self) -> str:
        return repository_of(self._folder)

    @cached_property
    def file(self) -> str:
        """Path of the source, relative to the root."""
        path = os.path.relpath(os.path.join(self._folder, os.path.basename(self._source)), self._root)
        return path.replace(os.sep, "/")

    def real_path(self, path: str) -> str | None:
        """Return a path with the targets of its links; None if it leaves the repository."""
        return without_links(path, self._target)

    def entries(self, directory: str) -> list[TreeEntry] | None:
        """Return the entries of a directory of the repository."""
        path = self._path(directory)
        if not os.path.isdir(path):
            return None
        with os.scandir(path) as found:
            return [_entry(item) for item in found]

    def _target(self, path: str) -> str | None:
        whole = self._path(path)
        return os.readlink(whole).replace(os.sep, "/") if os.path.islink(whole) else None

    def sizes(self, paths: Sequence[str]) -> dict[str, int]:
        """Return path -> size of files and links, bytes."""
        return {path: os.lstat(self._path(path)).st_size for path in paths}

    def read_all(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return path -> content of files, and the targets of links."""
        return {path: self._read(self._path(path)) for path in paths}

    def _read(self, path: str) -> bytes:
        if os.path.islink(path):
            return os.fsencode(os.readlink(path))
        try:
            return read_bytes(path, any_kind=False, most=2**40)
        except NotAFile as error:
            raise OSError(str(error)) from None

    def _path(self, path: str) -> str:
        return os.path.join(self._root, *path.split("/")) if path else self._root


def without_links(path: str, target_of: Callable[[str], str | None]) -> str | None:
    """Return a path with the targets of its links; None if it leaves the repository, or the links form a loop.

    :param target_of: returns the target of a link; None for other paths.
    """
    done, left = "", path.split("/")[::-1] if path else []
    links = 0
    while left:
        part = left.pop()
        if part == ".." and not done:
            return None
        here = posixpath.normpath(posixpath.join(done, part))
        target = target_of(here)
        if target is None:
            done = "" if here == "." else here
            continue
        links += 1
        if links > MOST_LINKS or target.startswith("/"):
            return None
        left += target.split("/")[::-1]
    return done


def repository_of(start: str) -> str:
    """Return the root of the git repository around a directory, else the directory itself."""
    return str(work_tree(Path(start)) or start)


def _entry(item: os.DirEntry[str]) -> TreeEntry:
    if item.is_symlink():
        return TreeEntry(item.name, "link")
    if item.is_dir():
        return TreeEntry(item.name, "directory")
    found = item.stat(follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        return TreeEntry(item.name, "other")
    return TreeEntry(item.name, "file", bool(found.st_mode & stat.S_IXUSR))

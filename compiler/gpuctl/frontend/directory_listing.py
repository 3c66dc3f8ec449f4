"""The files below a directory: which are read, and which are not although they could hold a document.

A document that is not read does not exist for a build or a prune, which remove what documents no longer yield. So
nothing that may hold one is passed over in silence.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import NamedTuple

from gpuctl.language.kinds import ALIASES, KINDS

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 8 * 2**20
_FIRST_BYTES = 2**18
"""What is looked at of a file that is not read: a document says near its beginning what it is."""

# Compiled by the first file that they are asked of, as there often is none.
_LIKE_YAML = r"(?i)\.(ya?ml|json)"
_DOCUMENT = rf"(?mi)^[ \t{{,]*[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?({'|'.join([*KINDS, *ALIASES])})\b".encode()
# Directories of tools: thousands of files, and none is anybody's document.
_OF_TOOLS = frozenset({".git", ".hg", ".svn", ".tox", ".venv", ".terraform", "node_modules"})
_SUBMODULE = r"(?m)^[ \t]*path[ \t]*=[ \t]*(.*?)[ \t]*$"


class Unread(NamedTuple):
    """A path that is not read, why, and what to do about it."""

    path: str
    reason: str
    hint: str


class NotAFile(Exception):
    """What stands at a path is no file; ``args[0]`` says what it is."""


class Listing(NamedTuple):
    """What is below a directory: the files to read, in the order of their parts, and what is not read.

    ``files`` are path -> real path: to ask the system for thousands of those takes longer than to read the files.
    """

    files: dict[str, str]
    unread: list[Unread]
    errors: list[tuple[str, OSError]]


def list_directory(directory: str, without: str | None = None) -> Listing:
    """List what is below a directory.

    Read are ``*.yaml`` and ``*.yml``, but no hidden ones. Links to directories are not followed. ``without`` is the
    real path of a directory whose files are passed over.
    """
    walker = _DirectoryWalker(without)
    walker.walk(directory)
    walker.settle()
    files = dict(sorted(walker.files.items(), key=lambda file: file[0].split(os.sep)))
    return Listing(files, walker.unread, walker.errors)


def read_bytes(path: str, *, any_kind: bool, most: int = MAX_BYTES + 1) -> bytes:
    """The first bytes of a file: by default one more than a source may have.

    ``any_kind`` reads pipes and devices too, which may wait for who writes to them.

    :raises OSError: it cannot be read.
    :raises NotAFile: it is no file.
    """
    # Opening a pipe waits for its writer, so what is no file is found out without waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if any_kind else os.O_NONBLOCK))
    try:
        found = os.fstat(descriptor)
        mode = found.st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode) and (not any_kind or stat.S_ISBLK(mode)):
            raise NotAFile(file_type(mode))
        return _read(descriptor, found.st_size, most)
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, most: int) -> bytes:
    """At most so many bytes. A buffer of the size that a file is said to have, because one of the size that it may
    have takes longer to get than a file to read; what is said need not be so.
    """
    parts = []
    while most > 0:
        part = os.read(descriptor, min(most, max(size + 1, 2**16)))
        if not part:
            break
        parts.append(part)
        most -= len(part)
        if len(part) == size and len(parts) == 1:
            # Less than was asked for, and all that there should be: the end, and nothing is asked once more.
            break
    return parts[0] if len(parts) == 1 else b"".join(parts)


def file_type(mode: int) -> str:
    """What stands at a path that is no file and no directory."""
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


class _DirectoryWalker:
    def __init__(self, without: str | None) -> None:
        self.without = without
        self.files: dict[str, str] = {}
        self.unread: list[Unread] = []
        self.errors: list[tuple[str, OSError]] = []
        self.real_folders: set[str] = set()
        self.links: list[str] = []
        self.others: list[tuple[str, bool]] = []

    def walk(self, directory: str) -> None:
        """Look at every entry. Without recursion: directories may be nested deeper than Python's stack."""
        folders = [(directory, os.path.realpath(directory), False)]
        while folders:
            folder, real, hidden = folders.pop()
            self.real_folders.add(real)
            try:
                with os.scandir(folder) as entries:
                    found = list(entries)
            except OSError as error:
                if not hidden:
                    self.errors.append((folder, error))
                continue
            if not found and folder != directory and not hidden and _is_submodule(real):
                hint = "check it out with `git submodule update --init`"
                self.unread.append(Unread(folder, "is a submodule that is not checked out", hint))
            inside, really_inside = os.path.join(folder, ""), os.path.join(real, "")
            for entry in found:
                below = really_inside + entry.name
                concealed = hidden or entry.name.startswith(".")
                if not entry.is_dir(follow_symlinks=False):
                    self._file(inside + entry.name, below, entry, concealed)
                elif entry.name not in _OF_TOOLS and below != self.without:
                    folders.append((inside + entry.name, below, concealed))

    def _file(self, path: str, below: str, entry: os.DirEntry[str], hidden: bool) -> None:
        named = entry.name.endswith(SUFFIXES)
        if entry.is_symlink() and os.path.isdir(path):
            if not hidden:
                self.links.append(path)
        elif named and not hidden:
            self.files[path] = os.path.realpath(path) if entry.is_symlink() else below
        elif re.search(_LIKE_YAML, entry.name):
            self.others.append((path, named))
        elif not hidden and entry.is_symlink() and not os.path.exists(path):
            reason, hint = "is a link that leads nowhere", "mend or remove it: it may have led to a directory"
            self.unread.append(Unread(path, reason, hint))

    def settle(self) -> None:
        """Judge links and files of other names, now that all that is read is known."""
        read = set(self.files.values())
        for path in self.links:
            real = os.path.realpath(path)
            if real not in self.real_folders and not self._is_left_out(real):
                reason = "is a link to a directory, which is not followed"
                self.unread.append(Unread(path, reason, f"name it too, if its documents belong here: `-f {path}`"))
        for path, named in self.others:
            if os.path.realpath(path) not in read and _holds_document(path):
                reason = "holds a document and is hidden" if named else "holds a document and does not end in .yaml"
                self.unread.append(
                    Unread(path, f"{reason}, so it is not read", "rename it, name it itself, or remove it")
                )

    def _is_left_out(self, real: str) -> bool:
        return self.without is not None and os.path.join(real, "").startswith(os.path.join(self.without, ""))


def _holds_document(path: str) -> bool:
    """Whether a file that is not read looks as if it held a document of ours."""
    try:
        data = read_bytes(path, any_kind=False, most=_FIRST_BYTES)
    except (OSError, NotAFile):
        return False
    return re.search(_DOCUMENT, data.removeprefix(b"\xef\xbb\xbf")) is not None


def _is_submodule(real: str) -> bool:
    """Whether an empty directory is one that git has yet to fill."""
    folder = os.path.dirname(real)
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return False
        folder = os.path.dirname(folder)
    try:
        with open(os.path.join(folder, ".gitmodules"), encoding="utf-8", errors="replace") as stream:
            paths = re.findall(_SUBMODULE, stream.read(MAX_BYTES))
    except OSError:
        return False
    return os.path.relpath(real, folder).replace(os.sep, "/") in paths

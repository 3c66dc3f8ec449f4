"""Lists the files below a directory: those to read, and skipped ones that could contain a document.

For a build or a prune, a document that is not read does not exist, and its objects are removed. So every skipped file
that may contain one is reported.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from gpuctl.frontend.work_tree import work_tree
from gpuctl.language.kinds import ALIASES, KINDS
from gpuctl.language.sentences import Sentence, Template, say

SUFFIXES = (".yaml", ".yml")
MAX_BYTES = 8 * 2**20
_FIRST_BYTES = 2**18
"""Bytes that are read of a skipped file: a document has its kind near the beginning."""

# Compiled on first use, because few directories contain such files.
_LIKE_YAML = r"(?i)\.(ya?ml|json)"
_DOCUMENT = rf"(?mi)^[ \t{{,]*[\"']?kind[\"']?[ \t]*:[ \t]*[\"']?({'|'.join([*KINDS, *ALIASES])})\b".encode()
# Directories of tools: thousands of files without user documents.
_TOOL_DIRECTORIES = frozenset({".git", ".hg", ".svn", ".tox", ".venv", ".terraform", "node_modules"})
_SUBMODULE = r"(?m)^[ \t]*path[ \t]*=[ \t]*(.*?)[ \t]*$"


class Unread(NamedTuple):
    """A path that is not read, the template of the message about it, and the remedy."""

    path: str
    problem: Template
    hint: Sentence


class NotAFile(Exception):
    """A path is not a regular file."""

    def __init__(self, type: Template) -> None:
        super().__init__(type)
        self.type = type


class Listing(NamedTuple):
    """The content of a directory: the files to read, sorted by path components, and the skipped ones.

    ``files``: path -> real path. Resolving thousands of real paths later would take longer than reading the files.
    """

    files: dict[str, str]
    unread: list[Unread]
    errors: list[tuple[str, OSError]]


def list_directory(directory: str, without: str | None = None) -> Listing:
    """List the files below a directory.

    Those to read are ``*.yaml`` and ``*.yml`` that are not hidden. Links to directories are not followed.

    :param without: real path of a directory to skip.
    """
    walker = _DirectoryWalker(without)
    walker.walk(directory)
    walker.classify_rest()
    files = dict(sorted(walker.files.items(), key=lambda file: file[0].split(os.sep)))
    return Listing(files, walker.unread, walker.errors)


def read_bytes(path: str, *, any_kind: bool, most: int = MAX_BYTES + 1) -> bytes:
    """Return the first bytes of a file, by default one more than the limit of a source.

    :param any_kind: read pipes and devices too, which may block until a writer appears.
    :raises OSError: it cannot be read.
    :raises NotAFile: it is not a file.
    """
    # Opening a pipe blocks until it has a writer, so the type is checked on a non-blocking descriptor.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | (0 if any_kind else os.O_NONBLOCK))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode) and (not any_kind or stat.S_ISBLK(mode)):
            raise NotAFile(file_type(mode))
        return _read(descriptor, most)
    finally:
        os.close(descriptor)


def _read(descriptor: int, most: int) -> bytes:
    """Return at most ``most`` bytes."""
    parts = []
    while most > 0 and (part := os.read(descriptor, min(most, 2**16))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def is_stream(path: Path) -> bool:
    """Return True for a pipe or a device: its path does not identify the source of its text."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def file_type(mode: int) -> Template:
    """Return the type of a path that is neither a file nor a directory."""
    if stat.S_ISFIFO(mode):
        return Template("a named pipe")
    return Template("a socket") if stat.S_ISSOCK(mode) else Template("a device")


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
        """Visit every entry. Iterative, because directories may be nested deeper than Python's stack."""
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
                hint = say("check it out with `git submodule update --init`")
                self.unread.append(Unread(folder, Template("`{name}` is a submodule that is not checked out"), hint))
            inside, really_inside = os.path.join(folder, ""), os.path.join(real, "")
            for entry in found:
                below = really_inside + entry.name
                concealed = hidden or entry.name.startswith(".")
                if not entry.is_dir(follow_symlinks=False):
                    self._file(inside + entry.name, below, entry, concealed)
                elif entry.name not in _TOOL_DIRECTORIES and below != self.without:
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
            hint = say("fix or remove it: it may have led to a directory")
            self.unread.append(Unread(path, Template("`{name}` is a broken link"), hint))

    def classify_rest(self) -> None:
        """Decide about links and files with other names, after all files to read are known."""
        read = set(self.files.values())
        for path in self.links:
            real = os.path.realpath(path)
            if real not in self.real_folders and not self._is_excluded(real):
                problem = Template("`{name}` is a link to a directory, which is not followed")
                hint = say("name it too, if its documents belong here: `-f {path}`", path=path)
                self.unread.append(Unread(path, problem, hint))
        for path, named in self.others:
            if os.path.realpath(path) not in read and _holds_document(path):
                problem = Template("`{name}` holds a document and does not end in .yaml, so it is not read")
                if named:
                    problem = Template("`{name}` holds a document and is hidden, so it is not read")
                self.unread.append(Unread(path, problem, say("rename it, name it directly, or remove it")))

    def _is_excluded(self, real: str) -> bool:
        return self.without is not None and os.path.join(real, "").startswith(os.path.join(self.without, ""))


def _holds_document(path: str) -> bool:
    """Return True if the start of a skipped file looks like a gpuctl document."""
    try:
        data = read_bytes(path, any_kind=False, most=_FIRST_BYTES)
    except (OSError, NotAFile):
        return False
    return re.search(_DOCUMENT, data.removeprefix(b"\xef\xbb\xbf")) is not None


def _is_submodule(real: str) -> bool:
    """Return True if an empty directory is a submodule that is not checked out."""
    folder = work_tree(Path(real).parent)
    if folder is None:
        return False
    try:
        with open(folder / ".gitmodules", encoding="utf-8", errors="replace") as stream:
            paths = re.findall(_SUBMODULE, stream.read(MAX_BYTES))
    except OSError:
        return False
    return os.path.relpath(real, folder).replace(os.sep, "/") in paths

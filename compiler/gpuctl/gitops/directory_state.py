"""What a directory holds now, against what it should hold: looks, and changes nothing."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gpuctl.gitops.build_error import BuildError, shown
from gpuctl.gitops.comparison import FileChange, compare
from gpuctl.gitops.manifest import MANIFEST, Owned, digest, parse_manifest
from gpuctl.gitops.sources import BuildSource

_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
"""How a plain file is opened: a link or a pipe that took its place meanwhile is neither followed nor waited for."""


class Signature(NamedTuple):
    """What tells whether a file is still the one that was looked at."""

    inode: int
    changed: int
    size: int


@dataclass
class DirectoryState:
    """What a build finds.

    ``present`` are the contents of the files that are ours or should be; ``edited`` those of them that somebody
    changed by hand since the last build; ``problems`` what forbids building, ``--force`` or not. ``signatures`` tell
    what was seen at the paths that a build replaces or removes. ``stale_folders`` lose files of ours: they go too
    when nothing else is in them. ``sources`` are those of the last build.
    """

    directory: Path
    exists: bool = False
    present: dict[str, bytes] = field(default_factory=dict)
    wanted: dict[str, bytes] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)
    stale_folders: list[str] = field(default_factory=list)
    sources: tuple[BuildSource, ...] = ()

    @property
    def changes(self) -> list[FileChange]:
        """What a build would do, sorted by path; the manifest is among it."""
        return compare(self.present, self.wanted)

    def verify(self) -> None:
        """Raise when a file that a build replaces or removes is no longer the one that was looked at."""
        for change in self.changes:
            if signature(self.directory / change.path) != self.signatures.get(change.path):
                name = shown(self.directory / change.path)
                raise BuildError(f"`{name}` was changed during the build: run it again")


def signature(path: Path) -> Signature | None:
    """The signature of what stands at a path, links not followed; None where nothing does."""
    try:
        return _signature(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _signature(path: Path) -> Signature:
    return _signed(path.lstat())


def _signed(found: os.stat_result) -> Signature:
    return Signature(found.st_ino, found.st_mtime_ns, found.st_size)


def look(directory: Path, wanted: Mapping[str, bytes]) -> DirectoryState:
    """Compare a directory with the files that it should hold, the manifest among them.

    Links are never followed: a file that is written through one is outside of the directory.

    :raises BuildError: when the directory or its manifest is not what a build can work with.
    """
    survey = DirectoryState(directory, wanted=dict(wanted))
    mode = _mode(directory)
    if mode is None:
        return survey
    name = shown(directory)
    if stat.S_ISLNK(mode):
        raise BuildError(f"`{name}` is a symbolic link: name the directory that it leads to")
    if not stat.S_ISDIR(mode):
        raise BuildError(f"`{name}` is not a directory: name another one, or move the file away")
    survey.exists = True
    owned = _owned(directory, survey)
    survey.stale_folders = sorted({path.rpartition("/")[0] for path in owned.keys() - wanted.keys()} - {""})
    folders: dict[str, str | None] = {}
    for path in sorted({*wanted, *owned}):
        folder = path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = _not_a_folder(directory / folder)
            if folders[folder] is not None and any(other.startswith(f"{folder}/") for other in wanted):
                survey.problems.append(f"`{shown(directory / folder)}` {folders[folder]}")
        if folders[folder] is None and path != MANIFEST:
            _look_at(survey, path, f"{directory}/{path}", owned)
    return survey


def read_plain(path: Path) -> bytes:
    """Return what a file holds; nothing if there is no plain file.

    :raises BuildError: the file cannot be read.
    """
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    except OSError as error:
        raise BuildError(f"cannot read `{shown(path)}`: {(error.strerror or str(error)).lower()}") from None


def owned_paths(directory: Path, beginning: str) -> set[str]:
    """The paths with this beginning that the manifest of a directory names and that are there.

    :raises BuildError: the manifest is damaged, or cannot be read.
    """
    path = directory / MANIFEST
    data = read_plain(path)
    # Few of thousands of lines name such a path, which only an escape could hide; whoever builds looks at all of them.
    word = beginning.encode()
    lines = (line if word in line or b"\\" in line else b"" for line in data.split(b"\n"))
    owned = parse_manifest(b"\n".join(lines), str(path))
    return {name for name in owned if name.startswith(beginning) and (directory / name).is_file()}


def unwritable(survey: DirectoryState) -> list[str]:
    """The directories that a build would change and may not.

    One that nobody may write to counts also for root, whom the kernel would let: somebody has made it read-only.
    """
    folders = {survey.directory} if survey.exists else set()
    for change in survey.changes:
        folder = (survey.directory / change.path).parent
        if folder.is_dir():
            folders.add(folder)
    return [
        f"directory `{shown(folder)}` is read-only: make it writable, or name another directory with -o"
        for folder in sorted(folders)
        if not os.access(folder, os.W_OK | os.X_OK) or not folder.stat().st_mode & 0o222
    ]


def _mode(path: Path) -> int | None:
    try:
        return path.lstat().st_mode
    except FileNotFoundError:
        return None


def _owned(directory: Path, survey: DirectoryState) -> Owned:
    path = directory / MANIFEST
    mode = _mode(path)
    if mode is None:
        return {}
    if not stat.S_ISREG(mode):
        raise BuildError(f"`{shown(path)}` is not a plain file: restore it from git, or delete it")
    survey.signatures[MANIFEST], data = _read(str(path))
    survey.present[MANIFEST] = data
    if data == survey.wanted.get(MANIFEST):
        # It has the hashes of what is wanted, which no other content has: whatever differs from that was edited.
        return dict.fromkeys(survey.wanted.keys() - {MANIFEST}, frozenset())
    return parse_manifest(data, str(path))


def _not_a_folder(path: Path) -> str | None:
    """Why files cannot be below a path, as the rest of a sentence; None where there is a directory, or nothing."""
    mode = _mode(path)
    if mode is None or stat.S_ISDIR(mode):
        return None
    if stat.S_ISLNK(mode):
        return "is a symbolic link, and gpuctl writes through none: remove it, or build elsewhere"
    return "is not a directory, and gpuctl needs one there: move it away, or build elsewhere"


def _look_at(survey: DirectoryState, path: str, full: str, owned: Owned) -> None:
    """Look at one file, which stands at ``full``. There are thousands, so a path is text here."""
    try:
        found = os.lstat(full)
    except FileNotFoundError:
        return
    mode = found.st_mode
    if stat.S_ISDIR(mode):
        if path in survey.wanted:
            survey.problems.append(f"`{shown(full)}` is a directory, and gpuctl needs a file there: move it away")
        return
    plain = stat.S_ISREG(mode)
    if plain:
        signed, data = _read(full)
    else:
        signed, data = _signed(found), os.fsencode(f"not a plain file: {_kind(full, mode)}\n")
    # Not by the hash that the manifest has of it, nor by its times: what counts is what is there.
    is_wanted = data == survey.wanted.get(path)
    if path in owned:
        survey.present[path], survey.signatures[path] = data, signed
        if not is_wanted and (not plain or digest(data) not in owned[path]):
            survey.edited.append(path)
    elif plain and is_wanted:
        # Somebody's copy of exactly what we write: from here on it is ours.
        survey.present[path], survey.signatures[path] = data, signed
    else:
        survey.problems.append(f"`{shown(full)}` was not written by gpuctl, which needs the name: move it away")


def _read(path: str) -> tuple[Signature, bytes]:
    """A plain file's content, and the signature of the very file that it is of, from before it was read.

    :raises OSError: it cannot be read, or is a link by now.
    """
    descriptor = os.open(path, _PLAIN)
    try:
        found = os.fstat(descriptor)
        parts = []
        while part := os.read(descriptor, found.st_size + 1):
            parts.append(part)
        return _signed(found), b"".join(parts)
    finally:
        os.close(descriptor)


def _kind(path: str, mode: int) -> str:
    return f"a symbolic link to {os.readlink(path)}" if stat.S_ISLNK(mode) else "a device, pipe or socket"

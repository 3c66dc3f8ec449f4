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
    when nothing else is in them.
    """

    directory: Path
    exists: bool = False
    present: dict[str, bytes] = field(default_factory=dict)
    wanted: dict[str, bytes] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    signatures: dict[str, Signature] = field(default_factory=dict)
    stale_folders: list[str] = field(default_factory=list)

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
    found = path.lstat()
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
            _look_at(survey, path, owned)
    return survey


def owned_paths(directory: Path) -> set[str]:
    """The paths that the manifest of a directory names and that are there; none where there is no such directory.

    :raises BuildError: the manifest is damaged, or cannot be read.
    """
    path = directory / MANIFEST
    try:
        data = path.read_bytes() if path.is_file() else b""
    except OSError as error:
        raise BuildError(f"cannot read `{shown(path)}`: {(error.strerror or str(error)).lower()}") from None
    return {name for name in parse_manifest(data, str(path)) if (directory / name).is_file()}


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
    survey.signatures[MANIFEST] = _signature(path)
    data = survey.present[MANIFEST] = path.read_bytes()
    return parse_manifest(data, str(path))


def _not_a_folder(path: Path) -> str | None:
    """Why files cannot be below a path, as the rest of a sentence; None where there is a directory, or nothing."""
    mode = _mode(path)
    if mode is None or stat.S_ISDIR(mode):
        return None
    if stat.S_ISLNK(mode):
        return "is a symbolic link, and gpuctl writes through none: remove it, or build elsewhere"
    return "is not a directory, and gpuctl needs one there: move it away, or build elsewhere"


def _look_at(survey: DirectoryState, path: str, owned: Owned) -> None:
    full = survey.directory / path
    mode = _mode(full)
    if mode is None:
        return
    name = shown(full)
    if stat.S_ISDIR(mode):
        if path in survey.wanted:
            survey.problems.append(f"`{name}` is a directory, and gpuctl needs a file there: move it away")
        return
    plain = stat.S_ISREG(mode)
    signed = _signature(full)
    data = full.read_bytes() if plain else os.fsencode(f"not a plain file: {_kind(full, mode)}\n")
    if path in owned:
        survey.present[path], survey.signatures[path] = data, signed
        if (not plain or digest(data) not in owned[path]) and data != survey.wanted.get(path):
            survey.edited.append(path)
    elif plain and data == survey.wanted.get(path):
        # Somebody's copy of exactly what we write: from here on it is ours.
        survey.present[path], survey.signatures[path] = data, signed
    else:
        survey.problems.append(f"`{name}` was not written by gpuctl, which needs the name: move it away")


def _kind(path: Path, mode: int) -> str:
    return f"a symbolic link to {os.readlink(path)}" if stat.S_ISLNK(mode) else "a device, pipe or socket"

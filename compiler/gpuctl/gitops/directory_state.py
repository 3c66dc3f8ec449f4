"""Comparison of a directory of manifests with its wanted content. Nothing here changes a file."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuctl.gitops.build_error import BuildError, relative_path
from gpuctl.gitops.comparison import FileChange, compare
from gpuctl.gitops.manifest import MANIFEST, OwnedHashes, digest, parse_manifest
from gpuctl.gitops.sources import BuildSource

# Do not follow a link, or block on a pipe, that has replaced the file since it was examined.
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass
class DirectoryState:
    """The state of a directory before a build.

    - ``present``: contents of the files that gpuctl wrote or will write.
    - ``edited``: those of them that were edited by hand since the last build.
    - ``problems``: reasons against building, even with ``--force``.
    - ``stale_folders``: directories that lose files; they are removed if they are empty after the build.
    - ``sources``: the sources of the last build.
    """

    directory: Path
    exists: bool = False
    present: dict[str, bytes] = field(default_factory=dict)
    wanted: dict[str, bytes] = field(default_factory=dict)
    edited: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stale_folders: list[str] = field(default_factory=list)
    sources: tuple[BuildSource, ...] = ()

    @property
    def changes(self) -> list[FileChange]:
        """The changes that a build would make, sorted by path, the manifest included."""
        return compare(self.present, self.wanted)

    def verify(self) -> None:
        """Raise BuildError if a file that a build replaces or removes has changed since it was read."""
        for change in self.changes:
            if _content(f"{self.directory}/{change.path}") != change.before:
                name = relative_path(self.directory / change.path)
                raise BuildError(f"`{name}` was changed during the build: run it again")


def inspect_directory(directory: Path, wanted: Mapping[str, bytes]) -> DirectoryState:
    """Compare a directory with its wanted files, the manifest included.

    Links are never followed: a file written through a link would be outside of the directory.

    :raises BuildError: the directory or its manifest is unusable.
    """
    state = DirectoryState(directory, wanted=dict(wanted))
    mode = _mode(directory)
    if mode is None:
        return state
    name = relative_path(directory)
    if stat.S_ISLNK(mode):
        raise BuildError(f"`{name}` is a symbolic link: name its target")
    if not stat.S_ISDIR(mode):
        raise BuildError(f"`{name}` is not a directory: name another one, or move the file away")
    state.exists = True
    owned = _owned(directory, state)
    state.stale_folders = sorted({path.rpartition("/")[0] for path in owned.keys() - wanted.keys()} - {""})
    folders: dict[str, str | None] = {}
    for path in sorted({*wanted, *owned}):
        folder = path.rpartition("/")[0]
        if folder not in folders:
            folders[folder] = _not_a_folder(directory / folder)
            if folders[folder] is not None and any(other.startswith(f"{folder}/") for other in wanted):
                state.problems.append(f"`{relative_path(directory / folder)}` {folders[folder]}")
        if folders[folder] is None and path != MANIFEST:
            _inspect_file(state, path, owned)
    return state


def read_plain(path: Path) -> bytes:
    """Return the content of a file; empty if it is not a plain file.

    :raises BuildError: the file cannot be read.
    """
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    except OSError as error:
        raise BuildError(f"cannot read `{relative_path(path)}`: {(error.strerror or str(error)).lower()}") from None


def owned_paths(directory: Path, beginning: str) -> set[str]:
    """Return the existing paths with a prefix (``beginning``) that the manifest of a directory names.

    :raises BuildError: the manifest is damaged, or cannot be read.
    """
    owned = parse_manifest(read_plain(directory / MANIFEST), str(directory / MANIFEST))
    return {name for name in owned if name.startswith(beginning) and (directory / name).is_file()}


def unwritable(state: DirectoryState) -> list[str]:
    """Return a sentence for each read-only directory that a build would change.

    A directory without any write permission counts as read-only for root, too: it was made so on purpose.
    """
    folders = {state.directory} if state.exists else set()
    for change in state.changes:
        folder = (state.directory / change.path).parent
        if folder.is_dir():
            folders.add(folder)
    return [
        f"directory `{relative_path(folder)}` is read-only: make it writable, or name another directory with -o"
        for folder in sorted(folders)
        if not os.access(folder, os.W_OK | os.X_OK) or not folder.stat().st_mode & 0o222
    ]


def _mode(path: str | Path) -> int | None:
    try:
        return os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def _owned(directory: Path, state: DirectoryState) -> OwnedHashes:
    path = f"{directory}/{MANIFEST}"
    mode = _mode(path)
    if mode is None:
        return {}
    if not stat.S_ISREG(mode):
        raise BuildError(f"`{relative_path(path)}` is not a plain file: restore it from git, or delete it")
    data = state.present[MANIFEST] = _read(path)
    if data == state.wanted.get(MANIFEST):
        # The manifest has the wanted hashes, so every file with other content was edited.
        return dict.fromkeys(state.wanted.keys() - {MANIFEST}, frozenset())
    return parse_manifest(data, path)


def _not_a_folder(path: Path) -> str | None:
    """Return why files cannot be below a path, as the end of a sentence; None if they can."""
    mode = _mode(path)
    if mode is None or stat.S_ISDIR(mode):
        return None
    if stat.S_ISLNK(mode):
        return "is a symbolic link, and gpuctl does not write through links: remove it, or build elsewhere"
    return "is not a directory, and gpuctl needs one there: move it away, or build elsewhere"


def _inspect_file(state: DirectoryState, path: str, owned: OwnedHashes) -> None:
    full = f"{state.directory}/{path}"
    mode = _mode(full)
    if mode is None or stat.S_ISDIR(mode):
        if mode is not None and path in state.wanted:
            state.problems.append(
                f"`{relative_path(full)}` is a directory, and gpuctl needs a file there: move it away"
            )
        return
    data = _content(full)
    assert data is not None
    # The content decides, not the hash in the manifest or the file's times.
    is_wanted = data == state.wanted.get(path)
    if path in owned:
        state.present[path] = data
        if not is_wanted and digest(data) not in owned[path]:
            state.edited.append(path)
    elif is_wanted:
        # Adopt a file that has exactly the wanted content.
        state.present[path] = data
    else:
        state.problems.append(f"`{relative_path(full)}` was not written by gpuctl, which needs the name: move it away")


def _content(path: str) -> bytes | None:
    """Return the content of a plain file, a line that describes anything else, or None if nothing exists."""
    mode = _mode(path)
    if mode is None:
        return None
    if stat.S_ISREG(mode):
        return _read(path)
    kind = f"a symbolic link to {os.readlink(path)}" if stat.S_ISLNK(mode) else "a device, pipe or socket"
    return os.fsencode(f"not a plain file: {kind}\n")


def _read(path: str) -> bytes:
    """Read a plain file.

    :raises OSError: the file cannot be read, or a link has replaced it.
    """
    with open(path, "rb", opener=lambda name, _: os.open(name, _PLAIN)) as stream:
        return stream.read()

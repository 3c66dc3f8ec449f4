"""The new tree takes the old one's place in one step, foreign files and all.

Beside the directory a complete new tree is made: what changes is written, all else, foreign files too, is a hard link.
The two change places; the directory is new from one moment to the next. Then the old one, now aside, is brought up to
date, and the two change places again: so the directory stays the same directory to shells that stand in it, to mounts
and to watchers, and nothing foreign has moved. Whatever remains aside is links, or files that the build has replaced.

Killed before the first exchange the tree is the old one, after it the new one. What is left aside the next build
removes; a foreign file that somebody wrote there meanwhile is put where it belongs.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from gpuctl.gitops.build_error import BuildError, CannotSwap, shown
from gpuctl.gitops.directory_state import DirectoryState, Signature, signature
from gpuctl.gitops.disk import remove_empty, sync_folder, write_new
from gpuctl.gitops.exchange import exchange

_TREE, _KNOWN, _UNFINISHED = "tree", "known", "known.new"
# Linking costs some 15 us a file; a directory with far more foreign files than manifests is not worth it.
_MOST_ENTRIES = 50_000


def swap(survey: DirectoryState, shop: Path) -> list[str]:
    """Bring a directory to what is wanted, all at once, with ``shop`` beside it to prepare in.

    Returns the foreign files that somebody wrote meanwhile and that could not be put in their place.

    :raises CannotSwap: where the system has no such thing; nothing was changed.
    :raises OSError, BuildError: when something fails, such as making links; nothing was changed.
    """
    if os.path.ismount(survey.directory):
        raise CannotSwap("a mount point")
    kept: list[str] = []
    try:
        if not survey.exists:
            _create(survey, shop / _TREE)
            return kept
        known = _stage(survey, shop / _TREE)
        write_new(shop / _UNFINISHED, json.dumps(sorted(known)).encode())
        os.rename(shop / _UNFINISHED, shop / _KNOWN)
        sync_folder(shop)
        survey.verify()
        exchange(shop / _TREE, survey.directory)
        # From here on the directory is new. If the old one cannot be brought up to date, it is not used again.
        with contextlib.suppress(OSError, CannotSwap):
            sync_folder(survey.directory.parent)
            _bring_up(survey, shop / _TREE)
            exchange(shop / _TREE, survey.directory)
            sync_folder(survey.directory.parent)
    finally:
        # What cannot be cleared away now, the next build clears away.
        with contextlib.suppress(OSError):
            kept += clear(shop, survey.directory)
    return kept


def clear(shop: Path, directory: Path) -> list[str]:
    """Remove what a build left aside; return what is neither its own nor could be put in its place."""
    tree = shop / _TREE
    kept: list[str] = []
    if tree.is_dir():
        known: set[Signature] | None = None
        if (shop / _KNOWN).exists():
            known = {Signature(*item) for item in json.loads((shop / _KNOWN).read_bytes())}
        # Without that file nothing was exchanged: the tree is the unfinished new one, links and files of ours.
        _sweep(tree, directory, known, kept)
    if not kept:
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(tree)
        for name in (_UNFINISHED, _KNOWN):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(shop / name)
    return kept


def _create(survey: DirectoryState, tree: Path) -> None:
    """A directory that was not there: it appears complete."""
    os.mkdir(tree)
    for folder in _write(survey, tree):
        sync_folder(folder)
    try:
        os.rename(tree, survey.directory)
    except OSError:
        if os.path.lexists(survey.directory):
            raise BuildError(f"`{shown(survey.directory)}` was made during the build: run it again") from None
        raise
    with contextlib.suppress(OSError):
        sync_folder(survey.directory.parent)


def _stage(survey: DirectoryState, tree: Path) -> set[Signature]:
    """The new tree, complete; returns the signatures of all files in it and of those that it replaces."""
    copy = _Copy({change.path for change in survey.changes})
    os.mkdir(tree, 0o700)
    copy.folder(survey.directory, tree, "")
    changed = _write(survey, tree)
    for change in survey.changes:
        found = signature(tree / change.path)
        if found is not None:
            copy.known.add(found)
    remove_empty(tree, survey.stale_folders)
    copy.dress()
    for folder in {*changed, *(folder for _, folder in copy.folders)}:
        if folder.is_dir():
            sync_folder(folder)
    return copy.known


class _Copy:
    """A tree of the same directories whose files are links to the same files."""

    def __init__(self, left_out: set[str]) -> None:
        self.left_out = left_out
        self.known: set[Signature] = set()
        self.folders: list[tuple[os.stat_result, Path]] = []

    def folder(self, source: Path, target: Path, prefix: str) -> None:
        self.folders.append((os.stat(source), target))
        with os.scandir(source) as entries:
            for entry in entries:
                if len(self.known) + len(self.folders) > _MOST_ENTRIES:
                    raise CannotSwap("too many files")
                if entry.is_dir(follow_symlinks=False):
                    os.mkdir(target / entry.name, 0o700)
                    self.folder(source / entry.name, target / entry.name, f"{prefix}{entry.name}/")
                    continue
                found = signature(source / entry.name)
                if found is not None:
                    self.known.add(found)
                if prefix + entry.name not in self.left_out:
                    os.link(source / entry.name, target / entry.name, follow_symlinks=False)

    def dress(self) -> None:
        """Give the directories the owners, modes and times of those they stand for."""
        for seen, folder in reversed(self.folders):
            if folder.is_dir():
                made = os.stat(folder)
                if (made.st_uid, made.st_gid) != (seen.st_uid, seen.st_gid):
                    os.chown(folder, seen.st_uid, seen.st_gid)
                os.chmod(folder, seen.st_mode & 0o7777)
                os.utime(folder, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _write(survey: DirectoryState, tree: Path) -> set[Path]:
    """Write the files that come or change; return their directories."""
    folders = {tree}
    for change in survey.changes:
        if change.after is not None:
            path = tree / change.path
            if path.parent not in folders:
                path.parent.mkdir(exist_ok=True)
                folders.add(path.parent)
            write_new(path, change.after)
    return folders


def _bring_up(survey: DirectoryState, tree: Path) -> None:
    """Make the old tree, which stands aside now, like the new one that has its place."""
    folders = {tree}
    for change in survey.changes:
        path = tree / change.path
        if change.before is not None:
            os.unlink(path)
        if change.after is not None:
            path.parent.mkdir(exist_ok=True)
            os.link(survey.directory / change.path, path)
        folders.add(path.parent)
    remove_empty(tree, survey.stale_folders)
    for folder in folders:
        if folder.is_dir():
            sync_folder(folder)


def _sweep(folder: Path, target: Path, known: set[Signature] | None, kept: list[str]) -> None:
    """Empty a directory that stood for ``target``; rescue what a build has not put there."""
    os.chmod(folder, 0o700)
    with os.scandir(folder) as scanned:
        entries = list(scanned)
    for entry in entries:
        aside, there = folder / entry.name, target / entry.name
        if entry.is_dir(follow_symlinks=False):
            _sweep(aside, there, known, kept)
            with contextlib.suppress(OSError):
                os.rmdir(aside)
            continue
        mine, its = signature(aside), signature(there)
        if mine is None:
            continue
        if known is None or mine in known or (its is not None and its.inode == mine.inode):
            os.unlink(aside)
        elif (its is not None and its not in known) or not _rescue(aside, there):
            kept.append(str(aside))


def _rescue(aside: Path, there: Path) -> bool:
    """Put a file that somebody wrote meanwhile where it belongs; whether that worked."""
    if os.path.realpath(there.parent) != str(there.parent):
        return False
    try:
        there.parent.mkdir(parents=True, exist_ok=True)
        os.rename(aside, there)
    except OSError:
        return False
    return True

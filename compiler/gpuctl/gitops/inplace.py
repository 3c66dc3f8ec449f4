"""File by file, where a directory cannot change places with another: a mount point, a parent that is read-only.

First the manifest says that the old and the new content of each file is ours; then the files change, each in one step;
then the manifest is the new one. So a build that is killed in between leaves some files old and some new, none half
written, and the next build goes on from there. One that fails puts back what it has changed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuctl.gitops.build_error import BuildError, shown
from gpuctl.gitops.comparison import FileChange
from gpuctl.gitops.directory_state import DirectoryState
from gpuctl.gitops.disk import remove_empty, sync_folder, write_new
from gpuctl.gitops.exchange import CANNOT
from gpuctl.gitops.manifest import MANIFEST, union

# Nothing that ends in .yaml: kubectl -R would apply it.
_OURS = re.compile(r"(?:new|old)-[0-9]+\Z|manifest\Z")


def rewrite(survey: DirectoryState, shop: Path) -> None:
    """Bring a directory to what is wanted, with ``shop`` inside it to prepare in.

    :raises OSError, BuildError: when something fails; what was changed is put back.
    """
    undo: list[Callable[[], None]] = []
    changes = [change for change in survey.changes if change.path != MANIFEST]
    try:
        old, new = survey.present.get(MANIFEST, b""), survey.wanted[MANIFEST]
        for number, change in enumerate(changes):
            if change.after is not None:
                write_new(shop / f"new-{number}", change.after)
        write_new(shop / "manifest", union(old, new))
        write_new(shop / f"new-{len(changes)}", new)
        sync_folder(shop)
        survey.verify()
        kept = shop / f"old-{len(changes)}"
        _replace(shop / "manifest", survey.directory / MANIFEST, kept, undo)
        sync_folder(survey.directory)
        for number, change in enumerate(changes):
            _apply(change, survey.directory, shop, number, undo)
        for folder in {(survey.directory / change.path).parent for change in changes}:
            sync_folder(folder)
        remove_empty(survey.directory, survey.stale_folders)
        os.rename(shop / f"new-{len(changes)}", survey.directory / MANIFEST)
    except BaseException:
        _put_all_back(undo, survey.directory)
        with contextlib.suppress(OSError):
            clear(shop)
        raise
    # What cannot be cleared away now, the next build clears away.
    with contextlib.suppress(OSError):
        sync_folder(survey.directory)
        clear(shop)


def clear(shop: Path) -> None:
    """Remove what a build left: new content that was not used, old content that was replaced."""
    for name in os.listdir(shop):
        if _OURS.match(name):
            os.unlink(shop / name)


def _apply(change: FileChange, directory: Path, shop: Path, number: int, undo: list[Callable[[], None]]) -> None:
    path, old = directory / change.path, shop / f"old-{number}"
    if change.after is None:
        undo.append(lambda: _put_back(old, path))
        os.rename(path, old)
        return
    if not path.parent.exists():
        undo.append(lambda: _drop_folder(path.parent))
        os.mkdir(path.parent)
    _replace(shop / f"new-{number}", path, old, undo)


def _replace(new: Path, path: Path, old: Path, undo: list[Callable[[], None]]) -> None:
    """Put ``new`` at ``path``; what stood there is kept as ``old`` meanwhile."""
    if os.path.lexists(path):
        try:
            os.link(path, old, follow_symlinks=False)
        except OSError as error:
            if error.errno not in CANNOT:
                raise
            # No hard links here: a copy.
            write_new(old, path.read_bytes())
        undo.append(lambda: _put_back(old, path))
    else:
        undo.append(lambda: _drop(path))
    os.rename(new, path)


def _put_all_back(undo: Sequence[Callable[[], None]], directory: Path) -> None:
    try:
        for step in reversed(undo):
            step()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"`{shown(directory)}` is half built, and cannot be put back ({reason}): build it again"
        raise BuildError(message) from None


def _put_back(old: Path, path: Path) -> None:
    if os.path.lexists(old):
        path.parent.mkdir(exist_ok=True)
        os.rename(old, path)


def _drop(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _drop_folder(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(path)

"""``build``: a directory of manifests that is gpuctl's where gpuctl wrote it, and nobody else's business is touched."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from gpuctl.gitops import inplace
from gpuctl.gitops.build_error import BuildError, CannotSwap, shown
from gpuctl.gitops.comparison import FileChange
from gpuctl.gitops.directory_state import DirectoryState, look, unwritable
from gpuctl.gitops.disk import workshop
from gpuctl.gitops.exchange import CANNOT
from gpuctl.gitops.layout import File
from gpuctl.gitops.manifest import MANIFEST, render_manifest
from gpuctl.gitops.swap import clear, swap

_SHOP = ".gpuctl-build"


class BuildOutcome(NamedTuple):
    """What a build did, or would do, to a directory: the changes, sorted by path (the manifest's is among them), the
    files that somebody had edited by hand, and foreign files that had to be left aside."""

    directory: Path
    changes: list[FileChange]
    edited: list[str]
    unchanged: int
    aside: list[str]

    @property
    def files(self) -> list[FileChange]:
        """The changes without the manifest's, which follows from them."""
        return [change for change in self.changes if change.path != MANIFEST]


def build(directory: str | os.PathLike[str], files: Mapping[str, File], *, force: bool = False) -> BuildOutcome:
    """Bring a directory to exactly these files and its foreign ones; all of it, or nothing.

    ``force`` overwrites, or removes, also what was edited by hand since the last build.

    :raises BuildError: when anything is in the way, or fails. Nothing is changed then.
    """
    target = place(directory)
    wanted = wanted_tree(files)
    try:
        survey = look(target, wanted)
        _refuse(survey, force=force)
        aside: list[str] = []
        if survey.changes or _is_left(target):
            survey, aside = _write(target, wanted, force=force)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        at = f" (at `{shown(error.filename)}`)" if error.filename is not None else ""
        message = f"cannot write `{shown(target)}`: {reason}{at}; nothing in it was changed"
        raise BuildError(message) from None
    return _outcome(survey, aside)


def check(directory: str | os.PathLike[str], files: Mapping[str, File]) -> BuildOutcome:
    """What :func:`build` would do. Writes nothing.

    :raises BuildError: when something is in a build's way, or cannot be read.
    """
    target = place(directory)
    try:
        survey = look(target, wanted_tree(files))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BuildError(f"cannot read `{shown(error.filename or target)}`: {reason}") from None
    if survey.problems:
        raise BuildError(*survey.problems)
    return _outcome(survey, [])


def wanted_tree(files: Mapping[str, File]) -> dict[str, bytes]:
    """path -> content of all that a build writes, the manifest too."""
    return {**{path: file.data for path, file in files.items()}, MANIFEST: render_manifest(files.values())}


def place(directory: str | os.PathLike[str]) -> Path:
    """Where a directory really is. Links on the way to it are followed; whether it is one itself, others judge."""
    text = os.fspath(directory).rstrip(os.sep) or os.sep
    parent, name = os.path.split(text)
    if name in ("", ".", ".."):
        return Path(os.path.realpath(text))
    return Path(os.path.realpath(parent), name)


def _outcome(survey: DirectoryState, aside: list[str]) -> BuildOutcome:
    changes = survey.changes
    changed = {change.path for change in changes} | {MANIFEST}
    return BuildOutcome(survey.directory, changes, survey.edited, len(survey.wanted.keys() - changed), aside)


def _refuse(survey: DirectoryState, *, force: bool) -> None:
    """Raise when something is in the way of a build."""
    problems = list(survey.problems)
    if not force:
        problems += [
            f"`{shown(survey.directory / path)}` was edited by hand: move the edit to its document; --force drops it"
            for path in survey.edited
        ]
    if survey.changes:
        problems += unwritable(survey)
    if problems:
        raise BuildError(*problems)


def _write(target: Path, wanted: Mapping[str, bytes], *, force: bool) -> tuple[DirectoryState, list[str]]:
    inside = target / _SHOP
    if os.path.lexists(inside):
        with workshop(inside, target) as shop:
            inplace.clear(shop)
    try:
        with _parents(target), workshop(_beside(target), target) as shop:
            _refuse_leftovers(clear(shop, target))
            survey = _look_again(target, wanted, force=force)
            return survey, swap(survey, shop) if survey.changes else []
    except CannotSwap:
        pass
    except OSError as error:
        if error.errno not in CANNOT or not target.is_dir():
            raise
    with workshop(inside, target) as shop:
        inplace.clear(shop)
        survey = _look_again(target, wanted, force=force)
        inplace.rewrite(survey, shop)
    return survey, []


def _look_again(target: Path, wanted: Mapping[str, bytes], *, force: bool) -> DirectoryState:
    """Only when nobody else builds does it count what is there."""
    survey = look(target, wanted)
    _refuse(survey, force=force)
    return survey


@contextlib.contextmanager
def _parents(target: Path) -> Iterator[None]:
    """Make the directories above a target; those that were made go again when nothing comes of it."""
    missing = [folder for folder in target.parents if not os.path.lexists(folder)]
    try:
        for folder in reversed(missing):
            os.mkdir(folder)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in missing:
                os.rmdir(folder)
        raise


def _beside(target: Path) -> Path:
    """The directory beside a target in which its builds prepare; its name tells the target's, however long that is."""
    return target.parent / f"{_SHOP}-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}"


def _is_left(target: Path) -> bool:
    return os.path.lexists(target / _SHOP) or os.path.lexists(_beside(target))


def _refuse_leftovers(left: Iterable[str]) -> None:
    problems = [
        f"`{shown(path)}` was left by a build that was killed, and its place is taken: move it away, or delete it"
        for path in left
    ]
    if problems:
        raise BuildError(*problems)

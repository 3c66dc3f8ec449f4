"""``build``: a directory of manifests that is gpuctl's where gpuctl wrote it, and nobody else's business is touched."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuctl.gitops import inplace
from gpuctl.gitops.build_error import BuildError, CannotSwap, shown
from gpuctl.gitops.comparison import FileChange
from gpuctl.gitops.directory_state import DirectoryState, look, unwritable
from gpuctl.gitops.disk import workshop
from gpuctl.gitops.exchange import CANNOT
from gpuctl.gitops.layout import File
from gpuctl.gitops.manifest import MANIFEST, is_merged, parse_sources, render_manifest
from gpuctl.gitops.sources import BuildSource, enumerated, left_out
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


class _Request(NamedTuple):
    files: Mapping[str, File]
    sources: Sequence[BuildSource]
    allow_source: bool
    force: bool


def build(
    directory: str | os.PathLike[str],
    files: Mapping[str, File],
    *,
    sources: Sequence[BuildSource] = (),
    allow_source: bool = False,
    force: bool = False,
) -> BuildOutcome:
    """Bring a directory to exactly these files and its foreign ones; all of it, or nothing.

    :param sources: where the files come from; the manifest records them.
    :param allow_source: remove also the files of recorded sources that ``sources`` do not contain.
    :param force: overwrite, or remove, also what was edited by hand since the last build.
    :raises BuildError: when anything is in the way, or fails. Nothing is changed then.
    """
    target = place(directory)
    request = _Request(files, sources, allow_source, force)
    try:
        survey = _survey(target, request)
        _refuse(survey, request)
        aside: list[str] = []
        if survey.changes or _is_left(target):
            survey, aside = _write(target, request)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        at = f" (at `{shown(error.filename)}`)" if error.filename is not None else ""
        message = f"cannot write `{shown(target)}`: {reason}{at}; nothing in it was changed"
        raise BuildError(message) from None
    return _outcome(survey, aside)


def check(
    directory: str | os.PathLike[str],
    files: Mapping[str, File],
    *,
    sources: Sequence[BuildSource] = (),
    allow_source: bool = False,
) -> BuildOutcome:
    """What :func:`build` would do. Writes nothing.

    :raises BuildError: when something is in a build's way, or cannot be read.
    """
    target = place(directory)
    request = _Request(files, sources, allow_source, force=False)
    try:
        survey = _survey(target, request)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BuildError(f"cannot read `{shown(error.filename or target)}`: {reason}") from None
    problems = [*survey.problems, *_other_sources(survey, request)]
    if problems:
        raise BuildError(*problems)
    return _outcome(survey, [])


def _survey(target: Path, request: _Request) -> DirectoryState:
    """Look at what is there. As long as no file differs, the sources of the manifest stay as they are recorded."""
    files = request.files.values()
    path = target / MANIFEST
    recorded = parse_sources(path.read_bytes()) if path.is_file() and not path.is_symlink() else ()
    wanted = {**{file.path: file.data for file in files}, MANIFEST: render_manifest(files, recorded)}
    survey = look(target, wanted)
    survey.sources = recorded
    changed = {change.path for change in survey.changes}
    if changed == {MANIFEST} and is_merged(survey.present.get(MANIFEST, b""), wanted[MANIFEST]):
        survey.wanted[MANIFEST] = survey.present[MANIFEST]
    elif changed:
        survey.wanted[MANIFEST] = render_manifest(files, request.sources)
    return survey


def _other_sources(survey: DirectoryState, request: _Request) -> list[str]:
    """What is wrong with a build that would remove the files of sources that it does not read."""
    gone = sum(change.action == "remove" for change in survey.changes)
    missing = left_out(survey.sources, request.sources, survey.directory)
    if not gone or not missing or request.allow_source:
        return []
    files = "1 file" if gone == 1 else f"{gone} files"
    message = (
        f"`{shown(survey.directory)}` was built from {enumerated(missing)}, and this build, from "
        f"{enumerated(request.sources)}, would remove {files}: name the same sources, or add --allow-source"
    )
    return [message]


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


def _refuse(survey: DirectoryState, request: _Request) -> None:
    """Raise when something is in the way of a build."""
    problems = [*survey.problems, *_other_sources(survey, request)]
    if not request.force:
        problems += [
            f"`{shown(survey.directory / path)}` was edited by hand: move the edit to its document; --force drops it"
            for path in survey.edited
        ]
    if survey.changes:
        problems += unwritable(survey)
    if problems:
        raise BuildError(*problems)


def _write(target: Path, request: _Request) -> tuple[DirectoryState, list[str]]:
    inside = target / _SHOP
    if os.path.lexists(inside):
        with workshop(inside, target) as shop:
            inplace.clear(shop)
    try:
        with _parents(target), workshop(_beside(target), target) as shop:
            _refuse_leftovers(clear(shop, target))
            survey = _look_again(target, request)
            return survey, swap(survey, shop) if survey.changes else []
    except CannotSwap:
        pass
    except OSError as error:
        if error.errno not in CANNOT or not target.is_dir():
            raise
    with workshop(inside, target) as shop:
        inplace.clear(shop)
        survey = _look_again(target, request)
        inplace.rewrite(survey, shop)
    return survey, []


def _look_again(target: Path, request: _Request) -> DirectoryState:
    """Only when nobody else builds does it count what is there."""
    survey = _survey(target, request)
    _refuse(survey, request)
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

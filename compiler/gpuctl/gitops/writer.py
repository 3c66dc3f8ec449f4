"""``build``: update a directory of manifests without changing files that gpuctl did not write.

New content is first written to ``.gpuctl-build`` inside the directory. Then the manifest lists the old and the new hash
of each file, each file is replaced atomically, and the new manifest is written last. A killed build leaves complete
files, some old and some new, which the next build recognizes and replaces.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuctl.gitops.build_error import BuildError, relative_path
from gpuctl.gitops.comparison import FileChange
from gpuctl.gitops.directory_state import DirectoryState, inspect_directory, read_plain, unwritable
from gpuctl.gitops.disk import STAGING, locked_staging, remove_empty, sync_folder, write_new
from gpuctl.gitops.layout import File
from gpuctl.gitops.manifest import MANIFEST, is_merged, merge_manifests, parse_sources, render_manifest
from gpuctl.gitops.sources import BuildSource, removed_sources


class BuildOutcome(NamedTuple):
    """The changes that a build made, or would make, sorted by path, the manifest included; and the files edited by
    hand.
    """

    directory: Path
    changes: list[FileChange]
    edited: list[str]
    unchanged: int

    @property
    def files(self) -> list[FileChange]:
        """The changes without the manifest's."""
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
    """Bring a directory to exactly these files, and keep foreign files.

    Only one build at a time changes a directory: see :func:`gpuctl.gitops.disk.locked_staging`. A build that has
    nothing to change takes no lock.

    :param sources: the sources of the files; the manifest records them.
    :param allow_source: also remove files of recorded sources that ``sources`` do not contain.
    :param force: also overwrite or remove files that were edited by hand since the last build.
    :raises BuildError: the directory cannot be built. The message says if some files are new already.
    """
    target = resolve_directory(directory)
    request = _Request(files, sources, allow_source, force)
    try:
        state = _inspect(target, request)
        _raise_problems(state, request)
        if state.changes or os.path.lexists(target / STAGING):
            with _created_directory(target), locked_staging(target) as staging:
                # Another build may have changed the directory before the lock was taken.
                state = _inspect(target, request)
                _raise_problems(state, request)
                if state.changes:
                    _replace_files(state, staging)
    except OSError as error:
        raise BuildError(
            f"cannot write `{relative_path(target)}`: {_reason(error)}; nothing in it was changed"
        ) from None
    return _outcome(state)


def check(
    directory: str | os.PathLike[str],
    files: Mapping[str, File],
    *,
    sources: Sequence[BuildSource] = (),
    allow_source: bool = False,
) -> BuildOutcome:
    """Return what :func:`build` would do, without writing.

    :raises BuildError: a build is impossible, or a file cannot be read.
    """
    target = resolve_directory(directory)
    request = _Request(files, sources, allow_source, force=False)
    try:
        state = _inspect(target, request)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise BuildError(f"cannot read `{relative_path(error.filename or target)}`: {reason}") from None
    problems = [*state.problems, *_removed_sources(state, request)]
    if problems:
        raise BuildError(*problems)
    return _outcome(state)


def _inspect(target: Path, request: _Request) -> DirectoryState:
    """Compare the directory with the wanted files. If no file differs, the manifest keeps its recorded sources."""
    files = request.files.values()
    recorded = parse_sources(read_plain(target / MANIFEST))
    wanted = {**{file.path: file.data for file in files}, MANIFEST: render_manifest(files, recorded)}
    state = inspect_directory(target, wanted)
    state.sources = recorded
    changed = {change.path for change in state.changes}
    if changed == {MANIFEST} and is_merged(state.present.get(MANIFEST, b""), wanted[MANIFEST]):
        state.wanted[MANIFEST] = state.present[MANIFEST]
    elif changed:
        state.wanted[MANIFEST] = render_manifest(files, request.sources)
    return state


def _removed_sources(state: DirectoryState, request: _Request) -> list[str]:
    gone = sum(change.action == "remove" for change in state.changes)
    return [] if request.allow_source else removed_sources(state.sources, request.sources, state.directory, gone)


def resolve_directory(directory: str | os.PathLike[str]) -> Path:
    """Return the real path of a directory. Links in its parents are resolved; a link as its last part is kept."""
    text = os.fspath(directory).rstrip(os.sep) or os.sep
    parent, name = os.path.split(text)
    if name in ("", ".", ".."):
        return Path(os.path.realpath(text))
    return Path(os.path.realpath(parent), name)


def _outcome(state: DirectoryState) -> BuildOutcome:
    changes = state.changes
    changed = {change.path for change in changes} | {MANIFEST}
    return BuildOutcome(state.directory, changes, state.edited, len(state.wanted.keys() - changed))


def _raise_problems(state: DirectoryState, request: _Request) -> None:
    """Raise BuildError if a build is impossible."""
    problems = [*state.problems, *_removed_sources(state, request)]
    if not request.force:
        problems += [
            f"`{relative_path(state.directory / path)}` was edited by hand: "
            "move the edit to its document; --force drops it"
            for path in state.edited
        ]
    if state.changes:
        problems += unwritable(state)
    if problems:
        raise BuildError(*problems)


def _replace_files(state: DirectoryState, staging: Path) -> None:
    """Write all new content to ``staging``, then move it to its place, the manifest last.

    :raises OSError: nothing was changed.
    :raises BuildError: a file was changed during the build, or the directory is half built.
    """
    directory = state.directory
    changes = [change for change in state.changes if change.path != MANIFEST]
    new = state.wanted[MANIFEST]
    prepared = {change.path: staging / f"new-{number}" for number, change in enumerate(changes, 2)}
    both, last = staging / "new-0", staging / "new-1"
    for change in changes:
        if change.after is not None:
            write_new(prepared[change.path], change.after)
    write_new(both, merge_manifests(state.present.get(MANIFEST, b""), new))
    write_new(last, new)
    sync_folder(staging)
    state.verify()
    os.replace(both, directory / MANIFEST)
    try:
        sync_folder(directory)
        for change in changes:
            path = directory / change.path
            if change.after is None:
                os.unlink(path)
            else:
                path.parent.mkdir(exist_ok=True)
                os.replace(prepared[change.path], path)
        for folder in {(directory / change.path).parent for change in changes}:
            sync_folder(folder)
        remove_empty(directory, state.stale_folders)
        os.replace(last, directory / MANIFEST)
        sync_folder(directory)
    except OSError as error:
        raise BuildError(f"`{relative_path(directory)}` is half built: {_reason(error)}: build it again") from None


def _reason(error: OSError) -> str:
    at = f" (at `{relative_path(error.filename)}`)" if error.filename is not None else ""
    return f"{(error.strerror or str(error)).lower()}{at}"


@contextlib.contextmanager
def _created_directory(target: Path) -> Iterator[None]:
    """Create a directory and its parents; remove them again if the build fails."""
    missing = [folder for folder in (target, *target.parents) if not os.path.lexists(folder)]
    try:
        for folder in reversed(missing):
            os.mkdir(folder)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in missing:
                os.rmdir(folder)
        raise

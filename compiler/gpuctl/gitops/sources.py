"""Sources of a build, with names that are the same on every machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from gpuctl.frontend.directory_listing import is_stream
from gpuctl.frontend.source import STDIN
from gpuctl.frontend.work_tree import work_tree
from gpuctl.gitops.build_error import relative_path
from gpuctl.language.display_text import count_text, first_few, visible

_INPUT = "-"


class BuildSource(NamedTuple):
    """An input of a build, as the manifest of the built directory records it.

    ``path`` is relative to the root of the git work tree with the built directory, or outside of git to the directory's
    parent. ``repository`` names another work tree to which ``path`` is relative; "" is outside of any. ``cluster`` is
    the cluster of the build, None for all; ``profile`` its profile, if any.
    """

    path: str
    repository: str | None = None
    cluster: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        where = "" if self.repository is None else f" of {visible(self.repository) or 'another directory'}"
        cluster = "" if self.cluster is None else f" for cluster {visible(self.cluster)}"
        profile = "" if self.profile is None else f" with profile {visible(self.profile)}"
        return f"`{visible(self.path)}`{where}{cluster}{profile}"

    def contains(self, other: BuildSource) -> bool:
        """Return True if all documents of another input are among those of this one."""
        if (self.repository, self.profile) != (other.repository, other.profile):
            return False
        return self.cluster in (None, other.cluster) and covers([self._location], other._location)

    @property
    def _location(self) -> str:
        """Return where its documents are, in the form of :func:`covers`."""
        return "stdin:" if self.path == _INPUT else f"git:{self.repository}//{self.path}"


def covers(given: Iterable[str], source: str) -> bool:
    """Return True if one of the given sources is this one, or a directory that contains it.

    Only paths contain others: ``git:REPOSITORY//PATH`` and ``file://MACHINE/PATH``.
    """
    for one in given:
        root = one.removesuffix("//.") + "//" if one.endswith("//.") else one.rstrip("/") + "/"
        if source == one or (one.startswith(("git:", "file:")) and source.startswith(root)):
            return True
    return False


def build_sources(
    inputs: Sequence[str],
    directory: Path,
    cluster: str | None,
    identity: Callable[[Path], str | None],
    profile: str | None = None,
) -> tuple[BuildSource, ...]:
    """Return the sources of a build, sorted and unique.

    :param directory: the built directory, without links in its path.
    :param identity: returns a name for a work tree, by its root, that is the same in all clones of its repository.
    """
    base = _base(directory)

    def source(name: str) -> BuildSource:
        if name == _INPUT or is_stream(Path(name)):
            return BuildSource(_INPUT, None, cluster, profile)
        real = Path(os.path.realpath(name))
        if real.is_relative_to(base):
            return BuildSource(real.relative_to(base).as_posix(), None, cluster, profile)
        root = work_tree(real)
        if root is None:
            return BuildSource(real.name, "", cluster, profile)
        return BuildSource(real.relative_to(root).as_posix(), identity(root) or "", cluster, profile)

    return tuple(sorted({source(name) for name in inputs}, key=str))


def removed_sources(
    recorded: Iterable[BuildSource], given: Sequence[BuildSource], directory: Path, gone: int
) -> list[str]:
    """Return the problem of a build that would remove files of sources that it does not read, if it is one.

    :param recorded: the sources of the files in the built directory.
    :param given: the sources of this build.
    :param gone: the number of files that it would remove.
    """
    missing = _sources_left_out(recorded, given, directory)
    if not gone or not missing:
        return []
    message = (
        f"`{relative_path(directory)}` was built from {first_few(missing)}, and this build, from "
        f"{first_few(given)}, would remove {count_text(gone, 'file')}: name the same sources, or add --allow-source"
    )
    return [message]


def _sources_left_out(
    recorded: Iterable[BuildSource], given: Sequence[BuildSource], directory: Path
) -> list[BuildSource]:
    """Return the recorded sources of a built directory that still exist and that the given ones do not contain."""
    base = _base(directory)
    return [
        source
        for source in recorded
        if not any(one.contains(source) for one in given)
        and (source.path == _INPUT or source.repository is not None or os.path.lexists(base / source.path))
    ]


def _base(directory: Path) -> Path:
    return work_tree(directory.parent) or directory.parent


def source_names(inputs: Sequence[str]) -> Callable[[str], str]:
    """Return a function that names sources relative to the nearest common directory of all inputs, with ``/``.

    Such a name depends neither on the current directory nor on where a repository is checked out or how it was named.
    """
    paths = [os.path.abspath(name) for name in inputs if name != "-"]
    folders = [path if os.path.isdir(path) else os.path.dirname(path) for path in paths]
    root = os.path.commonpath(folders) if folders else os.getcwd()

    inside = os.path.join(root, "")

    @cache
    def name(source: str) -> str:
        if source == STDIN:
            return source
        path = os.path.abspath(source)
        # POSIX keeps two leading slashes; only `relpath` treats them as one.
        is_inside = path.startswith(inside) and not path.startswith("//")
        return (path[len(inside) :] if is_inside else os.path.relpath(path, root)).replace(os.sep, "/")

    return name

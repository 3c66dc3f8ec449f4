"""The sources of a set's members. A prune with other sources would delete all members that those do not contain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpuctl.apply.state.git_repository import repository_id
from gpuctl.frontend.directory_listing import is_stream
from gpuctl.frontend.source import Source
from gpuctl.frontend.work_tree import work_tree
from gpuctl.gitops.sources import covers
from gpuctl.language.display_text import visible
from gpuctl.language.sentences import say

STANDARD_INPUT = "-"
_LOCAL = "file://"
_NAMED = 3


def sources_of(inputs: Sequence[str | os.PathLike[str] | Source], directory: Path) -> tuple[str, ...]:
    """Return the inputs of a run, sorted and unique, in a form that two runs can compare.

    Relative paths start from ``directory``; symbolic links are followed; paths need not exist. In a git work tree a
    path is ``git:REPOSITORY//PATH``, so that all clones of a repository agree and no two repositories do. Elsewhere,
    and in a repository without remote and commits, it is ``file://MACHINE/PATH``. Standard input, pipes and devices are
    ``stdin:`` and the repository of the current work tree, or the machine. A text is ``text:`` and the name that the
    calling program gave it, on any machine.
    """
    texts = {f"text:{item.name}" for item in inputs if isinstance(item, Source)}
    paths = {os.fspath(item) for item in inputs if not isinstance(item, Source)}
    return tuple(sorted(texts | {_source(path, directory) for path in paths}))


def source_mismatch(remembered: Sequence[str], given: Sequence[str]) -> str | None:
    """Return the reason why a run from ``given`` must not update a set that came from ``remembered``; None if it may.

    The same sources are allowed, and directories that contain them: then no document of the set is missing.
    """
    missing, new = sorted(set(remembered) - set(given)), sorted(set(given) - set(remembered))
    if not remembered:
        return say("the set does not record its sources: add `--allow-source` if they are the sources of this run")
    is_wider = all(covers(given, one) for one in missing) and all(
        any(covers([wide], one) for one in missing) for wide in new
    )
    if is_wider:
        return None
    if missing and new:
        difference = say(
            "came from {missing}, and this run gives {new} instead",
            missing=list_sources(missing),
            new=list_sources(new),
        )
    elif missing:
        difference = say("came from {missing} too, which this run leaves out", missing=list_sources(missing))
    else:
        difference = say("did not come from {new}, which this run adds", new=list_sources(new))
    if any(_LOCAL in source for source in missing) and any(_LOCAL in source for source in new):
        difference = say(
            "{difference} (outside of a git repository with a remote or a commit, a path is valid on one machine only)",
            difference=difference,
        )
    return say(
        "the set {difference}: give the same sources, or `--allow-source` if this is intended", difference=difference
    )


def _source(name: str, directory: Path) -> str:
    if name == STANDARD_INPUT or is_stream(directory / name):
        root = work_tree(Path(os.path.realpath(directory)))
        repository = repository_id(root) if root is not None else None
        return f"stdin:git:{repository}" if repository is not None else f"stdin:{_LOCAL}{os.uname().nodename}"
    real = Path(os.path.realpath(directory / name))
    root = work_tree(real)
    repository = repository_id(root) if root is not None else None
    if root is None or repository is None:
        return f"{_LOCAL}{os.uname().nodename}{real.as_posix()}"
    return f"git:{repository}//{real.relative_to(root).as_posix()}"


def list_sources(sources: Sequence[str]) -> str:
    """Return the first few sources, and the number of the others, as text."""
    shown = [visible(source) for source in sources[:_NAMED]]
    if len(sources) > _NAMED:
        shown.append(say("{number} more", number=len(sources) - _NAMED))
    return say("{sources:list}", sources=shown)

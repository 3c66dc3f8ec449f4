"""Where a set's members came from: pruning from other sources would delete all that those do not contain."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from gpuctl.language.fields import visible

STANDARD_INPUT = "stdin"
_NAMED = 3


def sources_of(inputs: Sequence[str], directory: Path) -> tuple[str, ...]:
    """The inputs of a run, sorted and unique, in a form that two runs can compare.

    ``directory`` is what relative paths start from; symbolic links are followed; paths need not exist. In a git work
    tree (the nearest ``.git``, directory or file, at or above) a path is ``git:`` and its way from the work tree's
    root, so that two checkouts agree; elsewhere ``file:`` and the whole path. ``-`` is ``stdin``.
    """
    return tuple(sorted({STANDARD_INPUT if name == "-" else _source(directory / name) for name in inputs}))


def refused(remembered: Sequence[str], given: Sequence[str]) -> str | None:
    """Why a run from ``given`` may not prune a set from ``remembered``: a sentence, or None when they are the same.

    Nothing remembered allows anything.
    """
    missing, new = sorted(set(remembered) - set(given)), sorted(set(given) - set(remembered))
    if not remembered or not (missing or new):
        return None
    if missing and new:
        difference = f"came from {enumerated(missing)}, and this run gives {enumerated(new)} instead"
    elif missing:
        difference = f"came from {enumerated(missing)} too, which this run leaves out"
    else:
        difference = f"did not come from {enumerated(new)}, which this run adds"
    return f"the set {difference}: give the same sources, or `--allow-source` if this is intended"


def _source(path: Path) -> str:
    real = Path(os.path.realpath(path))
    for folder in (real, *real.parents):
        if (folder / ".git").exists():
            return f"git:{real.relative_to(folder).as_posix()}"
    return f"file:{real.as_posix()}"


def enumerated(sources: Sequence[str]) -> str:
    """The first few of them, and how many more there are."""
    shown = [visible(source) for source in sources[:_NAMED]]
    if len(sources) > _NAMED:
        shown.append(f"{len(sources) - _NAMED} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)

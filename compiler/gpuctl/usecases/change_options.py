"""What somebody who changes a cluster can choose: which documents, how it is planned, how it is carried out."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from gpuctl.frontend.source import Source

Strategy = Literal["replace", "rolling"]


class InvalidOptions(ValueError):
    """Options that contradict each other, or a value that is none; ``str()`` says which, for people."""


@dataclass(frozen=True)
class DocumentOptions:
    """The documents, and the options of their compilation.

    ``sources`` are files, directories, ``-`` or :class:`gpuctl.Source` texts; ``platform`` is the platform's file, by
    default the one at or above the sources; ``namespace`` is that of jobs that name none, by default the context's.
    ``strict`` makes errors of warnings. Documents that do not belong on ``cluster`` are left out (None: none).
    ``are_here``: they were applied to this cluster before, so their ``placement`` is not checked against its name.
    ``directory`` is where standard input and texts belong, ``stdin`` what ``-`` reads.
    ``interrupt`` is called before each step of the compile; what it raises ends the compile.
    """

    sources: Sequence[str | os.PathLike[str] | Source]
    platform: str | os.PathLike[str] | Source | None = None
    namespace: str | None = None
    strict: bool = False
    directory: Path = Path()
    stdin: BinaryIO | None = None
    cluster: str | None = None
    are_here: bool = False
    interrupt: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class PlanOptions:
    """How a plan is made, by the names of the options of ``gpuctl apply``.

    ``set_name`` is the set that the documents are; what it contains and they no longer do is deleted with ``prune``.
    ``allow_source`` lets it come from other sources than before, ``allow_empty`` and ``allow_skipped`` let pruning go
    on when no document is left, or when files were not read. ``allow_older`` lets it come from an older commit than the
    last time. ``strategy`` is how changed services are changed, by
    default as the live object or the platform says. ``relower`` replaces also what only a newer gpuctl lowers
    otherwise, ``adopt`` takes over what others hold. ``no_probe`` makes notes of what is refused to pods that are
    tried; ``create_namespace`` creates also a namespace that no document names; ``create_only`` refuses what exists
    already. ``queue`` creates jobs also where a quota has no room for their pods: they start when there is.
    """

    set_name: str | None = None
    prune: bool = False
    allow_source: bool = False
    allow_empty: bool = False
    allow_skipped: bool = False
    allow_older: bool = False
    strategy: Strategy | None = None
    relower: bool = False
    adopt: bool = False
    no_probe: bool = False
    create_namespace: bool = False
    create_only: bool = False
    queue: bool = False


LONGEST_BY_SERVICE = 600.0
"""Seconds: what a service gives a change at most, however long its ``RunOptions`` ask for."""

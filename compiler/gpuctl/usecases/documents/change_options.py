"""The documents of a change, and the options of their compilation."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from gpuctl.frontend.document_variant import PLAIN, Variant
from gpuctl.frontend.source import Source


class InvalidOptions(ValueError):
    """Options contradict each other, or a value is invalid; ``str()`` is the message for users."""


@dataclass(frozen=True)
class DocumentOptions:
    """The documents and the options of their compilation.

    :param sources: files, directories, ``-`` or :class:`gpuctl.Source` texts.
    :param platform: the platform's file; None: the one at or above the sources.
    :param namespace: namespace of jobs that name none; None: the context's.
    :param strict: treat warnings as errors.
    :param directory: directory that standard input and texts belong to.
    :param stdin: stream that ``-`` reads.
    :param cluster: leave out documents placed on other clusters; None: leave none out.
    :param variant: the profile and the overrides to compile.
    :param are_here: the documents were applied to this cluster before, so their ``placement`` is not checked.
    :param interrupt: called before each step of the compilation; an exception from it ends the compilation.
    """

    sources: Sequence[str | os.PathLike[str] | Source]
    platform: str | os.PathLike[str] | Source | None = None
    namespace: str | None = None
    strict: bool = False
    directory: Path = Path()
    stdin: BinaryIO | None = None
    cluster: str | None = None
    variant: Variant = PLAIN
    are_here: bool = False
    interrupt: Callable[[], None] = lambda: None


LONGEST_BY_SERVICE = 600.0
"""Maximum duration of a change through the service, seconds, whatever its ``RunOptions`` are."""

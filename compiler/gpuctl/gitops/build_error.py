"""Errors that stop a build before it writes its directory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpuctl.language.display_text import visible


class BuildError(Exception):
    """The reasons why a directory is not built: sentences with the path and a remedy."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: Sequence[str] = problems


class RevisionError(Exception):
    """A revision cannot be read: no repository, no such commit, or a file of an impossible kind. ``str()`` is a
    sentence.
    """


def relative_path(path: str | os.PathLike[str]) -> str:
    """Format a path for messages, relative to the current directory if it is below it."""
    text = os.fspath(path)
    below = os.path.join(os.getcwd(), "")
    return visible(text.removeprefix(below))

"""What keeps a build from writing its directory."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpuctl.language.display_text import visible


class BuildError(Exception):
    """The reasons why a directory is not built: each a sentence with the path, and what to do."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems: Sequence[str] = problems


class RevisionError(Exception):
    """A revision cannot be read: no repository, no such commit, or a file that no revision can have. ``str()`` is a
    sentence for people."""


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path for messages: short where it is below the current directory."""
    text = os.fspath(path)
    below = os.path.join(os.getcwd(), "")
    return visible(text.removeprefix(below))

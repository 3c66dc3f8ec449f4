"""Files that a command rewrites: their difference, and their replacement."""

from __future__ import annotations

import difflib
import os
from io import StringIO
from pathlib import Path

import click

from gpuctl.usecases.atomic_files import write_atomically


def print_difference(before: str, after: str, titles: tuple[str, str]) -> None:
    """Print a unified diff of two texts."""
    # Lines end at a line feed only, as in tools that apply a diff, and not at U+2028 or a form feed.
    now, new = (list(StringIO(text, newline="\n")) for text in (before, after))
    for line in difflib.unified_diff(now, new, *titles):
        click.echo(line if line.endswith("\n") else line + "\n\\ No newline at end of file\n", nl=False)


def replace_file(path: Path, text: str) -> None:
    """Replace a file atomically and keep its permissions; on failure the old file stays."""
    target = Path(os.path.realpath(path))
    try:
        write_atomically(target, text, target.stat().st_mode & 0o7777)
    except OSError as error:
        reason = (error.strerror or "unknown").lower()
        raise click.ClickException(f"cannot write `{path}`: {reason}; the file is unchanged") from None

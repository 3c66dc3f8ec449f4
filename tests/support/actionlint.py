"""actionlint: what GitHub would say to a workflow and to the action that it uses, without GitHub."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from support.go_programs import built_program, named_program

RELEASE = "v1.7.7"
"""The actionlint that is built if none is installed."""


def run_actionlint(repository: Path) -> list[str]:
    """Return actionlint's complaints about the workflows of a repository, one line each."""
    command = [str(find_actionlint()), "-oneline", "-no-color", "-shellcheck=", "-pyflakes="]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"actionlint failed with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()


@cache
def find_actionlint() -> Path:
    """The actionlint to use: ``$ACTIONLINT``, one on PATH, or one of its own."""
    return named_program("actionlint") or built_program("github.com/rhysd/actionlint/cmd/actionlint", RELEASE)

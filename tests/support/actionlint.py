"""actionlint: what GitHub would say to a workflow and to the action that it uses, without GitHub."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from support.kubeconform import cache_directory

RELEASE = "v1.7.7"
"""The actionlint that is built when there is none."""


class ActionlintMissing(Exception):
    """There is no actionlint, and none can be built."""


def run_actionlint(repository: Path) -> list[str]:
    """What actionlint has against the workflows of a repository, one line each."""
    command = [str(find_actionlint()), "-oneline", "-no-color", "-shellcheck=", "-pyflakes="]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"actionlint failed with exit code {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()


@cache
def find_actionlint() -> Path:
    """The actionlint to use: ``$ACTIONLINT``, one on PATH, one built before, or one built now with Go."""
    named = os.environ.get("ACTIONLINT") or shutil.which("actionlint")
    if named:
        return Path(named)
    built = cache_directory() / "actionlint" / f"actionlint-{RELEASE}"
    if os.access(built, os.X_OK) and built.is_file():
        return built
    go = shutil.which("go")
    if go is None:
        raise ActionlintMissing("no actionlint: set ACTIONLINT, or put it or `go` on PATH")
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as directory:
        done = subprocess.run(
            [go, "install", f"github.com/rhysd/actionlint/cmd/actionlint@{RELEASE}"],
            env={**os.environ, "GOBIN": directory, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ActionlintMissing(f"actionlint {RELEASE} cannot be built: {done.stderr.strip()}")
        # Moved as a whole, so that a second test process never sees half a program.
        os.replace(Path(directory) / "actionlint", built)
    return built

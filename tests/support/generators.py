"""The programs of tests/generators, which read the OpenAPI document of the service."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.missing_parts import missing

_BUILD = Path(__file__).parent.parent / "generators" / "build"


def generators() -> Path:
    """Return the directory of the programs; without them tests are skipped, in CI they fail."""
    found = subprocess.run([str(_BUILD), "--only-find"], capture_output=True, text=True)
    if found.returncode != 0:
        missing(found.stderr.strip())
    return Path(found.stdout.strip())

"""Programs that tests need and a machine may lack: then tests are skipped, but in CI they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from control_plane import BinariesMissing, find_binaries


def control_plane_binaries(*, queues: bool = False) -> Path:
    """The directory with the control plane's programs; ``queues``: those of Kueue and JobSet, too."""
    try:
        return find_binaries(queues=queues)
    except BinariesMissing as error:
        if os.environ.get("CI"):
            pytest.fail(str(error))
        pytest.skip(str(error))

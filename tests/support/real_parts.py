"""Programs that tests need and a machine may lack: then tests are skipped, but in CI they fail."""

from __future__ import annotations

from pathlib import Path

from control_plane import BinariesMissing, find_binaries
from support.missing_parts import required


@required(BinariesMissing)
def control_plane_binaries(*, queues: bool = False) -> Path:
    """The directory with the control plane's programs; ``queues``: those of Kueue and JobSet, too."""
    return find_binaries(queues=queues)

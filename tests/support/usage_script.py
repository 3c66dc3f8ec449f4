"""Programs that write a database of usage, each in a process of its own, so that it can be killed."""

from __future__ import annotations

import os
from pathlib import Path

from fault_tools.zygote import shared


class UsageScript:
    """A program that runs; ``lines`` is what it prints."""

    def __init__(self, program: str, *arguments: str) -> None:
        reading, writing = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            zygote = shared("gpuctl_usage")
            self.process = zygote.fork([program, *arguments], [nothing, writing, 2], env=os.environ, cwd=Path.cwd())
        finally:
            os.close(nothing)
            os.close(writing)
        self.lines = os.fdopen(reading)

    def kill(self) -> list[str]:
        """Kill it as a machine failure would; return its output that was not read yet."""
        self.process.kill()
        with self.lines:
            rest = self.lines.read().splitlines()
        self.process.wait()
        return rest

"""The benchmarks measure what they name: their modules are theirs, not rooms of the tests that are called alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_every_module_that_the_run_asks_is_a_benchmark() -> None:
    program = "import run\nfor part in (run.cluster, run.fleet, run.latency, run.room, run.service, run.usage, run.usage_year):\n"
    program += "    print(part.__file__, callable(part.measure))"
    told = subprocess.run([sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    parts = ("cluster", "fleet", "latency", "room", "service", "usage", "usage_year")
    assert told.stdout.splitlines() == [f"{BENCHMARKS / part}.py True" for part in parts]

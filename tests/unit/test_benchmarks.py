"""The benchmark run imports its own modules, not packages of the tests with the same names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_benchmark_run_imports_only_benchmark_modules() -> None:
    parts = ("cluster", "get_commands", "latency", "fit_scale", "rest_service", "hour_rollup_time", "year_of_usage")
    program = f"import run\nfor part in ({', '.join(f'run.{part}' for part in parts)}):\n"
    program += "    print(part.__file__, callable(part.measure))"
    told = subprocess.run([sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == [f"{BENCHMARKS / part}.py True" for part in parts]

"""The benchmarks measure what they name: their modules are theirs, not rooms of the tests that are called alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_every_module_that_the_run_asks_is_a_benchmark() -> None:
    program = "import run\nfor part in (run.cluster, run.fleet, run.room, run.service, run.usage, run.usage_year):\n"
    program += "    print(part.__file__, callable(part.measure))"
    told = subprocess.run([sys.executable, "-c", program], cwd=BENCHMARKS, capture_output=True, text=True, check=True)
    parts = ("cluster", "fleet", "room", "service", "usage", "usage_year")
    assert told.stdout.splitlines() == [f"{BENCHMARKS / part}.py True" for part in parts]


@pytest.mark.parametrize(("options", "code"), [(["--help"], 0), (["--sqlite"], 2)])
def test_an_option_is_no_database(tmp_path: Path, options: list[str], code: int) -> None:
    command = [sys.executable, str(BENCHMARKS / "usage_year.py"), *options]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (told.returncode, list(tmp_path.iterdir())) == (code, [])
    assert (told.stdout or told.stderr).startswith("usage: usage_year.py ")

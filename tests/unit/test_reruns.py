"""Reruns of flaky tests in CI: how many are allowed, and the summary that names them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PLUGINS = ("-p", "xdist", "-p", "pytest_rerunfailures")
SHAKY = """
from pathlib import Path

import pytest


@pytest.mark.parametrize("number", range({number}))
def test_shaky(number):
    mark = Path(__file__).with_name(f"{{number}}")
    if not mark.exists():
        mark.touch()
        raise AssertionError("a moment too late")
"""


def run_flaky_tests(directory: Path, *options: str, shaky: int) -> tuple[int, list[str]]:
    """Run tests that fail once each with the suite's conftest; return the exit code and the printed lines."""
    path = directory / "tests" / "cluster"
    path.mkdir(parents=True)
    shutil.copy(Path(__file__).parents[1] / "conftest.py", path.parent)
    (path / "test_shaky.py").write_text(SHAKY.format(number=shaky))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "PYTEST_"))}
    # Load only the rerun and parallelism plugins: the others take most of the start time.
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--rootdir={directory}", *PLUGINS, *options, "tests"],
        cwd=directory,
        env={**environment, "CI": "true"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout.splitlines()


def test_three_tests_may_be_rerun_and_are_named(tmp_path: Path) -> None:
    code, lines = run_flaky_tests(tmp_path, shaky=3)
    assert code == 0
    assert lines[-1].startswith("3 passed, 3 rerun in ")
    named = sorted(line for line in lines if line.startswith("run again: "))
    assert named == [f"run again: tests/cluster/test_shaky.py::test_shaky[{n}]" for n in range(3)]


def test_fourth_rerun_fails_the_run_and_all_are_named(tmp_path: Path) -> None:
    code, lines = run_flaky_tests(tmp_path, "-n", "2", shaky=4)
    assert code == 1
    assert lines[-1].startswith("1 failed, 4 passed, 3 rerun in ")
    said = lines.index("4 tests were run again, 3 may be:")
    assert sorted(lines[said + 1 : said + 5]) == [f"tests/cluster/test_shaky.py::test_shaky[{n}]" for n in range(4)]

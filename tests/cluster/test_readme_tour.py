"""Every command of the README's tour, run on the sandbox that the tour starts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.sandboxes import running_sandbox

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
_TIMEOUT = 120
_BLOCK = re.compile(r"<!-- (tour[^>]*?) -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[Path]:
    """Start a sandbox and yield its directory."""
    with running_sandbox(tmp_path / "sandbox") as home:
        yield home


@pytest.mark.slow
def test_readme_tour_prints_its_output(sandbox: Path, programs: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    shutil.copytree(ROOT / "examples", clone / "examples")
    environment = {
        **os.environ,
        "KUBECONFIG": str(sandbox / "kubeconfig"),
        "PATH": os.pathsep.join((str(programs), str(sandbox / "bin"), os.environ["PATH"])),
    }

    def run(command: str) -> str:
        result = subprocess.run(command, shell=True, cwd=clone, env=environment, capture_output=True, text=True)
        # `gpuctl diff` exits with 1 if there is a difference.
        assert result.returncode == (1 if command.startswith("gpuctl diff") else 0), (
            command,
            result.stdout,
            result.stderr,
        )
        return result.stdout

    printed: list[tuple[str, str]] = []
    for note, text in _BLOCK.findall(README):
        if note == "tour output":
            command, output = printed[-1]
            expected, began = text.removeprefix("# ...\n"), time.monotonic()
            # Kueue admits a job after a moment, so `gpuctl why` is repeated, as a reader would do.
            while expected not in output and command.startswith("gpuctl why") and time.monotonic() - began < _TIMEOUT:
                output = run(command)
            assert expected in output, (command, output)
        elif note == "tour":
            commands = [line for line in text.splitlines() if not line.startswith((". ", "export "))]
            printed += [(command, run(command)) for command in commands]
    first, second = (output for command, output in printed if command == "gpuctl apply -f my-team")
    assert "created   job.batch/qwen2-finetune -n nlp" in first
    assert {line.split()[0] for line in second.splitlines()} == {"unchanged"}
    assert run("kubectl get jobs,deployments,statefulsets,services -n nlp -o name") == ""

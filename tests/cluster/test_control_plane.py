"""A killed sandbox leaves no process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from control_plane import ControlPlane
from gpuctl_usage.store.database import open_database

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent


def _processes_naming(directory: Path) -> list[int]:
    """Return the ids of processes whose command line contains a directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(directory).encode() in command:
            found.append(int(entry.name))
    return found


def test_a_killed_sandbox_leaves_no_process(plane: ControlPlane, tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{ROOT / 'compiler'}"}
    command = [sys.executable, "-m", "control_plane.sandbox", f"--directory={home}", "--usage-days=1"]
    sandbox = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    try:
        _check_sandbox(home, sandbox)
        with closing(open_database(str(home / "usage.db"))) as usage:
            plane.wait_for(lambda: len(usage.hours(1, 0, 2**40)) >= 24, "the day of usage that is made up")
            plane.wait_for(lambda: len(usage.open_capacities(1)) == 4, "the nodes that are there now")
        assert len(_processes_naming(home)) >= 6
        sandbox.kill()
        sandbox.communicate(timeout=60)
        plane.wait_for(lambda: not _processes_naming(home), "the end of what a killed sandbox ran")
    finally:
        sandbox.kill()
        sandbox.wait()


def _check_sandbox(home: Path, sandbox: subprocess.Popen[str]) -> None:
    assert sandbox.stdout is not None
    lines = []
    for line in sandbox.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith("Ctrl-C here"):
            break
    assert "" in lines, lines
    welcome = lines[lines.index("") + 1 :]
    assert len(welcome) <= 14
    assert (home / "kubeconfig").stat().st_mode & 0o777 == 0o600
    kubectl = [str(home / "bin" / "kubectl"), f"--kubeconfig={home / 'kubeconfig'}", f"--cache-dir={home / 'cache'}"]
    nodes = subprocess.run([*kubectl, "get", "nodes", "-o", "json"], capture_output=True, text=True, check=True)
    pools = {
        item["metadata"]["name"]: item["metadata"]["labels"].get("runwhere.ai/pool")
        for item in json.loads(nodes.stdout)["items"]
    }
    assert pools == {
        "gpu-1": "training-pool",
        "gpu-2": "training-pool",
        "gpu-3": "serving-pool",
        "gpu-4": None,
        "cpu-1": None,
    }
    _run_printed(welcome, home)


def _run_printed(welcome: list[str], home: Path) -> None:
    """Run the commands that the sandbox prints, in one shell, as a user who pastes them."""
    (home / "gpuctl").write_text(f'#!/bin/sh\nexec {sys.executable} -m gpuctl "$@"\n')
    (home / "gpuctl").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GPUCTL_", "KUBE"))}
    environment |= {"HOME": str(home), "PYTHONPATH": str(ROOT / "compiler"), "PATH": f"{home}:{os.environ['PATH']}"}
    # The environment of the test stands in for the one that `make` has installed.
    commands = [line.strip() for line in welcome if line.startswith("  ") and "activate" not in line]
    result = subprocess.run(
        ["bash", "-eu", "-c", "\n".join(commands)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, (commands, result.stdout, result.stderr)
    assert len([command for command in commands if command.startswith(("gpuctl ", "kubectl "))]) == 5
    for printed in (
        "created   job.batch/qwen2-finetune -n nlp",
        "training/pretrain-1b in nlp: ",
        "GPU-HOURS",
        "annotated",
    ):
        assert printed in result.stdout, result.stdout

"""The sandbox's directory, nodes and errors; ``tests/cluster`` runs a sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from control_plane import sandbox

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCTL_CACHE", str(tmp_path / "cache"))


def test_pools_of_the_tour_match_the_machines() -> None:
    machines = {machine.name: machine for machine in sandbox.MACHINES}
    for pool in yaml.safe_load_all(sandbox.POOLS.read_text()):
        for name, node in pool["nodes"].items():
            assert (machines[name].model, machines[name].gpus) == (node["gpu-type"], node["gpu-count"])


def test_each_sandbox_removes_its_own_directory(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with sandbox._home(None) as first:
        assert first.stat().st_mode & 0o777 == 0o700
        (first / "kubeconfig").touch()
        with sandbox._home(None) as second:
            assert [first, second] == [cache / "sandbox", cache / "sandbox-2"]
        assert [path.name for path in cache.iterdir()] == ["sandbox"]
    assert list(cache.iterdir()) == []


def test_files_of_a_killed_sandbox_are_removed(tmp_path: Path) -> None:
    left = tmp_path / "cache" / "sandbox"
    (left / "control-plane").mkdir(parents=True)
    (left / "kubeconfig").touch()
    (left / "bin").symlink_to(tmp_path)
    with sandbox._home(None) as directory:
        assert directory == left
        assert list(directory.iterdir()) == []
    assert tmp_path.exists()


def test_named_directory_is_used_by_one_sandbox(tmp_path: Path) -> None:
    with sandbox._home(tmp_path / "mine") as directory:
        assert directory == tmp_path / "mine"
        with pytest.raises(sandbox.Failed, match="another sandbox uses"), sandbox._home(directory):
            pytest.fail("two sandboxes in one directory")
    assert not directory.exists()


def test_directory_with_files_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(sandbox.Failed, match="is not an empty directory"), sandbox._home(tmp_path):
        pytest.fail("a directory with files is used")
    assert (tmp_path / "thesis.tex").exists()


def test_missing_go_is_reported(tmp_path: Path) -> None:
    """With the system's programs but no Go: one sentence, no traceback, no files left."""
    path = tmp_path / "bin"
    path.mkdir()
    for program in ("bash", "dirname", "env", "openssl"):
        (path / program).symlink_to(f"/usr/bin/{program}")
    environment = {**os.environ, "PATH": str(path), "PYTHONPATH": str(TESTS)}
    result = subprocess.run(
        [sys.executable, "-m", "control_plane.sandbox"], capture_output=True, text=True, env=environment, timeout=60
    )
    assert result.stdout == ""
    assert result.stderr == ("sandbox: Kubernetes is built from source for this, once: install Go 1.26 or newer\n")
    assert result.returncode == 1
    assert list((tmp_path / "cache").iterdir()) == []

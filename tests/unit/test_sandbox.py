"""The sandbox's own directory, its nodes and its errors; that it runs is tested in ``tests/cluster``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from control_plane import sandbox
from control_plane.processes import free_ports

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCTL_CACHE", str(tmp_path / "cache"))


def test_pools_of_the_tour_have_their_nodes() -> None:
    machines = {machine.name: machine for machine in sandbox.MACHINES}
    for pool in yaml.safe_load_all(sandbox.POOLS.read_text()):
        for name, node in pool["nodes"].items():
            assert (machines[name].model, machines[name].gpus) == (node["gpu-type"], node["gpu-count"])


def test_each_sandbox_has_a_directory_that_goes_with_it(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with sandbox._home(None) as first:
        assert first.stat().st_mode & 0o777 == 0o700
        (first / "kubeconfig").touch()
        with sandbox._home(None) as second:
            assert [first, second] == [cache / "sandbox", cache / "sandbox-2"]
        assert [path.name for path in cache.iterdir()] == ["sandbox"]
    assert list(cache.iterdir()) == []


def test_what_a_killed_sandbox_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "cache" / "sandbox"
    (left / "control-plane").mkdir(parents=True)
    (left / "kubeconfig").touch()
    (left / "bin").symlink_to(tmp_path)
    with sandbox._home(None) as directory:
        assert directory == left
        assert list(directory.iterdir()) == []
    assert tmp_path.exists()


def test_a_directory_is_named(tmp_path: Path) -> None:
    with sandbox._home(tmp_path / "mine") as directory:
        assert directory == tmp_path / "mine"
        with pytest.raises(sandbox.Failed, match="another sandbox uses"), sandbox._home(directory):
            pytest.fail("two sandboxes in one directory")
    assert not directory.exists()


def test_a_directory_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(sandbox.Failed, match="is not an empty directory"), sandbox._home(tmp_path):
        pytest.fail("somebody's directory is used")
    assert (tmp_path / "thesis.tex").exists()


def test_without_go_it_says_what_to_install(tmp_path: Path) -> None:
    """Programs of the system, but no Go: one sentence, no traceback, nothing left."""
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


def test_free_ports_differ() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert all(20_000 <= port < 32_000 for port in ports)

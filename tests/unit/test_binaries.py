"""The programs that ``tests/binaries/build`` builds again or finds, with a fake Go that builds nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BINARIES = Path(__file__).resolve().parents[1] / "binaries"
FAKE_GO = """#!/bin/sh
[ "$1" = -C ] && shift 2
case "$1 $2" in
  "env GOVERSION") echo go1.26.0 ;;
  "mod download") ;;
  "list -m") echo "$SOURCES" ;;
  build*) while [ "$1" != -o ]; do shift; done; echo program > "$2"; chmod +x "$2" ;;
esac
"""


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the script beside copies of the module files, with its own cache and with sources that it can rewrite."""
    shutil.copytree(BINARIES, tmp_path / "binaries")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "go").write_text(FAKE_GO)
    (tmp_path / "bin" / "go").chmod(0o755)
    sources = tmp_path / "sources"
    for path in (
        "cmd/kueue/main.go",
        "config/components/crd/bases/kind.yaml",
        "config/components/webhook/manifests.yaml",
    ):
        (sources / path).parent.mkdir(parents=True)
        (sources / path).write_text('path := "/etc/kueue/metrics/certs"\n')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GPUCTL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SOURCES", str(sources))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "binaries" / "build"


def run(script: Path, *arguments: str, code: int = 0) -> tuple[Path, list[str]]:
    """Run the script; return the directory that it prints and the names of the built programs."""
    result = subprocess.run([script, *arguments], capture_output=True, text=True)
    assert result.returncode == code, result.stderr
    built = [line.split()[1] for line in result.stderr.splitlines() if line.startswith("built")]
    return Path(result.stdout.strip()), built


def test_changed_module_rebuilds_only_its_own_programs(build: Path) -> None:
    run(build, "--only-find", code=1)
    directory, built = run(build)
    assert {path.name for path in directory.iterdir()} == set(built)
    assert {"etcd", "kube-apiserver", "kueue", "kueue-manifests", "jobset-manifests"} <= set(built)
    assert all(path.exists() for path in directory.iterdir())
    assert sorted(path.name for path in (directory / "kueue-manifests").iterdir()) == ["kind.yaml", "manifests.yaml"]
    assert run(build) == (directory, [])
    assert run(build, "--only-find", "kueue") == (directory, [])
    with (build.parent / "kueue" / "go.mod").open("a") as file:
        file.write("// changed\n")
    run(build, "--only-find", "kueue", code=1)
    other, built = run(build)
    assert (other != directory, sorted(built)) == (True, ["kueue", "kueue-manifests"])
    assert {path.name for path in other.iterdir()} == {path.name for path in directory.iterdir()}


def test_source_without_the_expected_text_fails_the_build(build: Path) -> None:
    main = Path(os.environ["SOURCES"]) / "cmd" / "kueue" / "main.go"
    main.write_text("package main\n")
    result = subprocess.run([build, "kueue"], capture_output=True, text=True)
    assert result.returncode == 1
    assert "is not as expected" in result.stderr
    assert not list((Path(os.environ["GPUCTL_CACHE"]) / "control-plane" / "parts").iterdir())


def test_module_names_match_their_directories() -> None:
    for path in BINARIES.glob("*/go.mod"):
        assert f"module gpuctl/tests/binaries/{path.parent.name}\n" in path.read_text()

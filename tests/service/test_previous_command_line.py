"""The command line of the previous commit with this service."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from support.cluster_tools import POOL, inference, training
from support.remote import Remote, settled

ROOT = Path(__file__).parents[2]
_PRIVATE_PROTOCOL = "compiler/gpuctl/usecases/wire.py"
"""Exists in commits whose command line uses a private protocol with the service of the same commit."""
_COMMANDS = (
    "get jobs -n {namespace}",
    "get jobs -n {namespace} -o json",
    "get pods -n {namespace}",
    "get pools",
    "get nodes",
    "get labels {node}",
    "get gpu-types",
    "get quotas",
    "get namespaces",
    "describe job a -n {namespace}",
    "describe pool {pool}",
    "describe node {node}",
    "describe namespace {namespace}",
    "why a -n {namespace}",
    "history a -n {namespace}",
    "logs a -n {namespace}",
    "wait a --for=running -n {namespace}",
    "fit -f {file} -n {namespace}",
    "fit -n {namespace}",
    "diff -f {file} -n {namespace}",
    "recover -n {namespace}",
    "apply -f {file} -n {namespace} --yes",
    "pause a -n {namespace}",
    "resume a -n {namespace}",
    "rollback b -n {namespace} --yes",
    "delete -f {file} -n {namespace} --yes",
    "delete job a -n {namespace} --yes",
)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the previous commit's package; skipped if that commit is missing or has the private protocol."""
    if _git("rev-parse", "--verify", "HEAD^").returncode:
        pytest.skip("left out: this clone does not have the previous commit (`git fetch --deepen=1`)")
    if _git("cat-file", "-e", f"HEAD^:{_PRIVATE_PROTOCOL}").returncode == 0:
        pytest.skip("left out: the previous commit's command line does not use the REST API alone")
    directory = tmp_path_factory.mktemp("parent")
    with tarfile.open(fileobj=BytesIO(_git("archive", "HEAD^", "compiler").stdout)) as archive:
        archive.extractall(directory, filter="data")
    return directory / "compiler"


@pytest.mark.slow
def test_commands_of_the_previous_commit_work(parent: Path, remote: Remote, tmp_path: Path) -> None:
    """Its commands exit with the codes of the current command line."""
    remote.login()
    place = remote.place
    place.apply(training("a"), inference("b"))
    place.apply(inference("b", environment={"image": "registry.example.com/app:v2"}), flags=("--yes",))
    settled(remote, "a", "b")
    values = {
        "namespace": place.namespace,
        "pool": POOL,
        "node": f"{POOL}-0",
        "file": place.file(training("new"), name="new.yaml"),
    }
    environment = {
        **os.environ,
        "PYTHONPATH": str(parent),
        "XDG_CONFIG_HOME": str(remote.directory),
        "KUBECONFIG": str(tmp_path / "no-kubeconfig"),
    }
    failed = []
    for text in _COMMANDS:
        command = [sys.executable, "-m", "gpuctl", *text.format(**values).split()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, cwd=tmp_path)
        expected = 1 if text.startswith("diff") else 0
        if done.returncode != expected:
            failed.append((text, done.returncode, done.stdout[-500:], done.stderr[-2000:]))
    assert not failed

"""The guides of the service: their curl commands and their programs, run as printed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from properties.scale import part_of
from support.documents_sent import text_of
from support.pages import ROOT, Block, blocks
from support.seed_world import TEAM
from support.served import Served

SERVICE, OPERATIONS, SDK = "docs/service.md", "docs/operations.md", "docs/sdk.md"
JOB = "qwen2-7b-sft"

# curl -----------------------------------------------------------------------------------------------------------


class SentRequest(NamedTuple):
    """A request that a curl command has sent, and its answer."""

    method: str
    path: str
    status: int
    value: Any


FIELDS: dict[str, set[str]] = {
    "GET /jobs": {"total", "items"},
    "POST /jobs": {"jobId", "name", "kind", "status", "createdAt", "message"},
    "GET /nodes": {"total", "items"},
    "GET /pools": {"total", "items"},
    "GET /nodes/labels": {"total", "items"},
    "GET /quotas": {"total", "items"},
    "POST /nodes/node-1/labels": {"nodeName", "label", "message"},
    "GET /gpu-types": {"total", "items"},
    "POST /nodes/labels/batch": {"success", "failed", "message", "nodes"},
    "POST /nodes/labels/changes": {"success", "failed", "message", "nodes"},
    "DELETE /nodes/node-1/labels/nvidia.com/gpu-type": {"nodeName", "labelKey", "message"},
    f"GET /jobs/{JOB}/logs": {"logs", "lines", "problems", "lastTimestamp"},
    "POST /auth/check": {"allowed", "message"},
    "GET /recoveries": {"planned", "recovered", "problems"},
    "GET /readyz": {"ready", "heardSecondsAgo", "objects", "leftOut", "problem"},
    "GET /healthz": {"status"},
}
"""Fields that the answer of each request has according to the guide."""


def curl_blocks(document: str) -> list[str]:
    """Return the curl blocks, without those for the collector, which tests/usage runs."""
    shells = [block for block in blocks(document) if block.language == "bash" and block.note != "collected"]
    return [block.text for block in shells if "curl " in block.text]


@pytest.fixture
def shell(tmp_path: Path, served: Served) -> Mapping[str, str]:
    """The environment of a user's shell: `URL`, `TOKEN`, and a curl that also prints the status."""
    if shutil.which("curl") is None:
        if os.environ.get("CI"):
            pytest.fail("curl is missing: put it on PATH")
        pytest.skip("curl is missing: put it on PATH")
    (tmp_path / ".curlrc").write_text('write-out = "\\n%{http_code} %{method} %{url_effective}\\n"\nmax-time = 60\n')
    return {**os.environ, "URL": served.url, "TOKEN": served.tokens["admin"], "CURL_HOME": str(tmp_path)}


def run_block(text: str, directory: Path, environment: Mapping[str, str]) -> list[SentRequest]:
    """Run a block in bash and return the requests it sent."""
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    answers = re.findall(r"(.*?)\n(\d{3}) (\w+) http://[^/]+(?:/api/v1)?(/[^?\s]*)\S*\n", done.stdout, re.DOTALL)
    # The metrics of the service itself are not JSON.
    return [
        SentRequest(method, path, int(status), {"text": body} if path == "/metrics" else json.loads(body))
        for body, status, method, path in answers
    ]


@pytest.fixture
def wait_for_seed_objects(served: Served, seed_world: ControlPlane) -> None:
    """Wait until the service lists the nodes and the job of the guides."""
    served.until("/nodes/labels", lambda value: value["total"] == 5, key="nvidia.com/gpu-type")
    served.until("/jobs", lambda value: (JOB, "running") in states(value), "anna")


def states(value: Any) -> set[tuple[str, str]]:
    """Return names and states of the jobs of a list."""
    return {(item["name"], item["status"]) for item in value["items"]}


@pytest.mark.parametrize("text", [*curl_blocks(SERVICE), *curl_blocks(OPERATIONS)])
def test_curl_commands_get_the_described_answers(
    text: str,
    served: Served,
    seed_world: ControlPlane,
    wait_for_seed_objects: None,
    shell: Mapping[str, str],
    tmp_path: Path,
) -> None:
    """Each succeeds, and its answer has the fields that the guide describes."""
    seed_world.write_log(TEAM, f"{JOB}-abcde", "2024-06-01 10:06:30 [INFO] Epoch 1/3, Step 100, Loss: 0.87\nother\n")
    document = {
        "kind": "training",
        "version": "v0.1",
        "job": {"name": "typed"},
        "environment": {"image": "registry.example.com/sft:v1"},
        "resources": {"pool": "training-pool", "gpu": 1, "cpu": 1, "memory": "1Gi"},
    }
    (tmp_path / "job.yaml").write_text(text_of(document, namespace=TEAM))
    try:
        asked = run_block(text, tmp_path, shell)
        assert len(asked) == text.count("curl ")
        for request in asked:
            assert request.status == (201 if request.path == "/jobs" and request.method == "POST" else 200), request
            fields = FIELDS.get(f"{request.method} {request.path}", set())
            assert fields <= request.value.keys(), request
            if request.path.endswith("/logs"):
                assert any("Loss" in line for line in request.value["logs"])
                assert not any("other" in line for line in request.value["logs"])
            if request.path == "/nodes":
                assert {item["gpuType"] for item in request.value["items"]} == {"a100-80g"}
    finally:
        key = "nvidia.com/gpu-type=a100-80g"
        seed_world.kubectl("label", "--overwrite", "node", "node-1", key)
        seed_world.kubectl("label", "node", "node-2", "node-3", "company.com/gpu-model-", check=False)
        served.client("anna").delete("/jobs/typed", params={"force": "true"})
        served.until("/nodes/labels", lambda value: value["total"] == 5, key="nvidia.com/gpu-type")
        served.until_gone("/jobs/typed", "anna")


def test_every_curl_block_is_marked() -> None:
    """The blocks marked as run_block by readers are exactly those that the test above runs."""
    marked = {page: [block.text for block in blocks(page) if block.note == "asked"] for page in (SERVICE, OPERATIONS)}
    assert marked == {page: curl_blocks(page) for page in marked}
    assert sum(text.count("curl ") for texts in marked.values() for text in texts) >= len(FIELDS)


# Commands and files of operations ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_token_rotation_commands_work(tmp_path: Path) -> None:
    """The commands of the page, with the installed program."""
    [text] = [block.text for block in blocks(OPERATIONS) if block.note == "operated"]
    programs = str(Path(sys.executable).parent)
    own = {"GPUCTL_SERVER_TOKENS": str(tmp_path / "tokens.json"), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **own}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"^gpuctl_\S+$", done.stdout, re.MULTILINE)) == 2
    kept = json.loads((tmp_path / "tokens.json").read_text())
    assert [entry["name"] for entry in kept["tokens"]] == ["portal-2027-02"]


def test_api_server_accepts_the_manifests(seed_world: ControlPlane) -> None:
    texts = [block.text for block in blocks(OPERATIONS) if block.note == "manifests"]
    assert len(texts) == 2
    seed_world.kubectl("apply", "-k", str(ROOT / "deploy" / "rbac"))
    for text in texts:
        seed_world.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", input=text)


# Programs ---------------------------------------------------------------------------------------------------------


def programs(language: str) -> list[Block]:
    """Return the programs of the SDK guide."""
    return [block for block in blocks(SDK) if block.language == language and block.note_after("program:")]


@contextmanager
def finishing(served: Served, plane: ControlPlane, *jobs: str) -> Iterator[None]:
    """While the block runs, let each job print a line and succeed as soon as it runs; delete the jobs afterwards."""
    over = threading.Event()

    def work() -> None:
        client, left = served.own_client("anna"), set(jobs)
        while left and not over.wait(0.2):
            for job in sorted(left):
                answer = client.get(f"/jobs/{job}")
                if answer.status_code == 200 and answer.json()["status"] == "running":
                    [pod] = answer.json()["k8sResources"]["pods"]
                    plane.write_log(TEAM, pod, f"{job} has trained\n")
                    plane.annotate(TEAM, pod, outcome="complete")
                    left.discard(job)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        for job in jobs:
            served.client("anna").delete(f"/jobs/{job}", params={"force": "true"})
            served.until_gone(f"/jobs/{job}", "anna")


@pytest.fixture
def environment(served: Served, wait_for_seed_objects: None) -> Mapping[str, str]:
    """Environment variables with the address of the service and a user's token."""
    own = {"GPUCTL_URL": served.url, "GPUCTL_TOKEN": served.tokens["anna"]}
    return {**os.environ, "PYTHONPATH": str(ROOT / "sdk" / "python"), **own}


PRINTED_PARTS = {
    "overview.py": ("training-pool: ", "qwen2-7b-sft-"),
    "submit.py": ("validated", "guide-sft has trained", "succeeded"),
    "problems.py": ("404 NotFound there is no job not-there", "GPU"),
    "together.py": ("training-pool", "jobs run"),
    "overview/main.go": ("training-pool: ", "qwen2-7b-sft-"),
    "submit/main.go": ("validated", "guide-go has trained", "succeeded"),
    "problems/main.go": ("404 NotFound there is no job not-there", "GPU"),
}
"""Parts of the output of each program."""


def test_expected_output_covers_every_program() -> None:
    names = [block.note_after("program:") for language in ("python", "go") for block in programs(language)]
    assert names == list(PRINTED_PARTS)


@pytest.mark.parametrize("block", part_of(programs("python"), 2), ids=lambda block: block.note)
def test_python_programs_print_the_expected_output(
    block: Block, served: Served, seed_world: ControlPlane, environment: Mapping[str, str], tmp_path: Path
) -> None:
    name = block.note_after("program:") or ""
    path = tmp_path / name
    path.write_text(block.text)
    with finishing(served, seed_world, "guide-sft"):
        done = subprocess.run(
            [sys.executable, str(path)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
    assert done.returncode == 0, done.stdout + done.stderr
    for part in PRINTED_PARTS[name]:
        assert part in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None and not os.environ.get("CI"), reason="Go is not installed")
def test_go_programs_print_the_expected_output(
    served: Served, seed_world: ControlPlane, environment: Mapping[str, str], tmp_path: Path
) -> None:
    """gofmt and go vet report nothing; nothing is downloaded."""
    module = "github.com/gpuctl/gpuctl/sdk/go"
    (tmp_path / "go.mod").write_text(
        f"module example.com/guide\n\ngo 1.22\n\nrequire {module} v0.0.0\n\nreplace {module} => {ROOT / 'sdk' / 'go'}\n"
    )
    for block in programs("go"):
        path = tmp_path / (block.note_after("program:") or "")
        path.parent.mkdir()
        path.write_text(block.text)
    own = {**environment, "GOFLAGS": "-mod=mod", "GOPROXY": "off", "GOTOOLCHAIN": "local"}

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout

    assert run("gofmt", "-l", ".") == ""
    run("go", "vet", "./...")
    with finishing(served, seed_world, "guide-go"):
        for block in programs("go"):
            name = block.note_after("program:") or ""
            printed = run("go", "run", f"./{Path(name).parent}")
            for part in PRINTED_PARTS[name]:
                assert part in printed, name

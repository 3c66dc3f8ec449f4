"""The outcomes that other tests rely on are what kubelets report, and a sandbox leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from control_plane.outcomes import INIT_FAILS, OUTCOMES
from gpuctl_usage.store.database import open_database

pytestmark = pytest.mark.slow

NAMESPACE = "outcomes"
LABEL = {"gpuctl.test/for": "outcomes"}
TESTS = Path(__file__).resolve().parents[1]
Object = dict[str, Any]


class Expected(NamedTuple):
    """What becomes of a pod: phase, the state of its container, words of the state's message or the pod's."""

    phase: str
    state: str
    reason: str | None = None
    words: str = ""
    exit_code: int | None = None


BACK_OFF = Expected("Running", "waiting", "CrashLoopBackOff", "back-off 10s restarting failed container=main pod=")
PULL = r'Back-off pulling image "team/train:v1": ErrImagePull: rpc error: code = \w+ desc = failed to pull and unpack '
REFERENCE = '"docker.io/team/train:v1"'
NEVER: dict[str, Expected] = {
    "": Expected("Running", "running"),
    "complete": Expected("Succeeded", "terminated", "Completed", exit_code=0),
    "fail": Expected("Failed", "terminated", "Error", exit_code=3),
    "crash": Expected("Failed", "terminated", "Error", exit_code=3),
    "oom": Expected("Failed", "terminated", "OOMKilled", exit_code=137),
    "probe-killed": Expected("Failed", "terminated", "Error", exit_code=137),
    "command-not-found": Expected(
        "Failed", "terminated", "StartError", r'exec: "torchrun": executable file not found in \$PATH$', 128
    ),
    "evicted": Expected("Failed", "terminated", "Error", r"^The node was low on resource: memory\. ", 137),
    "volume-full": Expected("Failed", "terminated", "Error", r'^Usage of EmptyDir volume "" exceeds the limit', 137),
    "shutdown": Expected(
        "Failed", "terminated", "Error", r"^Pod was terminated in response to imminent node shutdown", 143
    ),
    "overdue": Expected("Failed", "terminated", "Error", exit_code=143),
    "gpu-unavailable": Expected(
        "Failed",
        "",
        words=r"^Pod was rejected: Allocate failed due to requested number of devices unavailable for nvidia\.com/gpu\. "
        r"Requested: 2, Available: 0, which is unexpected$",
    ),
    "never-ready": Expected("Running", "running"),
    "image-slow": Expected("Pending", "waiting", "ContainerCreating"),
    "missing-mount": Expected("Pending", "waiting", "ContainerCreating"),
    "no-sandbox": Expected("Pending", "waiting", "ContainerCreating"),
    "missing-key": Expected(
        "Pending", "waiting", "CreateContainerConfigError", r"^couldn't find key token in Secret [\w-]+/hf-token$"
    ),
    "root-refused": Expected(
        "Pending",
        "waiting",
        "CreateContainerConfigError",
        r'^container has runAsNonRoot and image will run as root \(pod: "\S+", container: main\)$',
    ),
    "image-name-invalid": Expected(
        "Pending",
        "waiting",
        "InvalidImageName",
        '^Failed to apply default image tag "team/train:v1": couldn\'t parse image name "team/train:v1": ',
    ),
    "missing-secret": Expected("Pending", "waiting", "CreateContainerConfigError", '^secret "hf-token" not found$'),
    "image-not-found": Expected(
        "Pending",
        "waiting",
        "ImagePullBackOff",
        f"^{PULL}image {REFERENCE}: failed to resolve reference {REFERENCE}: docker.io/team/train:v1: not found$",
    ),
    "image-unauthorised": Expected("Pending", "waiting", "ImagePullBackOff", f"^{PULL}.*: pull access denied, "),
    "image-unreachable": Expected(
        "Pending", "waiting", "ImagePullBackOff", f"^{PULL}.*: dial tcp: lookup .*no such host$"
    ),
    "image-platform": Expected(
        "Pending", "waiting", "ImagePullBackOff", f"^{PULL}image {REFERENCE}: no match for platform in manifest: "
    ),
}
"""Outcome -> what becomes of a pod that is not to be restarted."""
ALWAYS: dict[str, Expected] = dict.fromkeys(("complete", "fail", "crash", "oom", "probe-killed"), BACK_OFF)
"""Outcome -> what becomes of a pod whose containers are to be restarted."""


def _spec(policy: str = "Never") -> Object:
    container = {
        "name": "main",
        "image": "team/train:v1",
        "command": ["torchrun", "train.py"],
        "env": [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf-token", "key": "token"}}}],
        "resources": {"requests": {"memory": "1Gi"}, "limits": {"nvidia.com/gpu": "2"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    return {
        "restartPolicy": policy,
        "containers": [container],
        "volumes": [{"name": "data", "hostPath": {"path": "/data/x", "type": "Directory"}}],
        "nodeSelector": LABEL,
        "tolerations": [{"key": "gpuctl.test/for", "operator": "Exists"}],
    }


def _pod(name: str, outcome: str = "", policy: str = "Never") -> Object:
    annotations = {f"gpuctl.test/{key}": value for key, value in (("outcome", outcome), ("exit-code", "3")) if value}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(policy)}


@pytest.fixture(scope="module")
def outcomes(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A node of its own, and all pods of this module at once: they take their time together."""
    taint = {"key": "gpuctl.test/for", "value": "outcomes", "effect": "NoSchedule"}
    plane.add_node("outcomes", labels=LABEL, gpus=128, taints=[taint])
    plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    pods = [_pod(f"never-{outcome or 'default'}", outcome) for outcome in NEVER]
    pods += [_pod(f"always-{outcome}", outcome, "Always") for outcome in ALWAYS]
    plane.create(*pods)
    yield plane
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    plane.kubectl("delete", "pods", "--all", "-n", NAMESPACE, "--force", "--grace-period=0", "--wait=false")
    plane.kubectl("delete", "node", "outcomes")


def _summary(pod: Object) -> tuple[str, str, str | None]:
    """Phase, state and reason."""
    status = pod["status"]
    containers = status.get("containerStatuses") or [{"state": {}}]
    state = next(iter(containers[0]["state"].items()), ("", {}))
    return status["phase"], state[0], state[1].get("reason")


@pytest.fixture(scope="module")
def settled(outcomes: ControlPlane) -> dict[str, Object]:
    """The pods of the two tables as they were when they had become what they shall become, by name."""
    wanted = {f"never-{outcome or 'default'}": item for outcome, item in NEVER.items()}
    wanted |= {f"always-{outcome}": item for outcome, item in ALWAYS.items()}
    pods: dict[str, Object] = {}
    there: set[str] = set()
    deadline = time.monotonic() + 120
    while len(there) < len(wanted) and time.monotonic() < deadline:
        for pod in outcomes.get("pods", "-n", NAMESPACE)["items"]:
            name = pod["metadata"]["name"]
            # A pod in CrashLoopBackOff goes on after 10 s: the first time counts.
            if name in wanted and name not in there:
                pods[name] = pod
                if _summary(pod) == wanted[name][:3]:
                    there.add(name)
        time.sleep(0.2)
    return pods


def test_every_outcome_is_tested() -> None:
    # What needs an init container of a pod that is restarted is brought about where `why` looks at it.
    assert set(NEVER) - {""} == set(OUTCOMES) - {INIT_FAILS}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        *((f"never-{outcome or 'default'}", expected) for outcome, expected in NEVER.items()),
        *((f"always-{outcome}", expected) for outcome, expected in ALWAYS.items()),
    ],
)
def test_outcome(settled: dict[str, Object], name: str, expected: Expected) -> None:
    pod = settled[name]
    status = pod["status"]
    assert _summary(pod) == expected[:3]
    container = (status.get("containerStatuses") or [{"state": {"": {}}}])[0]
    state = next(iter(container["state"].values()))
    assert re.search(expected.words, state.get("message") or status.get("message") or "")
    assert state.get("exitCode") == expected.exit_code
    ready = {item["type"]: item["status"] for item in status["conditions"]}.get("Ready")
    is_ready = expected.state == "running" and name != "never-never-ready"
    assert (ready == "True") == container.get("ready", False) == is_ready


def _mentions(directory: Path) -> list[int]:
    """Processes whose command line names a directory."""
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


def test_sandboxes_run_side_by_side_and_leave_nothing(plane: ControlPlane, tmp_path: Path) -> None:
    """One is stopped with Ctrl-C, the other is killed."""
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent / 'compiler'}"}
    homes = [tmp_path / "one", tmp_path / "two"]
    sandboxes = [
        subprocess.Popen(
            [sys.executable, "-m", "control_plane.sandbox", f"--directory={home}", "--usage-days=1"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for home in homes
    ]
    try:
        for home, sandbox in zip(homes, sandboxes, strict=True):
            _check_sandbox(home, sandbox)
        with closing(open_database(str(homes[0] / "usage.db"))) as usage:
            plane.wait_for(lambda: len(usage.hours(1, 0, 2**40)) >= 24, "the day of usage that is made up")
            plane.wait_for(lambda: len(usage.open_capacities(1)) == 4, "the nodes that are there now")
        sandboxes[0].send_signal(signal.SIGINT)
        output, _ = sandboxes[0].communicate(timeout=60)
        assert output == "\nsandbox: stopped, everything is removed\n"
        assert sandboxes[0].returncode == 130
        assert not homes[0].exists()
        assert len(_mentions(homes[1])) >= 6
        sandboxes[1].kill()
        sandboxes[1].communicate(timeout=60)
        plane.wait_for(lambda: not _mentions(homes[1]), "the end of what a killed sandbox ran")
        assert _mentions(homes[0]) == []
    finally:
        for sandbox in sandboxes:
            sandbox.kill()
            sandbox.wait()


def _check_sandbox(home: Path, sandbox: subprocess.Popen[str]) -> None:
    assert sandbox.stdout is not None
    lines = []
    for line in sandbox.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith("Ctrl-C here"):
            break
    text = "\n".join(lines)
    assert f"export KUBECONFIG={home / 'kubeconfig'}" in text, text
    assert f"export GPUCTL_SERVER_USAGE_DATABASE={home / 'usage.db'}" in text, text
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

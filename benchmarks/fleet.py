"""Measure the commands that look, on a cluster of a company's size, beside kubectl."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane

NODES, NAMESPACES, REPLICAS = 200, 100, 50
ROUNDS = 5

Report = Callable[[str, str, str, "bool | None"], None]


def document(number: int) -> str:
    """A service of many pods, in a namespace of its own."""
    return f"""\
kind: inference
version: v0.1
job:
  name: model-{number}
  namespace: team-{number}
environment:
  image: registry.example.com/model-{number}:v1
  command: ["python", "-m", "serve", "--seed", "{number}"]
resources:
  pool: inference-pool
  gpu: 1
  cpu: 2
  memory: 8Gi
service:
  replicas: {REPLICAS}
  port: 8000
"""


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """The row of `get jobs`, and for information those of nodes and pools."""
    with ControlPlane(binaries) as plane:
        small(plane, report)
        fill(plane, directory)
        config = ["--kubeconfig", str(plane.kubeconfig())]
        kubectl = [str(plane.binaries / "kubectl"), *config]
        ours = [sys.executable, "-m", "gpuctl"]
        pods = f"{NAMESPACES * REPLICAS} pods, {NODES} nodes, {NAMESPACES} namespaces"
        for what, mine, other, bar in (
            ("get jobs", ["get", "jobs"], ["get", "pods", "-A"], 2.0),
            ("get jobs -o json", ["get", "jobs", "-o", "json"], ["get", "pods", "-A", "-o", "json"], None),
            ("get nodes", ["get", "nodes"], ["get", "nodes"], None),
            ("get pools", ["get", "pools"], ["get", "nodes"], None),
        ):
            pairs = [(_wall([*ours, *mine, *config]), _wall([*kubectl, *other])) for _ in range(ROUNDS)]
            first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
            value = f"{first / second:.2f}x ({first:.2f} s / {second:.2f} s)"
            ok = None if bar is None else first <= bar * second
            report(f"{what}, {pods} / kubectl", value, f"<= {bar:g}x" if bar else "", ok)


def small(plane: ControlPlane, report: Report) -> None:
    """The rows of a cluster with next to nothing in it: what a command costs before it does anything."""
    config = ["--kubeconfig", str(plane.kubeconfig())]
    theirs = [str(plane.binaries / "kubectl"), "get", "pods", "-A", *config]
    for what in ("jobs", "nodes", "pools"):
        ours = [sys.executable, "-m", "gpuctl", "get", what, *config]
        pairs = [(_wall(ours), _wall(theirs)) for _ in range(2 * ROUNDS)]
        first, second = (statistics.median(column) for column in zip(*pairs, strict=True))
        value = f"{first / second:.2f}x ({first:.2f} s / {second:.2f} s)"
        report(f"get {what}, small cluster / kubectl get pods -A", value, "<= 2x", first <= 2 * second)


def fill(plane: ControlPlane, directory: Path, nodes: int = NODES) -> None:
    """Nodes, and pods that run on them."""
    labels = {"runwhere.ai/pool": "inference-pool"}
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda number: plane.add_node(f"gpu-{number}", labels=labels, gpus=32, cpu="256", memory="2Ti"),
                range(nodes),
            )
        )
    plane.wait_for_nodes()
    path = directory / "fleet.yaml"
    path.write_text("---\n".join(map(document, range(NAMESPACES))))
    command = [sys.executable, "-m", "gpuctl", "apply", "-f", str(path), "--yes"]
    subprocess.run([*command, "--kubeconfig", str(plane.kubeconfig())], check=True, stdout=subprocess.DEVNULL)

    def running() -> bool:
        listed = json.loads(plane.kubectl("get", "deployments", "-A", "-o", "json"))["items"]
        ready = sum(int((item.get("status") or {}).get("readyReplicas") or 0) for item in listed)
        return ready == NAMESPACES * REPLICAS

    plane.wait_for(running, f"{NAMESPACES * REPLICAS} pods", timeout=900)


def _wall(command: list[str]) -> float:
    start = time.perf_counter()
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr[-2000:]}")
    return time.perf_counter() - start

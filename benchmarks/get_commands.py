"""Compare the `get` commands with kubectl on a large cluster."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster import CommandRunner
from timing import alternate, medians, seconds, timed

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane

NODES, NAMESPACES, REPLICAS = 200, 100, 50
ROUNDS = 5

Report = Callable[[str, str, str, "bool | None"], None]


def document(number: int) -> str:
    """Return a service of many pods in its own namespace."""
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
    """Report `get jobs`, and `get nodes` and `get pools` for information."""
    with ControlPlane(binaries) as plane:
        measure_small_cluster(plane, report)
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
            _compare(report, f"{what}, {pods} / kubectl", [*ours, *mine, *config], [*kubectl, *other], ROUNDS, bar)


def measure_small_cluster(plane: ControlPlane, report: Report) -> None:
    """Report the commands on an almost empty cluster: their fixed cost."""
    config = ["--kubeconfig", str(plane.kubeconfig())]
    theirs = [str(plane.binaries / "kubectl"), "get", "pods", "-A", *config]
    for what in ("jobs", "nodes", "pools"):
        ours = [sys.executable, "-m", "gpuctl", "get", what, *config]
        _compare(report, f"get {what}, small cluster / kubectl get pods -A", ours, theirs, 4 * ROUNDS, 2.5)


def _compare(
    report: Report, what: str, ours: Sequence[str], theirs: Sequence[str], rounds: int, bar: float | None
) -> None:
    """Report one row. Both commands run once before, so that first reads from disk and of the API server's caches do
    not count.
    """
    timed(ours)
    timed(theirs)
    mine, others = map(medians, alternate(ours, theirs, rounds))
    ok = None if bar is None else mine.wall <= bar * others.wall
    value = f"{mine.wall / others.wall:.2f}x {seconds(mine, others, 3)}"
    report(what, value, f"<= {bar:g}x" if bar else "", ok)


def add_nodes(plane: ControlPlane, pools: Sequence[str], gpus: int) -> None:
    """Add a ready node with ``gpus`` GPUs for each entry of ``pools``."""

    def add(item: tuple[int, str]) -> None:
        number, pool = item
        labels = {"runwhere.ai/pool": pool}
        plane.add_node(f"gpu-{number}", labels=labels, gpus=gpus, cpu="256", memory="2Ti")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, enumerate(pools)))
    plane.wait_for_nodes()


def fill(plane: ControlPlane, directory: Path, nodes: int = NODES) -> None:
    """Add nodes, and pods that run on them."""
    add_nodes(plane, ["inference-pool"] * nodes, 32)
    path = directory / "fleet.yaml"
    path.write_text("---\n".join(map(document, range(NAMESPACES))))
    CommandRunner(plane).gpuctl("apply", "-f", str(path))

    until_ready(plane, NAMESPACES * REPLICAS, timeout=900)


def until_ready(plane: ControlPlane, pods: int, timeout: float) -> None:
    """Wait until ``pods`` pods of Deployments are ready in all namespaces."""

    def ready() -> int:
        listed = plane.get("deployments", "-A")["items"]
        return sum(int((item.get("status") or {}).get("readyReplicas") or 0) for item in listed)

    plane.wait_for(lambda: ready() == pods, f"{pods} pods", timeout=timeout)

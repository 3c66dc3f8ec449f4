"""Measure `fit` on a live cluster of 8,000 GPUs, and its accuracy: the jobs are then applied."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import get_commands
from cluster import CommandRunner

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane
from gpuctl.capacity.fit.verdicts import STARTS

NODES, GPUS, POOLS, JOBS = 1000, 8, 20, 100
SECONDS, BYTES, WRONG = 10.0, 1 << 30, 0.03
QUIET, PATIENCE = 20.0, 1200.0

Report = Callable[[str, str, str, "bool | None"], None]


def service(draw: random.Random, number: int, pool: int, nodes: int) -> tuple[str, int]:
    """Return a running low-priority service on up to a quarter of a pool's GPUs, and its number of GPUs."""
    gpus = draw.choice((1, 2, 2, 4))
    replicas = nodes * GPUS // draw.choice((4, 5, 6)) // gpus
    lines = [
        *_head("inference", f"model-{number}", "low"),
        *_needs(gpus, pool),
        "service:",
        f"  replicas: {replicas}",
        "  port: 8000",
    ]
    return "\n".join(lines) + "\n", gpus * replicas


def training(draw: random.Random, number: int) -> str:
    """Return a submitted training of one to four pods."""
    priority = draw.choice(("low", "medium", "medium", "high"))
    lines = [*_head("training", f"train-{number}", priority), *_needs(draw.choice((1, 2, 4, 8)), draw.randrange(POOLS))]
    return "\n".join([*lines, f"  nodes: {draw.choice((1, 1, 2, 4))}"]) + "\n"


def _head(kind: str, name: str, priority: str) -> list[str]:
    return [
        f"kind: {kind}",
        "version: v0.1",
        "job:",
        f"  name: {name}",
        "  namespace: submission",
        f"  priority: {priority}",
        "environment:",
        "  image: registry.example.com/model:v1",
        '  command: ["python", "main.py"]',
    ]


def _needs(gpus: int, pool: int) -> list[str]:
    return ["resources:", f"  pool: pool-{pool}", f"  gpu: {gpus}", f"  cpu: {4 * gpus}", f"  memory: {32 * gpus}Gi"]


def measure(directory: Path, binaries: Path, report: Report, nodes: int = NODES) -> None:
    """Report time, memory, and the agreement with the scheduler."""
    draw = random.Random(8)
    with ControlPlane(binaries) as plane:
        _fill(plane, directory, draw, nodes)
        path = directory / "submission.yaml"
        path.write_text("---\n".join(training(draw, number) for number in range(JOBS)))
        config = ["--kubeconfig", str(plane.kubeconfig())]
        command = [sys.executable, "-m", "gpuctl", "fit", "-f", str(path), "-o", "json", *config]
        told = directory / "fit.json"
        began = time.perf_counter()
        with told.open("w") as answer:
            process = subprocess.Popen(command, stdout=answer, stderr=subprocess.DEVNULL)
        # Usage of this child alone: others may have used more.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall, cpu, peak = time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
        answers = json.loads(told.read_text())["jobs"]
        verdicts = Counter(answer["verdict"] for answer in answers)
        what = f"fit -f, {JOBS} jobs, live cluster of {nodes * GPUS} GPUs on {nodes} nodes"
        report(what, f"{wall:.1f} s, CPU {cpu:.1f} s ({dict(verdicts)})", f"<= {SECONDS:g} s", wall <= SECONDS)
        report(f"{what}: memory", f"{peak >> 20} MiB", f"<= {BYTES >> 20} MiB", peak <= BYTES)
        CommandRunner(plane).gpuctl("apply", "-f", str(path))
        bound = _settled(plane)
        # An evicted training has failed and has no pods left.
        started = [bound.get(item["name"], False) for item in answers]
        starts = [item["verdict"] in STARTS for item in answers]
        wrong = [item for item, one, other in zip(answers, starts, started, strict=True) if one != other]
        certain = sum(item["certain"] for item in answers)
        misled = sum(item["certain"] for item in wrong)
        value = f"{JOBS - len(wrong)} of {JOBS} right, {misled} of {certain} certain ones wrong"
        ok = len(wrong) <= WRONG * JOBS and not misled
        report(f"{what}: as the scheduler did", value, f"<= {WRONG:.0%} wrong", ok)


def _fill(plane: ControlPlane, directory: Path, draw: random.Random, nodes: int) -> None:
    """Add nodes in pools of equal size, with about nine tenths of their GPUs in use."""
    plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "submission"}})
    get_commands.add_nodes(plane, [f"pool-{number % POOLS}" for number in range(nodes)], GPUS)
    documents: list[str] = []
    for pool in range(POOLS):
        size = nodes // POOLS
        free = size * GPUS
        while free > size * GPUS // 8:
            text, used = service(draw, len(documents), pool, size)
            if used > free:
                break
            free -= used
            documents.append(text)
    path = directory / "running.yaml"
    path.write_text("---\n".join(documents))
    CommandRunner(plane).gpuctl("apply", "-f", str(path))
    _settled(plane)


def _settled(plane: ControlPlane) -> dict[str, bool]:
    """Wait until the scheduler is idle; return for each training whether all of its pods have a node."""
    last: Any = None
    began = since = time.monotonic()
    while time.monotonic() - since < QUIET:
        pods = plane.requests.call("GET", "/api/v1/namespaces/submission/pods")["items"]
        nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in pods}
        told = all(nodes[pod["metadata"]["name"]] or pod["status"].get("conditions") for pod in pods)
        if nodes != last or not told:
            last, since = nodes, time.monotonic()
        assert time.monotonic() - began < PATIENCE, "the scheduler does not come to rest"
        time.sleep(2)
    started: dict[str, bool] = {}
    for pod in pods:
        name = pod["metadata"]["labels"]["app"]
        started[name] = started.get(name, True) and bool(pod["spec"].get("nodeName"))
    return started

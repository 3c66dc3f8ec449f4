"""Measure the collector of GPU usage on a large cluster: what it needs, how soon it knows, and what a kill loses.

    python benchmarks/collector_scale.py

Alone it prints the rows; `make bench` prints them among the others. API server, scheduler and controllers are real; the
nodes and their kubelets are simulated.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import get_commands
from cluster import Contest

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane, find_binaries
from gpuctl_usage.store.database import open_database

NODES, OF_A_NODE = 1000, 8
TEAMS, WITH, WITHOUT = 100, 79, 21
"""Of each team so many pods have a GPU, and so many none."""
MOST_MIB = 300

Report = Callable[[str, str, str, "bool | None"], None]


def document(team: int) -> str:
    """What a team runs: a service of many pods with GPUs, and one without."""
    return f"""\
kind: inference
version: v0.1
job: {{name: model, namespace: team-{team}}}
environment: {{image: "registry.example.com/model-{team}:v1"}}
resources: {{pool: inference-pool, gpu: 1, cpu: 2, memory: 8Gi}}
service: {{replicas: {WITH}, port: 8000}}
---
kind: compute
version: v0.1
job: {{name: web, namespace: team-{team}}}
environment: {{image: "registry.example.com/web-{team}:v1"}}
resources: {{pool: inference-pool, cpu: 1, memory: 1Gi}}
service: {{replicas: {WITHOUT}, port: 9000}}
"""


class CollectorProcess:
    """`gpuctl usage collect` in a process of its own."""

    def __init__(self, plane: ControlPlane, path: Path) -> None:
        self.path = path
        self._command = [sys.executable, "-m", "gpuctl", "usage", "collect", "--database", str(path)]
        self._environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
        self.mib = 0.0
        self.start()

    def start(self) -> None:
        """Start it, again."""
        self._process = subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL)

    def look(self) -> None:
        """Note the most memory that it has had."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        if self._process.poll() is not None or found is None:
            raise RuntimeError("the collector has ended")
        self.mib = max(self.mib, int(found[1]) / 1024)

    def kill(self) -> None:
        """End it as a machine does that fails."""
        self.look()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """The rows of the collector."""
    with ControlPlane(binaries) as plane:
        get_commands.add_nodes(plane, ["inference-pool"] * NODES, OF_A_NODE)
        collector = CollectorProcess(plane, directory / "usage.db")
        try:
            _measure(plane, collector, directory, report)
        finally:
            collector.kill()


def _measure(plane: ControlPlane, collector: CollectorProcess, directory: Path, report: Report) -> None:
    path = directory / "teams.yaml"
    path.write_text("---\n".join(map(document, range(TEAMS))))
    # The collector makes its database first.
    plane.wait_for(lambda: collector.path.exists(), "the database")
    start = time.monotonic()
    Contest(plane).gpuctl("apply", "-f", str(path))
    get_commands.until_ready(plane, TEAMS * (WITH + WITHOUT), timeout=1800)
    took = time.monotonic() - start
    late = _until_known(plane, collector)
    what = f"collector, {NODES:,} nodes, {NODES * OF_A_NODE:,} GPUs, {TEAMS * (WITH + WITHOUT):,} pods"
    report(f"{what}: all known after the last one runs", f"{late:.1f} s (they came in {took:.0f} s)", "", None)
    collector.kill()
    first, last = _gone(plane, 0), _gone(plane, 1)
    plane.kubectl("scale", "deployment/model", "-n", "team-2", f"--replicas={WITH + 2}")
    plane.wait_for(lambda: len(_running(plane, "-n", "team-2")) == WITH + 2, "two more pods")
    collector.start()
    again = _until_known(plane, collector)
    wrong = _lost(plane, collector, first | last)
    report(
        f"{what}: after kill -9, and changes meanwhile",
        f"{again:.1f} s, {wrong} intervals lost or doubled",
        "0",
        wrong == 0,
    )
    collector.look()
    report(f"{what}: memory", f"{collector.mib:.0f} MiB", f"< {MOST_MIB} MiB", collector.mib < MOST_MIB)


def _running(plane: ControlPlane, *where: str) -> set[str]:
    """The uids of the pods with GPUs that run: ``-A``, or ``-n`` and a namespace."""
    listed = plane.get("pods", *where, "-l", "app=model")["items"]
    return {item["metadata"]["uid"] for item in listed if item["status"].get("phase") == "Running"}


def _gone(plane: ControlPlane, team: int) -> set[str]:
    """A team's pods with GPUs, which are deleted and come again."""
    where = ("-n", f"team-{team}")
    before = _running(plane, *where)
    plane.kubectl("delete", "pods", *where, "-l", "app=model", "--wait=false")
    plane.wait_for(lambda: len(_running(plane, *where) - before) == WITH, "a team's pods to come again", timeout=600)
    return before


def _until_known(plane: ControlPlane, collector: CollectorProcess) -> float:
    """Seconds until exactly those pods hold GPUs, by the database, that do."""
    running = _running(plane, "-A")
    start = time.monotonic()
    with closing(open_database(str(collector.path))) as database:
        plane.wait_for(
            lambda: {item.pod_uid for item in database.open_holdings(1)} == running, "the collector to know all", 600
        )
    return time.monotonic() - start


def _lost(plane: ControlPlane, collector: CollectorProcess, gone: set[str]) -> int:
    """How many pods have not one interval each, that lasts where they do. ``gone`` are those that do not."""
    with closing(open_database(str(collector.path))) as database:
        found: dict[str, list[Any]] = {}
        for item in database.holdings(1, 0, 2**40):
            found.setdefault(item.pod_uid, []).append(item)
    wanted = _running(plane, "-A") | gone
    wrong = {uid for uid in wanted if len(found.get(uid, ())) != 1 or (found[uid][0].end is None) == (uid in gone)}
    return len(wrong | (found.keys() - wanted))


def _row(what: str, value: str, bar: str, ok: bool | None) -> None:
    print(f"{what:<95} {value:>50}   {bar:<12} {'' if ok is None else 'ok' if ok else 'MISSED'}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), find_binaries(), _row)

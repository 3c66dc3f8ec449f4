"""Measure the usage collector on a large cluster: memory, delay, and losses after a kill.

    python benchmarks/collector_scale.py

Run alone, it prints its rows; `make bench` includes them. API server, scheduler and controllers are real; nodes and
kubelets are simulated.
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
from cluster import CommandRunner

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane, find_binaries
from gpuctl_usage.store.database import open_database

NODES, OF_A_NODE = 1000, 8
TEAMS, WITH, WITHOUT = 100, 79, 21
"""Number of teams, and of each team's pods with and without a GPU."""
MOST_MIB = 300

Report = Callable[[str, str, str, "bool | None"], None]


def document(team: int) -> str:
    """Return the documents of a team: a service of many pods with GPUs, and one without GPUs."""
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
    """`gpuctl usage collect` in its own process."""

    def __init__(self, plane: ControlPlane, path: Path) -> None:
        self.path = path
        self._command = [sys.executable, "-m", "gpuctl", "usage", "collect", "--database", str(path)]
        self._environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig())}
        self.peak_mib = 0.0
        self.start()

    def start(self) -> None:
        """Start the collector, or start it again."""
        self._process = subprocess.Popen(self._command, env=self._environment, stderr=subprocess.DEVNULL)

    def record_memory(self) -> None:
        """Record the peak memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        if self._process.poll() is not None or found is None:
            raise RuntimeError("the collector has ended")
        self.peak_mib = max(self.peak_mib, int(found[1]) / 1024)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.record_memory()
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """Report the rows of the collector."""
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
    # The collector creates its database before it lists the cluster.
    plane.wait_for(lambda: collector.path.exists(), "the database")
    start = time.monotonic()
    CommandRunner(plane).gpuctl("apply", "-f", str(path))
    get_commands.until_ready(plane, TEAMS * (WITH + WITHOUT), timeout=1800)
    took = time.monotonic() - start
    late = _until_known(plane, collector)
    what = f"collector, {NODES:,} nodes, {NODES * OF_A_NODE:,} GPUs, {TEAMS * (WITH + WITHOUT):,} pods"
    report(f"{what}: all known after the last one runs", f"{late:.1f} s (they came in {took:.0f} s)", "", None)
    collector.kill()
    first, last = _replace_pods(plane, 0), _replace_pods(plane, 1)
    plane.kubectl("scale", "deployment/model", "-n", "team-2", f"--replicas={WITH + 2}")
    plane.wait_for(lambda: len(_running(plane, "-n", "team-2")) == WITH + 2, "two more pods")
    collector.start()
    again = _until_known(plane, collector)
    wrong = _count_wrong(plane, collector, first | last)
    report(
        f"{what}: after kill -9, and changes meanwhile",
        f"{again:.1f} s, {wrong} intervals lost or doubled",
        "0",
        wrong == 0,
    )
    collector.record_memory()
    report(f"{what}: memory", f"{collector.peak_mib:.0f} MiB", f"< {MOST_MIB} MiB", collector.peak_mib < MOST_MIB)


def _running(plane: ControlPlane, *where: str) -> set[str]:
    """Return the uids of running pods with GPUs; ``where`` is ``-A``, or ``-n`` and a namespace."""
    listed = plane.get("pods", *where, "-l", "app=model")["items"]
    return {item["metadata"]["uid"] for item in listed if item["status"].get("phase") == "Running"}


def _replace_pods(plane: ControlPlane, team: int) -> set[str]:
    """Delete a team's pods with GPUs, wait until they are replaced, and return the deleted uids."""
    where = ("-n", f"team-{team}")
    before = _running(plane, *where)
    plane.kubectl("delete", "pods", *where, "-l", "app=model", "--wait=false")
    plane.wait_for(lambda: len(_running(plane, *where) - before) == WITH, "a team's pods to come again", timeout=600)
    return before


def _until_known(plane: ControlPlane, collector: CollectorProcess) -> float:
    """Return the seconds until the database has exactly the running pods as holders."""
    running = _running(plane, "-A")
    start = time.monotonic()
    with closing(open_database(str(collector.path))) as database:
        plane.wait_for(
            lambda: {item.pod_uid for item in database.open_holdings(1)} == running, "the collector to know all", 600
        )
    return time.monotonic() - start


def _count_wrong(plane: ControlPlane, collector: CollectorProcess, gone: set[str]) -> int:
    """Count the pods that do not have exactly one interval, or whose interval is open although the pod is in ``gone``
    (or closed although it is not).
    """
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

"""Measure the REST service on a large cluster: latency, memory, freshness and start."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane
from get_commands import NAMESPACES, REPLICAS, fill
from gpuctl_server.access.tokens import new_token, write_tokens

NODES = 500
CLIENTS = 50
SECONDS = 10
ROUNDS = 3
BATCH = 100
PLANS = 16

Report = Callable[[str, str, str, "bool | None"], None]


class ServerProcess(NamedTuple):
    """A running service: its process and address."""

    process: subprocess.Popen[str]
    host: str
    port: int
    token: str
    ready_after: float

    def get(self, path: str) -> Any:
        """Return the JSON response to a GET request."""
        request = urllib.request.Request(f"http://{self.host}:{self.port}{path}")
        request.add_header("Authorization", f"Bearer {self.token}")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def post(self, path: str, value: Any) -> Any:
        """Return the JSON response to a POST request with a JSON body."""
        request = urllib.request.Request(f"http://{self.host}:{self.port}{path}", json.dumps(value).encode())
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=600) as answer:
            return json.load(answer)

    def cpu(self) -> float:
        """Return the CPU seconds that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self, what: str) -> float:
        """Return memory in MB: ``VmRSS`` is the current value, ``VmHWM`` the peak."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """Report the rows of the service."""
    with ControlPlane(binaries) as plane:
        fill(plane, directory, NODES)
        measure_on(plane, directory, report)


def measure_on(plane: ControlPlane, directory: Path, report: Report) -> None:
    """Report the rows of the service on a control plane with nodes and pods."""
    size = f"{NAMESPACES * REPLICAS} pods, {NODES} nodes"
    report("load of the machine", f"{os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs", "", None)
    with serving(plane, directory) as server:
        ready = server.ready_after
        value = f"{ready:.1f} s ({server.cpu():.1f} s of CPU)"
        report(f"service: start to ready, {size}", value, "<= 5 s", ready <= 5)
        jobs = [item["jobId"] for item in server.get("/api/v1/jobs?pageSize=1000")["items"]]
        _latency(server, "GET /jobs", ["/api/v1/jobs"], 60, report)
        _latency(
            server, "GET /jobs, twenty pages", [f"/api/v1/jobs?page={n}&pageSize=5" for n in range(1, 21)], 60, report
        )
        _latency(server, "GET /jobs/{jobId}", [f"/api/v1/jobs/{job}" for job in jobs], 20, report)
        _memory(server, report)
        _freshness(plane, server, report)
        _beside(plane, server, report)
        _memory(server, report)
        _batch(server, report)
    with serving(plane, directory) as server:
        _plans(server, report)


def _latency(server: ServerProcess, what: str, paths: list[str], bar: float, report: Report) -> None:
    begun, clients = server.cpu(), str(Path(__file__).with_name("clients.py"))
    command = [sys.executable, clients, server.host, str(server.port), server.token, str(SECONDS), str(CLIENTS), *paths]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert not found["bad"], found["bad"]
    cpu = (server.cpu() - begun) / found["requests"] * 1e6
    value = f"p50 {found['p50'] * 1000:.1f}, p95 {found['p95'] * 1000:.1f} ms"
    report(
        f"service: {what}, {CLIENTS} clients without a pause", value, f"p95 <= {bar:g} ms", found["p95"] * 1000 <= bar
    )
    report(
        "  CPU a request; requests a second; bytes",
        f"{cpu:.0f} us; {found['requests'] / SECONDS:.0f}; {found['bytes']:.0f}",
        "",
        None,
    )


def _memory(server: ServerProcess, report: Report) -> None:
    now, most = server.memory("VmRSS"), server.memory("VmHWM")
    report("service: memory of the whole process", f"{now:.0f} MB (at most {most:.0f})", "<= 150 MB", now <= 150)


def _batch(server: ServerProcess, report: Report) -> None:
    texts = [_document(f"batch-{number}") for number in range(BATCH)]
    begun = time.perf_counter()
    found = server.post("/api/v1/jobs/batch", {"yamlContents": texts})
    taken = time.perf_counter() - begun
    assert len(found["success"]) == BATCH, found["failed"][:3]
    report(f"service: POST /jobs/batch of {BATCH} entries", f"{taken:.1f} s", "<= 15 s", taken <= 15)


def _plans(server: ServerProcess, report: Report) -> None:
    """Report the peak memory of the process, which must fit the memory limit of its pod."""
    with ThreadPoolExecutor(PLANS) as pool:
        bodies = [{"yamlContent": _document(f"plan-{number}")} for number in range(PLANS)]
        list(pool.map(lambda body: server.post("/api/v1/plan", body), bodies))
    most = server.memory("VmHWM")
    report(f"service: memory after {PLANS} plans at the same time", f"at most {most:.0f} MB", "<= 250 MB", most <= 250)


def _document(name: str) -> str:
    return (
        f"kind: training\nversion: v0.1\njob: {{name: {name}, namespace: default}}\n"
        "environment: {image: 'registry.example.com/train:v1', command: [train]}\n"
        "resources: {gpu: 1, cpu: 1, memory: 1Gi}\n"
    )


def _freshness(plane: ControlPlane, server: ServerProcess, report: Report) -> None:
    """Report the time from the response to a pod's deletion until the service no longer returns the pod."""
    taken = []
    for number in range(5):
        job = server.get("/api/v1/jobs?page=1&pageSize=100")["items"][number]
        detail = server.get(f"/api/v1/jobs/{job['jobId']}")
        pod = detail["k8sResources"]["pods"][0]
        plane.kubectl("delete", "pod", pod, "-n", detail["namespace"], "--wait=false", "--grace-period=0", "--force")
        begun = time.perf_counter()
        while pod in server.get(f"/api/v1/jobs/{job['jobId']}")["k8sResources"]["pods"]:
            time.sleep(0.01)
        taken.append(time.perf_counter() - begun)
    value = statistics.median(taken)
    report("service: a pod's change to the answer", f"{value:.2f} s (at most {max(taken):.2f})", "<= 1 s", value <= 1)


def _beside(plane: ControlPlane, server: ServerProcess, report: Report) -> None:
    """Report the cost of the same query without the service: a kubectl process, and an API server list request."""
    config = ["--kubeconfig", str(plane.kubeconfig())]
    kubectl = [str(plane.binaries / "kubectl"), *config]
    path = "/api/v1/pods"
    rounds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        server.get("/api/v1/jobs?pageSize=1000")
        row = [time.perf_counter() - begun]
        for command in ([*kubectl, "get", "pods", "-A"], [*kubectl, "get", "--raw", path]):
            begun = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            row.append(time.perf_counter() - begun)
        rounds.append(row)
    ours, table, raw = (statistics.median(column) for column in zip(*rounds, strict=True))
    for what, theirs in (("kubectl get pods -A", table), ("an uncached LIST of pods", raw)):
        report(
            f"service: GET /jobs, all / {what}",
            f"{ours / theirs:.3f}x ({ours * 1000:.0f} ms / {theirs * 1000:.0f} ms)",
            "",
            None,
        )


@contextmanager
def serving(plane: ControlPlane, directory: Path) -> Iterator[ServerProcess]:
    """Start a service and yield it when it is ready."""
    token, entry = new_token("bench", "admin")
    write_tokens(directory / "tokens.json", [entry])
    own = {"tokens": str(directory / "tokens.json"), "port": "0", "kubeconfig": str(plane.kubeconfig())}
    environment = {**os.environ, **{f"GPUCTL_SERVER_{name.upper()}": value for name, value in own.items()}}
    begun = time.perf_counter()
    with (directory / "service.log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "gpuctl_server"], env=environment, stderr=log, text=True)
    try:
        port = 0
        while not port:
            time.sleep(0.02)
            said = (directory / "service.log").read_text()
            assert process.poll() is None, said
            if "gpuctl serves http://" in said:
                port = int(said.partition("gpuctl serves http://127.0.0.1:")[2].partition("/")[0])
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60):
                    break
            except urllib.error.HTTPError:
                time.sleep(0.02)
        yield ServerProcess(process, "127.0.0.1", port, token, time.perf_counter() - begun)
    finally:
        process.terminate()
        process.wait(timeout=60)


if __name__ == "__main__":
    import tempfile

    from control_plane import find_binaries

    def _say(what: str, value: str, bar: str, ok: bool | None) -> None:
        print(f"{what:<75} {value:>35}   {bar:<18} {'' if ok is None else 'ok' if ok else 'MISSED'}", flush=True)

    with tempfile.TemporaryDirectory() as name:
        measure(Path(name), find_binaries(), _say)

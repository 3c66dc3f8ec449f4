"""Measure the cluster half beside kubectl: the same objects, on one real API server, in turns.

Without pods, Deployments show what the tools and the API server take; with one pod each, what controllers and the
garbage collector add. Only ratios within one run have bars.
"""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gpuctl

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane

NAMESPACE = "team-a"
DOCUMENTS = 200
"""Each becomes a Deployment and a Service."""
UNCHANGED = 1000
ROUNDS = 3
NODES = 3
"""A node takes 110 pods."""
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})

Report = Callable[[str, str, str, "bool | None"], None]


def document(number: int, image: str, replicas: int) -> str:
    """The n-th document. All pods differ, as those of different people do."""
    return f"""\
kind: compute
version: v0.1
job:
  name: job-{number}
  namespace: {NAMESPACE}
  description: number {number}
environment:
  image: registry.example.com/app-{number}:{image}
  command: ["python", "main.py", "--seed", "{number}"]
  env:
    - name: MODE
      value: m{number}
resources:
  gpu: 0
  cpu: 1
  memory: {1 + number % 8}Gi
storage:
  workdirs:
    - path: /data/{number}
service:
  replicas: {replicas}
"""


class Files(NamedTuple):
    """Documents, and what they become, as kubectl takes it: everything, and the Deployments alone."""

    documents: str
    objects: str
    deployments: str


def files(directory: Path, name: str, count: int, image: str, replicas: int) -> Files:
    """``count`` documents in a file, and their objects without those that jobs share."""
    result = Files(*(str(directory / f"{name}-{part}") for part in ("documents.yaml", "objects.json", "main.json")))
    Path(result.documents).write_text("---\n".join(document(number, image, replicas) for number in range(count)))
    compilation = gpuctl.compile(result.documents)
    assert compilation.ok, compilation.diagnostics
    objects = [obj for obj in compilation.objects if obj["kind"] in ("Deployment", "Service")]
    deployments = [obj for obj in objects if obj["kind"] == "Deployment"]
    assert (len(objects), len(deployments)) == (2 * count, count)
    _write_list(result.objects, objects)
    _write_list(result.deployments, deployments)
    return result


def _write_list(path: str, objects: Iterable[dict[str, Any]]) -> None:
    Path(path).write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


class Contest:
    """Both tools against one control plane. Their methods return the seconds that a command takes, its start included.

    ``times`` collects them by what was done.
    """

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def gpuctl(self, *arguments: str) -> float:
        """Run a command of ours that needs no consent."""
        return self._run([sys.executable, "-m", "gpuctl", *arguments, "--yes"], {0})

    def kubectl(self, *arguments: str, codes: Sequence[int] = (0,)) -> float:
        """Run kubectl; it succeeds with one of ``codes``."""
        return self._run([str(self.plane.binaries / "kubectl"), *arguments, "--namespace", NAMESPACE], set(codes))

    def _run(self, command: list[str], codes: set[int]) -> float:
        start = time.perf_counter()
        result = subprocess.run(
            [*command, "--kubeconfig", str(self.plane.kubeconfig())], capture_output=True, text=True
        )
        seconds = time.perf_counter() - start
        if result.returncode not in codes:
            raise RuntimeError(f"{' '.join(command)}: {result.stderr[-2000:]}")
        return seconds

    def settle(self, count: int, replicas: int) -> None:
        """Wait until controllers and garbage collector have done with ``count`` Deployments."""

        def settled() -> bool:
            found = self.plane.get("deployments,replicasets,pods,services", "-n", NAMESPACE)["items"]
            kinds = [item["kind"] for item in found]
            # Not the replicas that are available: a node that misses a heartbeat on a busy machine takes that away.
            phases = [item["status"].get("phase") for item in found if item["kind"] == "Pod"]
            return (
                kinds.count("Deployment") == kinds.count("Service") == kinds.count("ReplicaSet") == count
                and phases == ["Running"] * count * replicas
            )

        self.plane.wait_for(settled, f"{count} Deployments", timeout=300)
        # The API server allots addresses to Services at 50 a second, 100 at once: both find it rested.
        time.sleep(2)


def changing(contest: Contest, directory: Path, replicas: int, report: Report) -> None:
    """Applying what is new, replacing all Deployments, deleting everything."""
    new = files(directory, f"new-{replicas}", DOCUMENTS, "v1", replicas)
    changed = files(directory, f"changed-{replicas}", DOCUMENTS, "v2", replicas)
    times: dict[str, list[float]] = {}

    def timed(what: str, seconds: float, left: int) -> None:
        times.setdefault(what, []).append(seconds)
        contest.settle(left, replicas)

    for number in range(ROUNDS):
        timed("our apply", contest.gpuctl("apply", "-f", new.documents), DOCUMENTS)
        timed("our replace", contest.gpuctl("apply", "-f", changed.documents), DOCUMENTS)
        timed("our delete", contest.gpuctl("delete", "-f", changed.documents), 0)
        timed("apply", contest.kubectl("apply", "-f", new.objects), DOCUMENTS)
        timed("replace", contest.kubectl("replace", "--force", "-f", changed.deployments), DOCUMENTS)
        if number == 0:
            # One wait after another, hundreds of them: once is enough to know.
            timed("delete", contest.kubectl("delete", "--wait", "-f", changed.objects), 0)
        else:
            timed("our delete", contest.gpuctl("delete", "-f", changed.documents), 0)
        # A difference is exit code 1.
        difference = contest.kubectl("diff", "-f", new.objects, codes=(1,))
        timed("diff and apply", difference + contest.kubectl("apply", "-f", new.objects), DOCUMENTS)
        timed("our delete", contest.gpuctl("delete", "-f", new.documents), 0)

    pods = f"{replicas} pods each"
    everything = f"{DOCUMENTS} Deployments and Services, {pods}"
    ours = times["our apply"]
    _compare(report, f"apply of {everything} / kubectl apply", ours, times["apply"], at_most=1.5)
    _compare(report, "  the same / kubectl diff and kubectl apply", ours, times["diff and apply"], faster=2.5)
    what = f"replacing {DOCUMENTS} Deployments, {pods} / kubectl replace --force"
    _compare(report, what, times["our replace"], times["replace"], at_most=1.5)
    _compare(report, f"delete of {everything} / kubectl delete", times["our delete"], times["delete"], faster=5)


def unchanged(contest: Contest, directory: Path, report: Report) -> None:
    """A second apply of what is there already. Without nodes, whose kubelets write all the time."""
    many = files(directory, "many", UNCHANGED, "v1", 0)
    contest.gpuctl("apply", "-f", many.documents)
    contest.settle(UNCHANGED, 0)
    before = _writes(contest.plane)
    ours = [contest.gpuctl("apply", "-f", many.documents) for _ in range(ROUNDS)]
    writes = _writes(contest.plane) - before
    # The first one takes our fields over, and adds a manager to each object; the second has nothing to do.
    arguments = ("apply", "--server-side", "--force-conflicts", "-f", many.objects)
    contest.kubectl(*arguments)
    theirs = [contest.kubectl(*arguments)]
    what = f"second apply of {UNCHANGED} unchanged Deployments and Services"
    _compare(report, f"{what} / kubectl apply --server-side", ours, theirs, faster=10)
    report(f"  {ROUNDS} times the same: writes", f"{writes}", "0", writes == 0)
    contest.gpuctl("delete", "-f", many.documents)
    contest.settle(0, 0)


def _writes(plane: ControlPlane) -> int:
    """Requests so far that changed something, as the API server counts them.

    Reviews of rights change nothing, and updates of leases (not their creation) are the API server's own.
    """
    total = 0
    for line in plane.kubectl("get", "--raw", "/metrics").splitlines():
        match = re.fullmatch(r"apiserver_request_total\{(.*)\} (\S+)", line)
        if match is None:
            continue
        labels = dict(re.findall(r'(\w+)="([^"]*)"', match[1]))
        verb, resource = labels["verb"], labels["resource"]
        if verb in WRITES and not labels["dry_run"] and not resource.endswith("reviews"):
            total += 0 if (resource, verb) == ("leases", "PUT") else int(float(match[2]))
    return total


def _compare(
    report: Report, what: str, ours: list[float], theirs: list[float], *, at_most: float = 0, faster: float = 0
) -> None:
    """A row: medians, ours against theirs."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    seconds = f"({mine:.1f} s / {other:.1f} s)"
    if faster:
        report(what, f"{other / mine:.1f}x faster {seconds}", f">= {faster:g}x faster", other >= faster * mine)
    else:
        report(what, f"{mine / other:.2f}x {seconds}", f"<= {at_most:g}x", mine <= at_most * other)


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """All rows."""
    with ControlPlane(binaries) as plane:
        contest = Contest(plane)
        unchanged(contest, directory, report)
        for number in range(NODES):
            plane.add_node(f"node-{number}", cpu="200", memory="2Ti")
        plane.wait_for_nodes()
        for replicas in (0, 1):
            changing(contest, directory, replicas, report)

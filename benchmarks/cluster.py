"""Compare apply, replace and delete with kubectl: the same objects on one real API server, alternating.

Deployments without pods show the cost of the tools and the API server; with one pod each, also that of controllers and
the garbage collector. Only ratios within one run have limits.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import gpuctl
from timing import Taken, medians, seconds, timed

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from control_plane import ControlPlane

NAMESPACE = "team-a"
DOCUMENTS = 200
"""Each becomes a Deployment and a Service."""
UNCHANGED = 1000
ROUNDS = 3
NODES = 3
"""A node runs up to 110 pods."""
WRITES = frozenset({"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"})

Report = Callable[[str, str, str, "bool | None"], None]


def document(number: int, image: str, replicas: int) -> str:
    """Return document ``number``. All pod templates differ, as those of different users do."""
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
    """Paths of the documents and of their objects as kubectl reads them: all objects, and the Deployments alone."""

    documents: str
    objects: str
    deployments: str


def files(directory: Path, name: str, count: int, image: str, replicas: int) -> Files:
    """Write ``count`` documents to a file, and their objects without those that jobs share."""
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


class CommandRunner:
    """Runs both tools against one control plane. The methods return how long a command takes, including its start."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._config = ("--kubeconfig", str(plane.kubeconfig()))

    def gpuctl(self, *arguments: str) -> Taken:
        """Run a gpuctl command with ``--yes``."""
        return timed([sys.executable, "-m", "gpuctl", *arguments, "--yes", *self._config])

    def kubectl(self, *arguments: str, codes: Collection[int] = (0,)) -> Taken:
        """Run kubectl, which must exit with one of ``codes``."""
        command = [str(self.plane.binaries / "kubectl"), *arguments, "--namespace", NAMESPACE, *self._config]
        return timed(command, codes)

    def settle(self, count: int, replicas: int) -> float:
        """Wait until controllers and the garbage collector have finished with ``count`` Deployments; return the
        seconds.
        """

        def settled() -> bool:
            found = self.plane.get("deployments,replicasets,pods,services", "-n", NAMESPACE)["items"]
            kinds = [item["kind"] for item in found]
            # Not the available replicas: a node that misses a heartbeat on a busy machine makes them unavailable.
            phases = [item["status"].get("phase") for item in found if item["kind"] == "Pod"]
            return (
                kinds.count("Deployment") == kinds.count("Service") == kinds.count("ReplicaSet") == count
                and phases == ["Running"] * count * replicas
            )

        start = time.perf_counter()
        self.plane.wait_for(settled, f"{count} Deployments", timeout=300)
        taken = time.perf_counter() - start
        # The API server allocates Service addresses at 50 per second with a burst of 100: let the burst refill.
        time.sleep(2)
        return taken


def measure_changes(runner: CommandRunner, directory: Path, replicas: int, report: Report) -> None:
    """Measure applying new objects, replacing all Deployments and deleting everything.

    Both tools replace objects that gpuctl applied; the order of the tools alternates between rounds.
    """
    new = files(directory, f"new-{replicas}", DOCUMENTS, "v1", replicas)
    changed = files(directory, f"changed-{replicas}", DOCUMENTS, "v2", replicas)
    times: dict[str, list[Taken]] = {}
    running: dict[str, list[Taken]] = {}

    def note(what: str, taken: Taken, left: int) -> None:
        settled = Taken(runner.settle(left, replicas), 0.0)
        times.setdefault(what, []).append(taken)
        running.setdefault(what, []).append(taken + settled)

    def ours_replaces() -> None:
        note("our apply", runner.gpuctl("apply", "-f", new.documents), DOCUMENTS)
        note("our replace", runner.gpuctl("apply", "-f", changed.documents), DOCUMENTS)
        note("our delete", runner.gpuctl("delete", "-f", changed.documents), 0)

    def theirs_replaces() -> None:
        note("our apply", runner.gpuctl("apply", "-f", new.documents), DOCUMENTS)
        note("replace", runner.kubectl("replace", "--force", "-f", changed.deployments), DOCUMENTS)
        note("our delete", runner.gpuctl("delete", "-f", changed.documents), 0)

    for number in range(ROUNDS):
        for part in (ours_replaces, theirs_replaces) if number % 2 else (theirs_replaces, ours_replaces):
            part()
        note("apply", runner.kubectl("apply", "-f", new.objects), DOCUMENTS)
        if number == 0:
            # kubectl waits for each object in turn: measured once because it is slow.
            note("delete", runner.kubectl("delete", "--wait", "-f", new.objects), 0)
        else:
            note("our delete", runner.gpuctl("delete", "-f", new.documents), 0)
        # Exit code 1 means that there are differences.
        difference = runner.kubectl("diff", "-f", new.objects, codes=(1,))
        note("diff and apply", difference + runner.kubectl("apply", "-f", new.objects), DOCUMENTS)
        note("our delete", runner.gpuctl("delete", "-f", new.documents), 0)

    pods = f"{replicas} pods each"
    everything = f"{DOCUMENTS} Deployments and Services, {pods}"
    ours = times["our apply"]
    _compare(report, f"apply of {everything} / kubectl apply", ours, times["apply"], at_most=1.0)
    _compare(report, "  the same / kubectl diff and kubectl apply", ours, times["diff and apply"], faster=2.2)
    what = f"replacing {DOCUMENTS} Deployments, {pods} / kubectl replace --force"
    _compare(report, what, times["our replace"], times["replace"], at_most=1.5)
    if replicas:
        # kubectl does not wait for the old pods to end; they end beside the new ones.
        _compare(report, "  the same, until the new pods alone run", running["our replace"], running["replace"])
    _compare(report, f"delete of {everything} / kubectl delete", times["our delete"], times["delete"], faster=10)


def measure_unchanged(runner: CommandRunner, directory: Path, report: Report) -> None:
    """Measure a second apply without changes. Without nodes, because kubelets write all the time."""
    many = files(directory, "many", UNCHANGED, "v1", 0)
    runner.gpuctl("apply", "-f", many.documents)
    runner.settle(UNCHANGED, 0)
    before = _writes(runner.plane)
    ours = [runner.gpuctl("apply", "-f", many.documents) for _ in range(ROUNDS)]
    writes = _writes(runner.plane) - before
    # The first run takes over the fields and adds a manager to each object; the second has nothing to change.
    arguments = ("apply", "--server-side", "--force-conflicts", "-f", many.objects)
    runner.kubectl(*arguments)
    theirs = [runner.kubectl(*arguments)]
    what = f"second apply of {UNCHANGED} unchanged Deployments and Services"
    _compare(report, f"{what} / kubectl apply --server-side", ours, theirs, faster=15)
    report(f"  {ROUNDS} times the same: writes", f"{writes}", "0", writes == 0)
    runner.gpuctl("delete", "-f", many.documents)
    runner.settle(0, 0)


def _writes(plane: ControlPlane) -> int:
    """Return the number of requests so far that changed something, from the API server's metrics.

    Access reviews change nothing, and updates of leases (not their creation) come from the API server itself.
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
    report: Report, what: str, ours: list[Taken], theirs: list[Taken], *, at_most: float = 0, faster: float = 0
) -> None:
    """Report the medians of gpuctl against those of kubectl. Without a limit the row is informational."""
    mine, other = medians(ours), medians(theirs)
    told = seconds(mine, other)
    if faster:
        ok = other.wall >= faster * mine.wall
        report(what, f"{other.wall / mine.wall:.1f}x faster {told}", f">= {faster:g}x faster", ok)
    else:
        bar = f"<= {at_most:g}x" if at_most else ""
        ok_or_none = mine.wall <= at_most * other.wall if at_most else None
        report(what, f"{mine.wall / other.wall:.2f}x {told}", bar, ok_or_none)


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """Report all rows."""
    report("other work on the machine: load of the last minute", f"{os.getloadavg()[0]:.1f}", "", None)
    with ControlPlane(binaries) as plane:
        runner = CommandRunner(plane)
        measure_unchanged(runner, directory, report)
        for number in range(NODES):
            plane.add_node(f"node-{number}", cpu="200", memory="2Ti")
        plane.wait_for_nodes()
        for replicas in (0, 1):
            measure_changes(runner, directory, replicas, report)

"""Measure the cluster half beside kubectl: the same objects, on one real API server, in turns.

Without pods, Deployments show what the tools and the API server take; with one pod each, what controllers and the
garbage collector add. Only ratios within one run have bars.
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
    """Both tools against one control plane. Their methods return what a command takes, its start included."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self._config = ("--kubeconfig", str(plane.kubeconfig()))

    def gpuctl(self, *arguments: str) -> Taken:
        """Run a command of ours that needs no consent."""
        return timed([sys.executable, "-m", "gpuctl", *arguments, "--yes", *self._config])

    def kubectl(self, *arguments: str, codes: Collection[int] = (0,)) -> Taken:
        """Run kubectl; it succeeds with one of ``codes``."""
        command = [str(self.plane.binaries / "kubectl"), *arguments, "--namespace", NAMESPACE, *self._config]
        return timed(command, codes)

    def settle(self, count: int, replicas: int) -> float:
        """Wait until controllers and garbage collector have done with ``count`` Deployments; how long that took."""

        def settled() -> bool:
            found = self.plane.get("deployments,replicasets,pods,services", "-n", NAMESPACE)["items"]
            kinds = [item["kind"] for item in found]
            # Not the replicas that are available: a node that misses a heartbeat on a busy machine takes that away.
            phases = [item["status"].get("phase") for item in found if item["kind"] == "Pod"]
            return (
                kinds.count("Deployment") == kinds.count("Service") == kinds.count("ReplicaSet") == count
                and phases == ["Running"] * count * replicas
            )

        start = time.perf_counter()
        self.plane.wait_for(settled, f"{count} Deployments", timeout=300)
        taken = time.perf_counter() - start
        # The API server allots addresses to Services at 50 a second, 100 at once: both find it rested.
        time.sleep(2)
        return taken


def changing(contest: Contest, directory: Path, replicas: int, report: Report) -> None:
    """Applying what is new, replacing all Deployments, deleting everything.

    Both replace what our apply made; which of the two is first changes from round to round.
    """
    new = files(directory, f"new-{replicas}", DOCUMENTS, "v1", replicas)
    changed = files(directory, f"changed-{replicas}", DOCUMENTS, "v2", replicas)
    times: dict[str, list[Taken]] = {}
    running: dict[str, list[Taken]] = {}

    def note(what: str, taken: Taken, left: int) -> None:
        settled = Taken(contest.settle(left, replicas), 0.0)
        times.setdefault(what, []).append(taken)
        running.setdefault(what, []).append(taken + settled)

    def ours_replaces() -> None:
        note("our apply", contest.gpuctl("apply", "-f", new.documents), DOCUMENTS)
        note("our replace", contest.gpuctl("apply", "-f", changed.documents), DOCUMENTS)
        note("our delete", contest.gpuctl("delete", "-f", changed.documents), 0)

    def theirs_replaces() -> None:
        note("our apply", contest.gpuctl("apply", "-f", new.documents), DOCUMENTS)
        note("replace", contest.kubectl("replace", "--force", "-f", changed.deployments), DOCUMENTS)
        note("our delete", contest.gpuctl("delete", "-f", changed.documents), 0)

    for number in range(ROUNDS):
        for part in (ours_replaces, theirs_replaces) if number % 2 else (theirs_replaces, ours_replaces):
            part()
        note("apply", contest.kubectl("apply", "-f", new.objects), DOCUMENTS)
        if number == 0:
            # One wait after another, hundreds of them: once is enough to know.
            note("delete", contest.kubectl("delete", "--wait", "-f", new.objects), 0)
        else:
            note("our delete", contest.gpuctl("delete", "-f", new.documents), 0)
        # A difference is exit code 1.
        difference = contest.kubectl("diff", "-f", new.objects, codes=(1,))
        note("diff and apply", difference + contest.kubectl("apply", "-f", new.objects), DOCUMENTS)
        note("our delete", contest.gpuctl("delete", "-f", new.documents), 0)

    pods = f"{replicas} pods each"
    everything = f"{DOCUMENTS} Deployments and Services, {pods}"
    ours = times["our apply"]
    _compare(report, f"apply of {everything} / kubectl apply", ours, times["apply"], at_most=1.0)
    _compare(report, "  the same / kubectl diff and kubectl apply", ours, times["diff and apply"], faster=2.2)
    what = f"replacing {DOCUMENTS} Deployments, {pods} / kubectl replace --force"
    _compare(report, what, times["our replace"], times["replace"], at_most=1.5)
    if replicas:
        # kubectl does not wait until the old pods are gone, which then end beside the new ones.
        _compare(report, "  the same, until the new pods alone run", running["our replace"], running["replace"])
    _compare(report, f"delete of {everything} / kubectl delete", times["our delete"], times["delete"], faster=10)


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
    _compare(report, f"{what} / kubectl apply --server-side", ours, theirs, faster=15)
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
    report: Report, what: str, ours: list[Taken], theirs: list[Taken], *, at_most: float = 0, faster: float = 0
) -> None:
    """A row: medians, ours against theirs. Without a bar it only informs."""
    mine, other = medians(ours), medians(theirs)
    told = seconds(mine, other)
    if faster:
        ok = other.wall >= faster * mine.wall
        report(what, f"{other.wall / mine.wall:.1f}x faster {told}", f">= {faster:g}x faster", ok)
    else:
        bar, ok = (f"<= {at_most:g}x", mine.wall <= at_most * other.wall) if at_most else ("", None)
        report(what, f"{mine.wall / other.wall:.2f}x {told}", bar, ok)


def measure(directory: Path, binaries: Path, report: Report) -> None:
    """All rows."""
    report("other work on the machine: load of the last minute", f"{os.getloadavg()[0]:.1f}", "", None)
    with ControlPlane(binaries) as plane:
        contest = Contest(plane)
        unchanged(contest, directory, report)
        for number in range(NODES):
            plane.add_node(f"node-{number}", cpu="200", memory="2Ti")
        plane.wait_for_nodes()
        for replicas in (0, 1):
            changing(contest, directory, replicas, report)

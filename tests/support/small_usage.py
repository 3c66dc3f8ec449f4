"""A small cluster whose GPUs were used for some days: what was held, and what it did, is known to the hour."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from control_plane import ControlPlane
from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import (
    AllocationSnapshot,
    Capacity,
    CapacityState,
    GpuQuota,
    GpuSeries,
    Holding,
    WorkloadAllocation,
    WorkloadKey,
)
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.store.database import Database, open_database

INTERVAL = 600.0
STRANGE = "<script>alert('|x|')</script> & =1+1"
"""Annotations that may be collected."""


@dataclass(frozen=True)
class Worker:
    """A pod of a workload on some GPUs of a node, and its utilization in percent, hour by hour from ``start``.

    :param use: None for an hour without measurements; the last value holds for all later hours.
    :param end: None while it runs.
    """

    workload: WorkloadKey
    node: str
    gpus: int
    use: tuple[float | None, ...]
    start: float
    end: float | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def pod(self) -> str:
        """Its name."""
        return f"{self.workload.name}-0"

    def holding(self, model: str) -> Holding:
        """Return its holding as the collector stores it."""
        return Holding(
            f"uid-{self.pod}-{self.start:.0f}", self.workload.namespace, self.pod, self.workload, self.node,
            float(self.gpus), model, self.labels, self.annotations, self.start, self.start, self.end,
        )  # fmt: skip

    def series(self, first: float, last: float) -> Iterator[GpuSeries]:
        """Return its measurements after one time, until another."""
        times = [time for time in _ticks(first, last) if time > self.start and (self.end is None or time <= self.end)]
        known = [(time, use) for time in times if (use := self._use(time)) is not None]
        for number in range(self.gpus):
            made = array("d", [time for time, _ in known]), array("d", [use for _, use in known])
            yield GpuSeries(self.node, f"{self.pod}-{number}", self.workload.namespace, self.pod, *made)

    def _use(self, time: float) -> float | None:
        # A measurement at a full hour belongs to the time before it.
        hour = int((time - self.start - 1) // HOUR)
        return self.use[min(hour, len(self.use) - 1)]


def _ticks(first: float, last: float) -> Iterator[float]:
    time = first // INTERVAL * INTERVAL + INTERVAL
    while time <= last:
        yield time
        time += INTERVAL


@dataclass(frozen=True)
class UsageWorld:
    """Nodes, as ``(name, model, GPUs, state)``, and who held their GPUs."""

    nodes: tuple[tuple[str, str, int, CapacityState], ...]
    workers: tuple[Worker, ...]
    quotas: tuple[GpuQuota, ...] = ()

    def collected(self, path: Path | str, start: int, end: float, uid: str = "uid-1", name: str = "prod") -> Database:
        """A database in which all of it is rolled up, as if it had been collected from a time until another."""
        database = open_database(str(path), clock=lambda: float(end))
        cluster = database.put_cluster(uid, name)
        models = {node: model for node, model, _, _ in self.nodes}
        held = [worker.holding(models[worker.node]) for worker in self.workers if worker.start < end]
        there = [Capacity(node, model, float(gpus), state, start, None) for node, model, gpus, state in self.nodes]
        database.put_changes(cluster, end, capacities=there, quotas=self.quotas, holdings=held)
        for hour in range(start // HOUR * HOUR, int(end), HOUR):
            self._roll(database, cluster, hour, min(HOUR, end - hour), held, there)
        database.put_changes(cluster, snapshots=[self._snapshot(end // 300 * 300)])
        return database

    def _roll(
        self, database: Database, cluster: int, hour: int, seconds: float, held: list[Holding], there: list[Capacity]
    ) -> None:
        last = hour + seconds + (2.5 * INTERVAL if seconds == HOUR else 0)
        mine = [item for item in held if item.start < last and (item.end is None or item.end > hour)]
        samples = [series for worker in self.workers for series in worker.series(hour, last)]
        keys = {"label_keys": ("team",), "annotation_keys": ("cost-center",)}
        rolled = roll_up(hour, seconds, mine, there, samples, INTERVAL, **keys)
        database.put_rolled_up(cluster, rolled, provisional=seconds < HOUR)

    def _snapshot(self, time: float) -> AllocationSnapshot:
        held = [worker for worker in self.workers if worker.start <= time and (worker.end is None or worker.end > time)]
        items = tuple(
            WorkloadAllocation(worker.workload, float(worker.gpus), worker.use[-1])
            for worker in sorted(held, key=lambda worker: worker.workload)
        )
        return AllocationSnapshot(time, float(self.gpus), sum(item.gpus for item in items), items)

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return sum(number for _, _, number, _ in self.nodes)


def small_world(start: int, others: Iterable[Worker] = ()) -> UsageWorld:
    """Two nodes of two models, and four workloads of three teams; one is idle, one is not measured. Two of three
    namespaces have a quota, one of them since noon."""
    train = WorkloadKey("nlp", "Job", "pretrain", "w-train")
    chat = WorkloadKey("serving", "Deployment", "chat", "w-chat")
    lab = WorkloadKey("nlp", "StatefulSet", "lab", "w-lab")
    dark = WorkloadKey("vision", "Job", "detect", "w-dark")
    workers = (
        Worker(train, "n1", 4, (90.0, 80.0), start, start + 20 * HOUR, {"team": "research"}),
        Worker(chat, "n1", 2, (30.0,), start + 1800, None, {"team": "product"}, {"cost-center": STRANGE}),
        Worker(lab, "n2", 2, (60.0, 50.0, 1.0), start + 2 * HOUR, None, {"team": "research"}),
        Worker(dark, "n2", 1, (70.0, None), start + 3 * HOUR, None),
    )
    nodes = (("n1", "A100-80G", 8, CapacityState.READY), ("n2", "H20", 4, CapacityState.CORDONED))
    quotas = (GpuQuota("nlp", 6.0, start, None), GpuQuota("serving", 2.0, start + 12 * HOUR, None))
    return UsageWorld(nodes, (*workers, *others), quotas)


def one_hour(directory: Path, plane: ControlPlane) -> str:
    """Return the path of a database with an hour of the cluster of a control plane, in which a job held a GPU."""
    start = 1_762_300_800
    job = WorkloadKey("team-a", "Job", "fuzz-train", "uid")
    worker = Worker(job, "node-1", 1, (50.0,), start, None, {"team": "a"}, {"cost-center": "1"})
    world = UsageWorld((("node-1", "A100", 2, CapacityState.READY),), (worker,))
    uid = str(plane.get("namespace", "kube-system")["metadata"]["uid"])
    world.collected(directory / "usage.db", start, start + HOUR, uid, "cluster-1").close()
    return str(directory / "usage.db")

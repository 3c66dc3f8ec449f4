"""A collector that has something to say of everything."""

from __future__ import annotations

from gpuctl.objects.durations import DAY, HOUR
from gpuctl_usage.collector_health import CollectorHealth, HourFigures
from gpuctl_usage.facts import Capacity, CapacityState, Holding, WorkloadKey

BEGIN = 1_717_236_000
"""2024-06-01T10:00:00Z."""


def held(pod: str = "p", gpus: float = 2, **labels: str) -> Holding:
    """Return the holding of a pod of the Deployment `w`; two underscores in a label's name are a dash."""
    workload = WorkloadKey("a", "Deployment", "w", "u")
    texts = {key.replace("__", "-"): value for key, value in labels.items()}
    return Holding(pod, "a", pod, workload, "n1", gpus, "H100", texts, {}, BEGIN, BEGIN, None)


def busy_health() -> CollectorHealth:
    """One of the cluster `lab`, with two pods and a node."""
    health = CollectorHealth()
    health.cluster, health.listed = "lab", True
    health.write_succeeded(BEGIN + 5.0)
    health.hour_rolled_up(HourFigures(BEGIN - HOUR, True, 480, 3, 0.75, 2), BEGIN - DAY)
    health.hour_rolled_up(HourFigures(BEGIN, False, 7, 0, None, 0), BEGIN - DAY)
    health.rolled_until, health.database_bytes, health.samples = float(BEGIN), 4096, 12
    health.restarts = {"Pod": 3, "Node": 0}
    health.holdings = [held(), held("q", 0.25, team="vision")]
    health.capacities = [Capacity("n1", "H100", 8, CapacityState.CORDONED, BEGIN, None)]
    return health

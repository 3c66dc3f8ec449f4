"""Usage databases for the policy of idle jobs: workloads of a namespace that have held GPUs for hours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import WorkloadKey
from support.cluster_tools import Place
from support.small_usage import Worker, small_world


def write_usage(path: Path, place: Place, workers: list[Worker], *, uid: str = "", until: float = 0.0) -> None:
    """Write a database with six hours of collected usage that end now."""
    uid = uid or place.api.call("GET", "/api/v1/namespaces/kube-system")["metadata"]["uid"]
    now = until or time.time()
    path.unlink(missing_ok=True)
    small_world(_start(now), workers).collected(path, _start(now), now, uid=uid).close()


def _start(now: float) -> int:
    return int(now // HOUR - 6) * HOUR


def worker(place: Place, kind: str, name: str, *use: float | None) -> Worker:
    """Return an existing workload that has held one GPU of a node for hours."""
    key = WorkloadKey(place.namespace, kind, name, place.uid(kind, name))
    return Worker(key, "n1", 1, use, float(_start(time.time())), None, {"team": "nlp"})


def events(place: Place, reason: str) -> list[dict[str, Any]]:
    """Return the namespace's events with a reason."""
    found = place.api.call("GET", f"/api/v1/namespaces/{place.namespace}/events")["items"]
    return [item for item in found if item["reason"] == reason]

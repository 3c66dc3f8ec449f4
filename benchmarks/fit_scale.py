"""Measure `fit` on a cluster of a thousand nodes, for five hundred jobs of which not all fit."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Callable
from typing import Any

NODES, PODS, JOBS = 1000, 10_000, 500
SECONDS, BYTES = 10.0, 1 << 30
GPU = "nvidia.com/gpu"
POOL = "example.com/pool"
ZONE = "topology.kubernetes.io/zone"

Object = dict[str, Any]
Report = Callable[[str, str, str, "bool | None"], None]


def nodes(draw: random.Random, pools: int) -> list[Object]:
    """Return nodes with 8 GPUs each; the first pool is as large as all others together."""
    result = []
    for number in range(NODES):
        name = f"gpu-{number:04}"
        pool = 0 if number < NODES // 2 else number % pools
        labels = {"kubernetes.io/hostname": name, POOL: f"pool-{pool}", ZONE: "abc"[number % 3]}
        amounts = {"cpu": draw.choice(("64", "96", "128")), "memory": "512Gi", "pods": "110", GPU: "8"}
        result.append({"name": name, "labels": labels, "allocatable": amounts})
    return result


def pods(draw: random.Random) -> list[Object]:
    """Return the running pods: ten on each node, a few of them with GPUs."""
    result = []
    for number in range(PODS):
        gpus = draw.choice((0, 0, 0, 0, 0, 1, 1, 2))
        requests = {"cpu": f"{draw.randint(1, 40) * 100}m", "memory": f"{draw.randint(1, 16)}Gi"}
        pod = {
            "namespace": f"team-{number % 40}",
            "name": f"pod-{number}",
            "labels": {"app": f"app-{number % 900}"},
            "node": f"gpu-{number % NODES:04}",
            "priority": draw.choice((0, 0, 100, 100, 1000)),
            "requests": {**requests, **({GPU: str(gpus)} if gpus and number // NODES < 5 else {})},
            "startTime": f"2026-01-{1 + number % 28:02}T{number % 24:02}:00:00Z",
        }
        result.append(pod)
    return result


def job(draw: random.Random, number: int, pools: int, shapes: int = 0) -> list[Object]:
    """Return the objects of a training, or of a service for every tenth number.

    :param shapes: number of different cpu and memory requests for pods with equal GPUs; 0 for two of each.
    """
    name, space = f"job-{number}", f"team-{number % 40}"
    gpus = draw.choice((1, 1, 2, 4, 8))
    amounts = {"cpu": f"{gpus * draw.choice((2, 4))}", "memory": f"{gpus * draw.choice((16, 32))}Gi", GPU: str(gpus)}
    if shapes:
        own = number % shapes
        amounts.update(cpu=f"{gpus * (1500 + 13 * own)}m", memory=f"{gpus * (16384 + 64 * own)}Mi")
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    pool = 0 if number % 2 else draw.randrange(pools)
    spec: Object = {"containers": [container], "nodeSelector": {POOL: f"pool-{pool}"}}
    spec["priorityClassName"] = draw.choice(("low", "low", "low", "high"))
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    metadata = {"name": name, "namespace": space}
    count = draw.choice((1, 2, 4, 8))
    if number % 10:
        whole = {"parallelism": count, "completions": count, "template": template}
        return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": whole}]
    whole = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": labels}}
    return [{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": whole}, service]


def measure(report: Report) -> None:
    """Report time and memory with many pools, with one pool, and with pods that rarely have equal requests."""
    measure_cluster(report, "20 pools", 20)
    measure_cluster(report, "1 pool", 1)
    measure_cluster(report, "20 pools, 200 shapes", 20, 200)


def measure_cluster(report: Report, title: str, pools: int, shapes: int = 0) -> None:
    """Report the rows of one cluster."""
    from gpuctl.capacity.fit.job_fit import fit
    from gpuctl.capacity.snapshot.snapshot_document import Snapshot

    draw = random.Random(1)
    classes = [{"name": "low", "value": 100}, {"name": "high", "value": 1000}]
    have = Snapshot("2026-01-01T00:00:00Z", nodes(draw, pools), pods(draw), priority_classes=classes)
    wanted = [obj for number in range(JOBS) for obj in job(draw, number, pools, shapes)]
    began = time.process_time()
    answers = fit(have, wanted)
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    told: dict[str, int] = {}
    for answer in answers:
        told[answer.verdict] = told.get(answer.verdict, 0) + 1
    what = f"fit, {JOBS} jobs, {PODS} pods, {NODES} nodes, {title}"
    report(what, f"{took:.1f} s cpu ({told})", f"<= {SECONDS:g} s", took <= SECONDS)
    report(f"{what}: memory", f"{peak >> 20} MiB", f"<= {BYTES >> 20} MiB", peak <= BYTES)


if __name__ == "__main__":
    measure(print)

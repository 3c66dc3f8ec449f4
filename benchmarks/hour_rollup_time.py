"""Measure the rollup of an hour of 10,000 GPUs scraped every 15 s: CPU seconds and memory.

    python benchmarks/hour_rollup_time.py

Run alone, it prints its row; `make bench` includes it. The rollup runs in its own process; the memory is the peak of
that process. Half of the GPUs are held by pods with eight GPUs, half by pods with one, and every pod has five labels.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from random import Random

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import Capacity, CapacityState, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import discrepancies

NODES, OF_A_NODE, INTERVAL = 1250, 8, 15
WORKLOADS, TEAMS = 1000, 50
START = 490_000 * HOUR
MOST_SECONDS, MOST_MIB = 30, 1024

Report = Callable[[str, str, str, "bool | None"], None]


def _holdings() -> list[Holding]:
    found = []
    for node in range(NODES):
        for number, gpus in enumerate([OF_A_NODE] if node % 2 else [1] * OF_A_NODE):
            workload = (node * OF_A_NODE + number) % WORKLOADS
            namespace, name = f"team-{workload % TEAMS}", f"job-{workload}"
            found.append(
                Holding(
                    *(f"uid-{node}-{number}", namespace, f"{name}-{node}-{number}"),
                    workload=WorkloadKey(namespace, "Job", name, f"uid-{workload}"),
                    node=f"node-{node}",
                    gpus=gpus,
                    model="H100",
                    labels={
                        "team": namespace,
                        "project": f"project-{workload % 100}",
                        "app": name,
                        "env": "prod" if workload % 3 else "test",
                        "tier": str(workload % 40),
                    },
                    annotations={"cost-center": f"cc-{workload % 20}"},
                    start=START - 5000,
                    started=START - 4990,
                    end=None,
                )
            )
    return found


def _series(holdings: list[Holding]) -> Iterator[GpuSeries]:
    """Yield the series one by one, as from Prometheus, so that only the rollup keeps them in memory."""
    random = Random(1)
    for holding in holdings:
        offset = random.random() * INTERVAL
        for gpu in range(round(holding.gpus)):
            times = array("d", [START + offset + INTERVAL * turn for turn in range(HOUR // INTERVAL + 2)])
            values = array("d", [random.randint(0, 100) for _ in times])
            used, total = array("d", [random.randint(0, 80) for _ in times]), array("d", [80.0]) * len(times)
            yield GpuSeries(holding.node, f"GPU-{gpu}", holding.namespace, holding.pod, times, values, used, total)


def roll() -> dict[str, float]:
    """Return CPU seconds without the creation of the series, MiB, and the number of measurements and groups."""
    holdings = _holdings()
    capacities = [
        Capacity(f"node-{node}", "H100", OF_A_NODE, CapacityState.READY, START - 90_000, None) for node in range(NODES)
    ]
    making = 0.0

    def series() -> Iterator[GpuSeries]:
        nonlocal making
        source = _series(holdings)
        while True:
            before = time.process_time()
            one = next(source, None)
            making += time.process_time() - before
            if one is None:
                return
            yield one

    before = time.process_time()
    rolled = roll_up(START, HOUR, holdings, capacities, series(), INTERVAL)
    taken = time.process_time() - before - making
    assert not discrepancies(rolled)
    cluster = next(iter(rolled.sums.values()))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": taken, "mib": memory, "samples": cluster.samples, "groups": len(rolled.sums)}


def measure(report: Report) -> None:
    """Report the row of the rollup."""
    script = [sys.executable, __file__, "--here"]
    result = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    value = f"{result['seconds']:.1f} s CPU, {result['mib']:.0f} MiB ({result['samples']:,} measurements)"
    ok = result["seconds"] < MOST_SECONDS and result["mib"] < MOST_MIB
    title = f"rolling up an hour, {NODES * OF_A_NODE:,} GPUs every {INTERVAL} s, {result['groups']:,} groups"
    report(title, value, f"< {MOST_SECONDS} s, < {MOST_MIB} MiB", ok)


def _row(what: str, value: str, bar: str, ok: bool | None) -> None:
    print(f"{what:<75} {value:>55}   {bar:<34} {'ok' if ok else 'MISSED'}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        print(json.dumps(roll()))
    else:
        measure(_row)

"""The GPU usage of a sandbox: a generated year, and a collector that follows the jobs that run now.

    python -m control_plane.usage_demo --database FILE --uid UID --name NAME --days N

writes the year, the latest month first, so that there is something to look at after some seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from control_plane import ControlPlane
from control_plane.processes import Process
from control_plane.usage_year import DAY, HOUR, MEMORY, GpuNode, noise, write, write_snapshots, year
from gpuctl_usage.day_scheduling import DayRoller
from gpuctl_usage.store.database import open_database
from support.go_programs import ProgramMissing
from support.prometheus_server import Exporter, find_prometheus, running_prometheus

TESTS = Path(__file__).resolve().parents[1]
MONTH = 30 * DAY
SCRAPED_EVERY = 5
"""Seconds; pods are looked at as often."""


class UsageSources(NamedTuple):
    """The database of usage, and the URL of Prometheus; "" without its program."""

    database: Path
    prometheus: str


@contextmanager
def usage_demo(
    plane: ControlPlane, kubeconfig: Path, name: str, directory: Path, nodes: Sequence[GpuNode], days: int
) -> Iterator[UsageSources]:
    """Yield the database, which is filled for as long as the block lasts: with the past, and with what runs.

    :param name: the context of the kubeconfig, and of the cluster in the answers.
    :param days: of the past that is made up; 0 for none.
    """
    database = directory / "usage.db"
    uid = plane.get("namespace", "kube-system")["metadata"]["uid"]
    with ExitStack() as running:
        collect = [sys.executable, "-m", "gpuctl", "usage", "collect", "--kubeconfig", str(kubeconfig)]
        address = ""
        with suppress(ProgramMissing):
            find_prometheus()
            address = running.enter_context(_measured(plane, nodes, directory))
            collect += ["--prometheus", address]
        past = ["--database", str(database), "--uid", uid, "--name", name, "--days", str(days)]
        past += ["--nodes", json.dumps(nodes)]
        in_the_past = [sys.executable, "-m", "control_plane.usage_demo", *past]
        settings = ["env", f"PYTHONPATH={TESTS}", f"GPUCTL_SERVER_USAGE_SCRAPE_INTERVAL={SCRAPED_EVERY}"]
        for what, command in (("collector", [*collect, "--database", str(database)]), ("past", in_the_past)):
            process = Process([*settings, *command], directory / f"{what}.log", directory)
            running.callback(process.stop)
        yield UsageSources(database, address)


@contextmanager
def _measured(plane: ControlPlane, nodes: Sequence[GpuNode], directory: Path) -> Iterator[str]:
    """The address of a Prometheus that measures the GPUs that pods of the cluster hold."""
    exporter, ending = Exporter(), threading.Event()
    models = {node.name: node.model for node in nodes}

    def look() -> None:
        while not ending.wait(SCRAPED_EVERY):
            with suppress(RuntimeError, OSError, ValueError):
                exporter.lines = list(_metrics(plane.get("pods", "--all-namespaces")["items"], models, time.time()))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    how = {"scrape_interval": f"{SCRAPED_EVERY}s", "honor_labels": True}
    place = directory / "prometheus"
    place.mkdir()
    try:
        with running_prometheus(place, targets=[exporter.address], how=how) as address:
            yield address
    finally:
        ending.set()
        looking.join()
        exporter.close()


def _metrics(pods: Sequence[Mapping[str, Any]], models: Mapping[str, str], now: float) -> Iterator[str]:
    """Return the metrics of running pods in the format of DCGM's exporter."""
    cards: dict[str, int] = {}
    for pod in pods:
        node = pod["spec"].get("nodeName", "")
        if node not in models or pod["status"].get("phase") != "Running":
            continue
        limits = [container.get("resources", {}).get("limits", {}) for container in pod["spec"]["containers"]]
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        for _ in range(sum(int(each.get("nvidia.com/gpu", 0)) for each in limits)):
            card = cards[node] = cards.get(node, -1) + 1
            use, total = _use(f"{namespace}/{name}", card, now), MEMORY[models[node]] * 1024
            labels = (
                f'gpu="{card}",UUID="GPU-{node}-{card}",modelName="{models[node]}",Hostname="{node}",'
                f'exported_namespace="{namespace}",exported_pod="{name}"'
            )
            used = total * (0.2 + 0.007 * use)
            yield f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {use:.0f}"
            yield f"DCGM_FI_DEV_FB_USED{{{labels}}} {used:.0f}"
            yield f"DCGM_FI_DEV_FB_FREE{{{labels}}} {total - used:.0f}"


def _use(pod: str, card: int, now: float) -> float:
    """Percent: each pod has a level of its own, about which its GPUs go up and down; one in four does nothing."""
    if noise(pod) < 0.25:
        return 0.0
    wave = 12 * math.sin(now / 90 + 6 * noise(f"{pod}/{card}"))
    return min(100.0, max(0.0, 50 + 40 * noise(f"{pod}/level") + wave + 6 * noise(f"{pod}/{card}/{now}")))


def write_past(database: Path, uid: str, name: str, days: int, nodes: Sequence[GpuNode]) -> None:
    """Write the hours and days until the hour that runs, the latest month first."""
    end = int(time.time()) // HOUR * HOUR
    start = end - days * DAY
    store = open_database(str(database))
    cluster = store.put_cluster(uid, name)
    past = year(nodes, start, end)
    write_snapshots(store, cluster, past, max(start, end - DAY), end)
    last = end
    while last > start:
        first = max(start, last - MONTH)
        write(store, cluster, past, first, last)
        days_of_it = DayRoller(store, cluster)
        days_of_it.begin(end)
        days_of_it.roll_due(end)
        last = first


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--uid", required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--days", type=int, required=True)
    parser.add_argument("--nodes", type=json.loads, required=True)
    given = vars(parser.parse_args())
    os.nice(10)
    write_past(**{**given, "nodes": [GpuNode(*node) for node in given["nodes"]]})


if __name__ == "__main__":
    _main()

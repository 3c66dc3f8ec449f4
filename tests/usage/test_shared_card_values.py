"""Time-sliced pods on one card: detect whether the exporter reports each pod's own utilization or the card's; with a
real Prometheus.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from gpuctl.objects.durations import HOUR
from gpuctl_usage.answers.hourly_answers import HoursQuery
from gpuctl_usage.answers.ledger_answers import ledger
from gpuctl_usage.answers.steps import StepUnit
from gpuctl_usage.facts import Capacity, CapacityState, GpuSeries, Holding, SharedGpuMetrics, WorkloadKey
from gpuctl_usage.gathering.current_allocation import take_snapshot
from gpuctl_usage.gathering.gpu_samples import GpuSamples, PodPlace
from gpuctl_usage.prometheus import Prometheus
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import discrepancies
from gpuctl_usage.rollup.quotients import avg_gpu_memory_used, avg_utilization
from gpuctl_usage.rollup.shared_card_values import mark_process_metrics, nodes_with_shared_cards
from gpuctl_usage.store.database import open_database
from gpuctl_usage.sums import Group, Level, RolledUp, Sums
from support.exporter_lines import ACTIVE, BEGIN, FREE, OWN, UTIL, Line, dcgm, exported, history
from support.exporter_lines import USED as MEMORY
from support.prometheus_server import running_prometheus

EVERY = 30
TIMES = range(EVERY, HOUR + 1, EVERY)
DETECT, COPIES, PER_PROCESS = SharedGpuMetrics.DETECT, SharedGpuMetrics.COPIES, SharedGpuMetrics.PER_PROCESS
Use = float | Callable[[int], float]


def pod(name: str, gpus: float = 0.25, node: str = "n1") -> Holding:
    workload = WorkloadKey("a", "Pod", name, name)
    return Holding(name, "a", name, workload, node, gpus, "T4", {"team": name}, {}, BEGIN - 60, BEGIN - 60, None)


def series(name: str, use: Use, gpu: str = "0", metric: str = UTIL, times: Iterable[int] = TIMES) -> GpuSeries:
    moments = list(times)
    values = [use(time) if callable(use) else use for time in moments]
    where = "n1", gpu, "a" if name else "", name
    return GpuSeries(*where, array("d", [BEGIN + time for time in moments]), array("d", values), metric=metric)


def rolled(pods: Sequence[Holding], samples: Iterable[GpuSeries], how: SharedGpuMetrics = DETECT) -> RolledUp:
    nodes = sorted({holding.node for holding in pods})
    there = [Capacity(node, "T4", 2.0, CapacityState.READY, BEGIN - 60, None) for node in nodes]
    found = roll_up(BEGIN, HOUR, pods, there, samples, EVERY, label_keys=["team"], shared=how)
    assert discrepancies(found) == []
    return found


def of_pods(found: RolledUp) -> dict[str, Sums]:
    return {group.value: sums for group, sums in found.sums.items() if group.level is Level.WORKLOAD}


def percents(found: RolledUp) -> dict[str, float | None]:
    return {
        name: None if (use := avg_utilization(sums)) is None else round(use, 6) for name, sums in of_pods(found).items()
    }


THREE = [pod("one"), pod("two"), pod("three")]


def test_copied_and_per_process_metrics() -> None:
    """Three pods run on a card that four may share."""
    parts = [series("one", 60), series("two", 20), series("three", 0)]
    found = rolled(THREE, parts)
    assert percents(found) == {"one": 100, "two": 80, "three": 0}
    node = found.sums[Group(Level.NODE, value="n1")]
    assert (node.util_gpu_s / 100, node.by_process_gpu_s) == (pytest.approx(0.45 * HOUR), pytest.approx(0.75 * HOUR))
    # 80 percent of the card, 35 of which exceed the first pod's quarter.
    assert node.util_gpu_s / 100 + node.beyond_gpu_s == pytest.approx(0.8 * HOUR)
    assert of_pods(found)["one"].beyond_gpu_s == pytest.approx(0.35 * HOUR)
    copies = rolled(THREE, [series(name, 80) for name in ("one", "two", "three")])
    assert percents(copies) == {"one": 80, "two": 80, "three": 80}
    assert copies.sums[Group(Level.CLUSTER)].by_process_gpu_s == 0
    # The setting overrides the detection.
    assert percents(rolled(THREE, parts, COPIES)) == {"one": 60, "two": 20, "three": 0}
    whole = rolled(THREE, [series(name, 20) for name in ("one", "two", "three")], PER_PROCESS)
    assert percents(whole) == {"one": 80, "two": 80, "three": 80}


def test_ledger_parts_of_shared_cards_add_up(tmp_path: Path) -> None:
    """The parts of every level add up, for an hour and for a longer step."""
    parts = [series("one", 60), series("two", 20), series("three", 0)]
    database = open_database(str(tmp_path / "usage.db"))
    cluster = database.put_cluster("uid", "lab")
    database.put_rolled_up(cluster, rolled(THREE, parts), provisional=False)
    for step in (StepUnit.HOUR, StepUnit.DAY):
        asked = HoursQuery("", BEGIN, BEGIN + HOUR, step=step)
        for level, key in (
            (Level.CLUSTER, ""),
            (Level.NODE, ""),
            (Level.NAMESPACE, ""),
            (Level.WORKLOAD, ""),
            (Level.LABEL, "team"),
        ):
            rows = ledger(database, asked, level, key)
            assert isinstance(rows, list)
            assert sum(row["by_process_gpu_seconds"] for row in rows) == pytest.approx(0.75 * HOUR)
            assert sum(row["beyond_held_gpu_seconds"] for row in rows) == pytest.approx(0.35 * HOUR)
            assert all(row["closes"] for row in rows)
    database.close()


def test_pods_together_do_not_exceed_the_card() -> None:
    found = rolled([pod("one", 0.5), pod("two", 0.5)], [series("one", 90), series("two", 60)])
    whole = found.sums[Group(Level.CLUSTER)]
    assert whole.util_gpu_s / 100 + whole.beyond_gpu_s == pytest.approx(HOUR)
    assert percents(found) == {"one": 100, "two": 80}


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ({"one": 0, "two": 0}, {"one": 0, "two": 0}),
        # Always equal values are ambiguous: assume copies, which most exporters report.
        ({"one": 50, "two": 50}, {"one": 50, "two": 50}),
        # The card's value exceeds each pod's.
        ({"one": 25, "two": 25, "": 50}, {"one": 100, "two": 100}),
        ({"one": 50, "two": 50, "": 50}, {"one": 50, "two": 50}),
        # They differ briefly, again and again: most of the time they are equal.
        ({"one": 40, "two": lambda time: 50 if time % (7 * EVERY) < 4 * EVERY else 40}, {"one": 40, "two": 45}),
        # They are equal briefly, again and again: most of the time they differ.
        ({"one": 20, "two": lambda time: 20 if time % (9 * EVERY) == 0 else 10}, {"one": 80, "two": 43.0}),
    ],
)
def test_detection_ignores_brief_differences(uses: dict[str, Use], expected: dict[str, float]) -> None:
    found = rolled([pod("one"), pod("two")], [series(name, use) for name, use in uses.items()])
    told = percents(found)
    assert told["one"] == expected["one"]
    assert told["two"] == pytest.approx(expected["two"], abs=3)


def test_exporter_updated_within_the_hour() -> None:
    """Copies of 60, then an idle time, then parts of 40 and 20."""
    middle = HOUR // 2

    def use(part: float) -> Callable[[int], float]:
        return lambda time: 60 if time < middle else 0 if time < middle + 600 else part

    found = rolled([pod("one", 0.5), pod("two", 0.5)], [series("one", use(40)), series("two", use(20))])
    late = (HOUR - middle - 600 + EVERY) / HOUR
    early = (middle - EVERY) / HOUR
    assert percents(found) == {
        "one": pytest.approx(60 * early + 80 * late),
        "two": pytest.approx(60 * early + 40 * late),
    }


def test_detection_covers_all_cards_of_a_node() -> None:
    """Pods with equal values are interpreted as the other pods of the node's exporter are."""
    pods = [pod("one", 0.5), pod("two", 0.5), pod("three", 0.5), pod("four", 0.5)]
    uses = [series("one", 30), series("two", 10), series("three", 20, "1"), series("four", 20, "1")]
    assert percents(rolled(pods, uses)) == {"one": 60, "two": 20, "three": 40, "four": 40}
    # A value of a MIG instance or of an unknown exporter always covers the whole instance or card.
    assert percents(rolled(pods[:2], [one._replace(metric="") for one in uses[:2]], PER_PROCESS)) == {
        "one": 30,
        "two": 10,
    }


def test_unshared_cards_do_not_depend_on_the_setting() -> None:
    uses = [series("one", 30), series("two", 70)]
    pods = [pod("one", 1), pod("two", 1)]
    assert percents(rolled(pods, uses, PER_PROCESS)) == percents(rolled(pods, uses, COPIES))
    assert rolled(pods, uses, PER_PROCESS).sums[Group(Level.CLUSTER)].by_process_gpu_s == 0


def test_consecutive_pods_do_not_share_a_card() -> None:
    """No extra queries are needed for a card that jobs use one after the other."""
    early, late = range(EVERY, HOUR // 2, EVERY), range(HOUR // 2, HOUR + 1, EVERY)
    assert nodes_with_shared_cards([series("one", 60, times=early), series("two", 20, times=late)]) == set()
    assert nodes_with_shared_cards([series("one", 60, times=early), series("two", 20)]) == {"n1"}
    assert nodes_with_shared_cards([series("one", 60), series("", 60), series("two", 20, "1")]) == set()


def lines() -> list[Line]:
    """Return samples of three nodes: n1 has a new exporter, n2 an old one, and n3 two pods on one MIG instance."""
    found: list[Line] = []
    for when in (float(time) for time in range(-EVERY, HOUR + 2 * EVERY, EVERY)):
        found += [dcgm(UTIL, 90, when, **OWN), dcgm(MEMORY, 44 * 1024, when, **OWN)]
        for name, use, used in (("one", 60, 24), ("two", 20, 16), ("three", 0, 0)):
            of = exported(name) | {"vgpu": name, "pod_uid": name}
            found += [dcgm(UTIL, use, when, **of), dcgm(MEMORY, used * 1024, when, **of)]
            copy = exported(name) | {"vgpu": name}
            found += [dcgm(ACTIVE, 0.9, when, **copy), dcgm(FREE, 36 * 1024, when, **copy)]
        for name in ("four", "five"):
            copy = {"node": "n2", **exported(name)}
            found += [dcgm(ACTIVE, 0.5, when, **copy), dcgm(UTIL, 70, when, **copy), dcgm(MEMORY, 8192, when, **copy)]
        for name, use in (("six", 0.5), ("seven", 0.25)):
            found.append(dcgm(ACTIVE, use, when, node="n3", GPU_I_ID="7", **exported(name)))
    return found


def test_metrics_of_old_and_new_exporters(tmp_path: Path) -> None:
    pods = [
        *THREE,
        pod("four", 0.5, "n2"),
        pod("five", 0.5, "n2"),
        pod("six", 3 / 14, "n3"),
        pod("seven", 3 / 14, "n3"),
    ]
    places = {PodPlace(one.node, "a", one.pod) for one in pods}
    with running_prometheus(tmp_path, history=history(lines())) as url:

        def told(how: SharedGpuMetrics, start: int = BEGIN, end: int = BEGIN + HOUR + 2 * EVERY) -> list[GpuSeries]:
            return GpuSamples(Prometheus(url), shared=how).series(start, end, {"n1", "n2", "n3"}, places)

        found = {how: rolled(pods, told(how), how) for how in SharedGpuMetrics}
        five_minutes = mark_process_metrics(told(DETECT, BEGIN, BEGIN + 300), BEGIN, BEGIN + 300, DETECT)
    others = {"four": 50, "five": 50, "six": 50, "seven": 25}
    assert percents(found[DETECT]) == {"one": 100, "two": 80, "three": 0, **others}
    # Without per-process metrics, all three pods get the card's value of the better metric.
    assert percents(found[COPIES]) == {"one": 90, "two": 90, "three": 90, **others}
    # The setting decides, whichever metric is better.
    assert percents(found[PER_PROCESS]) == {"one": 100, "two": 80, "three": 0, **others, "four": 100, "five": 100}
    memory = {name: avg_gpu_memory_used(sums) for name, sums in of_pods(found[DETECT]).items()}
    # GiB of a quarter, times four; over all allocated GPUs they add up to the memory of the card's processes.
    assert memory == {"one": 96, "two": 64, "three": 0, "four": None, "five": None, "six": None, "seven": None}
    node = found[DETECT].sums[Group(Level.NODE, value="n1")]
    assert node.memory_used_gpu_s == pytest.approx(40 * HOUR)
    assert node.memory_total_gpu_s == pytest.approx(80 * node.memory_obs_gpu_s)
    assert node.obs_gpu_s == pytest.approx(0.75 * HOUR)
    moment = take_snapshot(BEGIN + 300, pods, [], five_minutes)
    assert {item.workload.name: item.utilization for item in moment.workloads} == percents(found[DETECT])


def test_pod_of_the_same_name_with_a_whole_card_before() -> None:
    """The whole card of the first pod says nothing about the values of the second one, which shares its card."""
    first = pod("web")._replace(pod_uid="a", gpus=1.0, end=BEGIN + 600)
    second = pod("web")._replace(pod_uid="b", start=BEGIN + 900, started=BEGIN + 900)
    beside = pod("other")._replace(start=BEGIN + 900, started=BEGIN + 900)
    first, second = (
        one._replace(workload=WorkloadKey("a", "Pod", uid, uid)) for one, uid in ((first, "a"), (second, "b"))
    )
    late = [time for time in TIMES if time > 900]
    samples = [series("web", 20.0, times=[time for time in TIMES if time <= 600]), series("web", 20.0, times=late)]
    found = of_pods(rolled([first, second, beside], [*samples, series("other", 40.0, times=late)]))
    assert avg_utilization(found["a"]) == pytest.approx(20)
    assert avg_utilization(found["b"]) == pytest.approx(80)

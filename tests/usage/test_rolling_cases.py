"""Rollups of an hour and a day in named cases; each of them was wrong in some implementation."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.rollup.day import add_up
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import Ledger, discrepancies, ledger
from gpuctl_usage.rollup.quotients import (
    allocated_gpu_count,
    allocation_rate,
    avg_gpu_memory_total,
    avg_gpu_memory_used,
    avg_replica_count,
    avg_utilization,
    coverage,
    percentile,
    total_gpu_capacity,
    utilization_percentile,
)
from gpuctl_usage.sums import Group, Level, RolledUp, Sums

START = 490_000 * HOUR
NODE = "node-1"
CLUSTER = Group(Level.CLUSTER)


def holding(
    pod: str = "train-0", gpus: float = 8, start: float = -600, end: float | None = None, **more: Any
) -> Holding:
    """Return a pod's holding; times are seconds since the start of the hour."""
    name = more.pop("workload", pod)
    started = more.pop("started", start)
    of = Holding(
        *(f"uid-{pod}", "red", pod, WorkloadKey("red", "Job", name, f"uid-of-{name}"), NODE, gpus, "H100"),
        labels={},
        annotations={},
        start=START + start,
        started=None if started is None else START + started,
        end=None if end is None else START + end,
    )
    return of._replace(**more)


def capacity(
    node: str = NODE, gpus: float = 8, start: float = -9000, end: float | None = None, **more: Any
) -> Capacity:
    state = more.pop("state", CapacityState.READY)
    return Capacity(node, "H100", gpus, state, START + start, None if end is None else START + end, **more)


def series(
    gpu: int, times: Iterable[float], value: float | Callable[[float], float], pod: str = "train-0", **more: Any
) -> GpuSeries:
    moments = list(times)
    values = [value(time) if callable(value) else value for time in moments]
    node = more.pop("node", NODE)
    own = array("d", [START + time for time in moments]), array("d", values)
    return GpuSeries(node, f"GPU-{gpu}", "red", pod, *own, **more)


def scrapes(start: float = 15, end: float = HOUR, every: float = 15) -> list[float]:
    """Return the scrape times from `start` to `end`, both included."""
    return [start + every * turn for turn in range(int((end - start) // every) + 1)]


def rolled(
    holdings: Sequence[Holding] = (),
    samples: Sequence[GpuSeries] = (),
    capacities: Sequence[Capacity] = (capacity(),),
    seconds: float = HOUR,
    start: int = START,
    **keys: Any,
) -> RolledUp:
    return roll_up(start, seconds, holdings, capacities, samples, 15, **keys)


def cluster(*args: Any, **more: Any) -> Sums:
    return rolled(*args, **more).sums[CLUSTER]


def test_mean_is_weighted_by_gpus_and_time() -> None:
    """64 GPUs at 95 % and one at 5 %: the mean of the two means would be 50 %."""
    holdings = [holding("big", 64, node="node-64"), holding("small", 1)]
    samples = [series(gpu, scrapes(), 95, "big", node="node-64") for gpu in range(64)]
    sums = cluster(holdings, [*samples, series(0, scrapes(), 5, "small")])
    assert avg_utilization(sums) == pytest.approx((64 * 95 + 5) / 65)


def test_a_pod_of_90_seconds_on_8_gpus_is_720_gpu_seconds() -> None:
    assert cluster([holding(start=100.25, end=190.25)]).alloc_gpu_s == 720
    # Also if a full hour falls into it.
    both = [cluster([holding(start=HOUR - 30, end=HOUR + 60)], start=START + hour) for hour in (0, HOUR)]
    assert [sums.alloc_gpu_s for sums in both] == [240, 480]


def test_prometheus_outage_lowers_coverage_but_not_the_mean() -> None:
    there = [time for time in scrapes() if not 600 < time <= 1800]
    whole, torn = (cluster([holding(gpus=1)], [series(0, times, 80)]) for times in (scrapes(), there))
    assert (coverage(whole), avg_utilization(whole)) == (1, 80)
    # The first scrape after the gap covers two and a half intervals, not twenty minutes.
    assert torn.obs_gpu_s == HOUR - 1200 - 15 + 37.5
    assert avg_utilization(torn) == 80
    assert (torn.buckets, whole.buckets) == (9, 12)


def test_one_missing_scrape_is_no_gap() -> None:
    times = [time for time in scrapes() if time != 600]
    assert coverage(cluster([holding(gpus=1)], [series(0, times, 80)])) == 1


def test_unmeasured_utilization_is_unknown() -> None:
    sums = cluster([holding()])
    assert (avg_utilization(sums), sums.util_min, sums.util_max, sums.histogram) == (None, None, None, None)
    assert (coverage(sums), utilization_percentile(sums, 50), avg_gpu_memory_used(sums)) == (0, None, None)
    assert ledger(sums).held_unobserved == sums.alloc_gpu_s == 8 * HOUR


def test_sample_on_the_full_hour_counts_once() -> None:
    times = scrapes(0, 2 * HOUR)
    hours = [cluster([holding(gpus=1)], [series(0, times, 50)], start=START + hour) for hour in (0, HOUR)]
    assert [sums.samples for sums in hours] == [240, 240]
    assert [sums.obs_gpu_s for sums in hours] == [HOUR, HOUR]


def test_sample_after_the_hour_covers_its_end() -> None:
    """Scrapes seldom fall on the full hour: the time between the last scrape and the first of the next hour counts in
    both hours.
    """
    times = scrapes(10, 2 * HOUR + 10)
    value: Callable[[float], float] = lambda time: 90 if time > HOUR else 10  # noqa: E731
    one, two = (cluster([holding(gpus=1)], [series(0, times, value)], start=START + hour) for hour in (0, HOUR))
    assert one.obs_gpu_s == two.obs_gpu_s == HOUR
    # The scrape at 3610 covers 5 s before the full hour and 10 s after it; it is counted in the second hour.
    assert one.util_gpu_s == 3595 * 10 + 5 * 90
    assert (one.samples, two.samples) == (240, 240)
    assert cluster([holding(gpus=1)], [series(0, [t for t in times if t <= HOUR], 10)]).obs_gpu_s == 3595


def test_duplicate_samples_count_once() -> None:
    """Two Prometheus servers, overlapping queries, and two exporters that are scraped in turn."""
    once = series(0, scrapes(), 80)
    later = series(0, scrapes(1800, HOUR), 80)
    between = series(0, scrapes(7.5, HOUR), 80)
    sums = cluster([holding(gpus=1)], [once, later, once, between])
    assert (sums.obs_gpu_s, sums.util_gpu_s) == (HOUR, 80 * HOUR)
    assert sums.samples == 240 + 240
    assert rolled([holding(gpus=1)], [once, once]) == rolled([holding(gpus=1)], [once])


def test_samples_without_a_holding_are_dropped_and_counted() -> None:
    """The exporter's own pod, a pod of another node, and samples after a pod has ended."""
    exporter, elsewhere = series(0, scrapes(), 0, "dcgm-exporter"), series(0, scrapes(), 0, node="node-2")
    result = rolled([holding(gpus=1, end=1800)], [series(0, scrapes(), 60), exporter, elsewhere])
    sums = result.sums[CLUSTER]
    assert (result.dropped, sums.samples) == (120 + 240 + 240, 120)
    assert (sums.obs_gpu_s, avg_utilization(sums)) == (1800, 60)


def test_recreated_pod_does_not_inherit_samples() -> None:
    """A StatefulSet recreates its pod on the same node: the first scrape of the new pod does not count for the old one."""
    old, new = holding(gpus=1, end=1000, pod_uid="old"), holding(gpus=1, start=1002, pod_uid="new", workload="other")
    result = rolled([old, new], [series(0, scrapes(), lambda time: 10 if time < 1002 else 90)])
    before, after = (
        result.sums[Group(Level.WORKLOAD, f"red/Job/{name}", f"uid-of-{name}")] for name in ("train-0", "other")
    )
    assert (before.obs_gpu_s, avg_utilization(before)) == (990, pytest.approx(10))
    assert (after.obs_gpu_s, avg_utilization(after)) == (HOUR - 1002, pytest.approx(90))


def test_three_pods_on_a_time_sliced_card_are_one_card() -> None:
    """The exporter reports the whole card's value for each pod."""
    pods = [f"slice-{number}" for number in range(3)]
    sums = cluster(
        [holding(pod, 1 / 3) for pod in pods], [series(0, scrapes(), 90, pod) for pod in pods], [capacity(gpus=1)]
    )
    assert sums.alloc_gpu_s == pytest.approx(HOUR)
    assert (sums.obs_gpu_s, sums.util_gpu_s) == (pytest.approx(HOUR), pytest.approx(90 * HOUR))
    assert (sums.samples, sums.pods_max) == (720, 3)


def test_measured_gpus_do_not_exceed_held_gpus() -> None:
    """Two MIG instances are two GPUs for the exporter, but two sevenths of a GPU in the allocation."""
    samples = [series(0, scrapes(), 100), series(1, scrapes(), 0)]
    sums = cluster([holding(gpus=2 / 7)], samples)
    assert sums.obs_gpu_s <= sums.alloc_gpu_s == pytest.approx(2 / 7 * HOUR)
    assert coverage(sums) == pytest.approx(1)
    assert avg_utilization(sums) == pytest.approx(50)


def test_unmeasured_gpus_are_not_idle() -> None:
    sums = cluster([holding(gpus=8)], [series(gpu, scrapes(), 100) for gpu in range(6)])
    assert (coverage(sums), avg_utilization(sums)) == (0.75, 100)


def test_scrape_offsets_do_not_change_the_sums() -> None:
    together = cluster(
        [holding(gpus=2)], [series(0, scrapes(15, HOUR + 15), 20), series(1, scrapes(15, HOUR + 15), 60)]
    )
    apart = cluster([holding(gpus=2)], [series(0, scrapes(15, HOUR + 15), 20), series(1, scrapes(9.3, HOUR + 30), 60)])
    assert apart.obs_gpu_s == pytest.approx(together.obs_gpu_s)
    assert apart.util_gpu_s == pytest.approx(together.util_gpu_s) == 80 * HOUR
    assert apart.histogram == together.histogram == {40: 60}


def test_node_that_joins_within_the_hour() -> None:
    result = rolled([holding(gpus=4)], [], [capacity(), capacity("node-2", 8, start=1800)])
    sums = result.sums[CLUSTER]
    assert total_gpu_capacity(sums, HOUR) == 12
    assert allocation_rate(sums) == pytest.approx(100 * 4 / 12)
    assert sums.free_gpu_s == 4 * HOUR + 8 * 1800
    assert discrepancies(result) == []


def test_unheld_gpus_of_unschedulable_nodes_are_unusable() -> None:
    """GPUs that its running pods hold stay allocated, so that the rate does not exceed 100 %."""
    states = [
        capacity(end=1200),
        capacity(start=1200, end=2400, state=CapacityState.CORDONED),
        capacity(start=2400, state=CapacityState.NOT_READY),
    ]
    result = rolled([holding(gpus=6)], [], states)
    assert ledger(result.sums[CLUSTER]) == Ledger(8 * HOUR, 0, 0, 6 * HOUR, 2 * 1200, 2 * 2400)
    assert allocation_rate(result.sums[CLUSTER]) == 75
    assert discrepancies(result) == []


def test_overallocated_node_opens_the_ledger() -> None:
    """Free GPUs of another node do not compensate."""
    result = rolled([holding(gpus=9, end=100)], [], [capacity(), capacity("node-2")])
    opened = {(one.group.level, one.group.value): one.missing for one in discrepancies(result)}
    assert opened == {(Level.NODE, NODE): -100, (Level.CLUSTER, ""): -100, (Level.MODEL, "H100"): -100}
    assert not ledger(result.sums[CLUSTER]).closes


def test_gpus_held_on_an_unknown_node_open_the_ledger() -> None:
    result = rolled([holding(gpus=1, node="node-9")])
    assert Group(Level.NODE, "", "node-9") in {one.group for one in discrepancies(result)}


def test_inconsistent_sums_are_discrepancies() -> None:
    result = rolled([holding(gpus=4, end=100)], [series(0, scrapes(), 50)])
    result.sums[Group(Level.NAMESPACE, "", "red")].samples += 1
    result.sums[CLUSTER].obs_gpu_s += 1000
    found = {(one.group.level, one.what) for one in discrepancies(result)}
    assert {(Level.NAMESPACE, "samples"), (Level.CLUSTER, "ledger"), (Level.NODE, "obs_gpu_s")} <= found


def test_running_hour_has_its_elapsed_length() -> None:
    sums = cluster([holding(gpus=4, start=300)], [series(0, scrapes(), 50)], seconds=600)
    assert (sums.alloc_gpu_s, sums.cap_gpu_s, sums.pod_s) == (4 * 300, 8 * 600, 300)
    assert allocated_gpu_count(sums, 600) == 2
    assert avg_replica_count(sums, 600) == 0.5
    assert (sums.buckets, sums.obs_gpu_s) == (1, 300)
    assert allocated_gpu_count(cluster(seconds=0), 0) is None


def test_changed_label_splits_the_hour() -> None:
    """Also for a key that no pod has, and for a sample whose interval contains the change."""
    before = holding(gpus=1, end=1000, labels={"team": "vision"}, ending=EndReason.CHANGED)
    after = holding(gpus=1, start=1000, started=-600, labels={"project": "x"})
    result = rolled([before, after], [series(0, scrapes(), 40)], label_keys=["team", "env"])
    by_label = {(group.key, group.value): sums for group, sums in result.sums.items() if group.level is Level.LABEL}
    assert {key: sums.alloc_gpu_s for key, sums in by_label.items()} == {
        ("team", "vision"): 1000,
        ("team", "__unset__"): 2600,
        ("project", "x"): 2600,
        ("project", "__unset__"): 1000,
        ("env", "__unset__"): HOUR,
    }
    assert all(sums.obs_gpu_s == sums.alloc_gpu_s == sums.running_gpu_s for sums in by_label.values())
    # One pod of one workload throughout.
    cluster = result.sums[CLUSTER]
    assert (cluster.pods_min, cluster.pods_max, cluster.workloads, cluster.running_gpu_s) == (1, 1, 1, HOUR)


def test_concurrent_pods_and_distinct_workloads() -> None:
    """Three replicas: one is replaced within the same second, and one ends."""
    pods = [
        *(holding("a", 1, workload="web"), holding("b", 1, end=1000, workload="web")),
        *(holding("b2", 1, start=1000, workload="web"), holding("c", 1, start=100, end=2000, workload="web")),
    ]
    sums = rolled(pods).sums[Group(Level.WORKLOAD, "red/Job/web", "uid-of-web")]
    assert (sums.pods_min, sums.pods_max, sums.workloads) == (2, 3, 1)
    assert avg_replica_count(sums, HOUR) == (3600 + 1000 + 2600 + 1900) / 3600


def test_pod_holds_gpus_before_it_runs() -> None:
    """GPUs are allocated while images are pulled, and also for a pod that never starts."""
    sums = cluster([holding("slow", 2, start=0, started=600), holding("stuck", 1, started=None)])
    assert (sums.alloc_gpu_s, sums.running_gpu_s) == (3 * HOUR, 2 * 3000)


def test_mean_memory_of_measured_gpus() -> None:
    """In GiB; one of the GPUs has no memory samples in half of the hour."""
    times = scrapes()
    used = array("d", [30.0 if time <= 1800 else float("nan") for time in times])
    total = array("d", [80.0]) * len(times)
    samples = [
        series(0, times, 50, memory_used=used, memory_total=total),
        series(1, times, 50, memory_used=array("d", [10.0]) * len(times), memory_total=total),
        series(2, times, 50),
    ]
    sums = cluster([holding(gpus=3)], samples)
    assert sums.memory_obs_gpu_s == 1800 + HOUR
    assert avg_gpu_memory_used(sums) == pytest.approx((30 * 1800 + 10 * HOUR) / 5400)
    assert (avg_gpu_memory_total(sums), sums.memory_max) == (80, 30)
    none = array("d", [0.0]) * len(times)
    empty = cluster([holding(gpus=1)], [series(0, times, 0, memory_used=none, memory_total=total)])
    assert (avg_gpu_memory_used(empty), empty.memory_max, empty.util_min) == (0, 0, 0)


def test_percentiles_are_by_nearest_rank_of_minutes() -> None:
    """The same for an hour and for added histograms: no interpolation, and no percentile of percentiles."""
    sums = cluster([holding(gpus=1)], [series(0, scrapes(), lambda time: 100 if time > 3000 else 30.4)])
    assert sums.histogram == {30: 50, 100: 10}
    assert [percentile(sums.histogram, rank) for rank in (1, 50, 83.3, 83.4, 95, 100)] == [30, 30, 30, 100, 100, 100]
    # Whole percents, but not below the minimum.
    assert [utilization_percentile(sums, rank) for rank in (50, 95)] == [30.4, 100]
    assert percentile({7: 57, 8: 43}, 57) == 7
    assert percentile({}, 50) is None


def test_half_percents_are_rounded_up() -> None:
    sums = cluster([holding(gpus=2)], [series(0, scrapes(), 30), series(1, scrapes(), 31)])
    assert sums.histogram == {31: 60}
    assert sums.util_min == sums.util_max == 30.5
    # Also if floating point yields 29.499999999999996.
    values = [29.0] * 6 + [32.5]
    sevenths = [holding(f"mig-{number}", 1 / 7) for number in range(7)]
    samples = [series(0, scrapes(), value, f"mig-{number}") for number, value in enumerate(values)]
    assert cluster(sevenths, samples).histogram == {30: 60}


def test_minute_mean_covers_its_measured_gpus() -> None:
    """Only one of four GPUs is measured in the second half hour, so its minutes have that GPU's utilization."""
    samples = [series(gpu, scrapes(15, 1800), 0) for gpu in range(3)]
    sums = cluster([holding(gpus=4)], [*samples, series(3, scrapes(), 100)])
    assert (sums.util_min, sums.util_max, sums.histogram) == (25, 100, {25: 30, 100: 30})


def test_day_counts_each_workload_once() -> None:
    holdings = [
        *(holding("long", 1, workload="long"), holding("short", 1, start=4000, end=5000, workload="short")),
        holding("label", 1, start=8000, end=9000, workload="long", labels={"team": "red"}),
    ]
    hours = [rolled(holdings, start=START + number * HOUR) for number in range(3)]
    day = add_up(hours, holdings)
    sums = day.sums[CLUSTER]
    assert (day.start, day.seconds, sums.workloads) == (START // 86400 * 86400, 3 * HOUR, 2)
    assert sums.alloc_gpu_s == 3 * HOUR + 1000 + 1000
    # Only the third hour has the key `team`.
    teams = {group.value: sums for group, sums in day.sums.items() if group.key == "team"}
    assert {team: (sums.alloc_gpu_s, sums.workloads, sums.pods_min) for team, sums in teams.items()} == {
        "red": (1000, 1, 1),
        "__unset__": (3 * HOUR + 1000, 2, 1),
    }
    assert discrepancies(day) == []


def test_hour_without_holdings_adds_no_group_to_the_day() -> None:
    holdings = [holding(gpus=1, start=HOUR, labels={"team": "red"})]
    day = add_up([rolled(holdings, start=START + number * HOUR) for number in range(2)], holdings)
    assert [group.value for group in day.sums if group.level is Level.LABEL] == ["red"]
    assert (day.sums[CLUSTER].cap_gpu_s, day.sums[CLUSTER].alloc_gpu_s) == (2 * 8 * HOUR, HOUR)


def test_hours_of_different_days_are_rejected() -> None:
    hours = [rolled(start=START + number * HOUR) for number in (0, 24)]
    for wrong in ([], hours, [hours[0], hours[0]]):
        with pytest.raises(ValueError, match="must be distinct and of one day"):
            add_up(wrong, [])


def test_digest_covers_only_the_hour() -> None:
    """Events after the hour do not change the digest; events within it and late samples do."""
    samples = [series(0, scrapes(), 50)]
    held, there = holding(gpus=1), capacity()
    one = rolled([held], samples, [there])
    later = scrapes() + scrapes(HOUR + 15, 2 * HOUR)
    same = rolled(
        [held._replace(end=START + 2 * HOUR, ending=EndReason.FINISHED), holding("next", start=HOUR + 60)],
        [series(0, later, 50)],
        [there._replace(end=START + HOUR + 1), capacity(start=HOUR + 1, gpus=4)],
    )
    assert one == same
    others = [
        rolled([held._replace(end=START + HOUR - 1)], samples, [there]),
        rolled([held], [series(0, scrapes(30), 50)], [there]),
        rolled([held], [series(0, scrapes(), 51)], [there]),
        rolled([held], samples, [there._replace(state=CapacityState.CORDONED)]),
        rolled([held], samples, [there], seconds=HOUR - 1),
        rolled([held], samples, [there], label_keys=["team"]),
        rolled([held], [*samples, series(0, [100], 5, "exporter")], [there]),
    ]
    digests = {result.digest for result in (one, *others)}
    assert len(digests) == 1 + len(others)


def test_sample_after_the_pods_end_does_not_cover_the_hour() -> None:
    """A sample after the pod's end does not cover the end of the hour, and the digest differs."""
    samples = [series(0, scrapes(10, HOUR + 10), 50)]
    gone, stays = (rolled([holding(gpus=1, end=end)], samples) for end in (HOUR + 5, HOUR + 20))
    assert [result.sums[CLUSTER].obs_gpu_s for result in (gone, stays)] == [3595, HOUR]
    assert gone.digest != stays.digest


def test_label_change_after_the_hour_keeps_full_coverage() -> None:
    """The pod continues, so its next sample covers the end of the hour."""
    before = holding(gpus=1, end=HOUR + 5, ending=EndReason.CHANGED)
    after = holding(gpus=1, start=HOUR + 5, labels={"team": "vision"})
    assert cluster([before, after], [series(0, scrapes(10, HOUR + 10), 50)]).obs_gpu_s == HOUR


def test_reopened_holding_counts_once() -> None:
    """A restarted collector wrote the pod again as open: the recorded end stays valid."""
    ended = holding(gpus=2, end=1000)
    sums = cluster([ended._replace(end=None), ended])
    assert (sums.alloc_gpu_s, sums.pods_max) == (2000, 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([50.0, 101.0], "between 0 and 100 percent"),
        ([50.0, -1.0], "between 0 and 100 percent"),
        ([float("nan"), 50.0], "between 0 and 100 percent"),
        ([50.0], "must have equal lengths"),
    ],
)
def test_invalid_series_is_rejected(values: list[float], message: str) -> None:
    wrong = GpuSeries(NODE, "GPU-0", "red", "train-0", array("d", [START + 15.0, START + 30.0]), array("d", values))
    with pytest.raises(ValueError, match=f"GPU-0 of node-1 for red/train-0: .*{message}"):
        rolled([holding()], [wrong])


@pytest.mark.parametrize(("start", "seconds"), [(START + 1, HOUR), (START, HOUR + 1), (START, -1)])
def test_invalid_hour_is_rejected(start: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="are not an hour"):
        rolled(start=start, seconds=seconds)


def test_millisecond_holdings_add_up() -> None:
    """The hours of a day add up to the holdings of the day, wherever the holdings are split."""
    chance = random.Random(7)
    cuts = sorted(round(chance.uniform(-5000, 6 * HOUR), 3) for _ in range(60))
    holdings = [
        holding(f"pod-{number}", chance.choice([1, 2, 8]), begin, end)
        for number, (begin, end) in enumerate(zip(cuts, cuts[7:], strict=False))
    ]
    samples = [series(0, scrapes(0.123, 6 * HOUR), 35, f"pod-{number}") for number in range(len(holdings))]
    hours = [rolled(holdings, samples, start=START + number * HOUR) for number in range(6)]
    sums = add_up(hours, holdings).sums[CLUSTER]
    held = sum(one.gpus * (one.end - max(one.start, START)) for one in holdings if one.end and one.end > START)
    assert sums.alloc_gpu_s == pytest.approx(held, rel=1e-9)
    assert avg_utilization(sums) == pytest.approx(35)
    pods = [(one.start, one.end) for one in holdings if one.end]
    inside = sum(start < time <= end for start, end in pods for time in (START + t for t in scrapes(0.123, 6 * HOUR)))
    assert sums.samples == inside

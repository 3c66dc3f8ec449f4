"""Measurements survive, whatever Prometheus has lost since; packing and unpacking does not change them."""

from __future__ import annotations

import math
import random
from array import array
from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from gpuctl_usage.facts import GpuSeries, Holding, SharedGpuMetrics, WorkloadKey
from gpuctl_usage.rollup.hour import reach, roll_up
from gpuctl_usage.rollup.merged_measurements import merge_measurements
from gpuctl_usage.store.measurements import pack_series, unpack_series
from gpuctl_usage.sums import Level
from properties.scale import examples
from properties.usage_worlds import START, World, worlds
from support.usage_oracle import Oracle

SHORT = st.sampled_from([45, 200, 420])
Place = tuple[str, str]


def cut(series: GpuSeries, numbers: list[int]) -> GpuSeries:
    columns = (series.times, series.utilization, series.memory_used, series.memory_total)
    made = [None if column is None else array("d", [column[number] for number in numbers]) for column in columns]
    times, values, used, total = made
    assert times is not None
    assert values is not None
    return series._replace(times=times, utilization=values, memory_used=used, memory_total=total)


def with_losses(samples: list[GpuSeries], chance: random.Random) -> list[GpuSeries]:
    """Series that are gone, nodes that are gone, pieces of time that are gone, single measurements that are gone."""
    gone = chance.choice(["", "node-a", "node-b"])
    begin = START + chance.randint(-60, 420)
    until = begin + chance.choice([0, 30, 200, 600])
    found = []
    for one in samples:
        if one.node == gone or chance.random() < 0.2:
            continue
        left = [number for number, time in enumerate(one.times) if not begin <= time < until and chance.random() < 0.9]
        found.append(cut(one, left))
    return found


def pods_alone(holdings: list[Holding]) -> list[Holding]:
    """Each pod as a workload of its own, so that the sums of workloads are those of pods."""
    return [
        one._replace(workload=WorkloadKey(one.namespace, "Pod", f"{one.node}/{one.pod}", f"{one.node}/{one.pod_uid}"))
        for one in holdings
    ]


def observed(world: World, samples: list[GpuSeries]) -> dict[str, float]:
    """Measured GPU-seconds of each pod on each node."""
    rolled = roll_up(
        START, world.seconds, pods_alone(world.holdings), world.capacities, samples, world.interval,
        shared=SharedGpuMetrics.COPIES,
    )  # fmt: skip
    return {group.value: sums.obs_gpu_s for group, sums in rolled.sums.items() if group.level is Level.WORKLOAD}


def test_recreated_pod_does_not_replace_lost_samples() -> None:
    """A pod of a StatefulSet is followed by one of the same name; the measurement before it is lost."""

    def held(uid: str, start: int, end: int) -> Holding:
        workload = WorkloadKey("red", "Pod", "a-0", uid)
        return Holding(uid, "red", "a-0", workload, "node-a", 1.0, "A100", {}, {}, START + start, START, START + end)

    def measured(*times: int) -> GpuSeries:
        stamps = array("d", [START + time for time in times])
        return GpuSeries("node-a", "GPU-0", "red", "a-0", stamps, array("d", [50.0] * len(times)))

    world = World(60, [held("uid-0", 0, 11), held("uid-1", 11, 60)], [], [], 6)
    kept = [measured(5, 11, 17, 23)]
    combined = merge_measurements(kept, [measured(5, 17, 23)], START, reach(6))
    assert observed(world, combined.series) == observed(world, kept)
    assert combined.lost == [], "no less time is covered"


def names_are_unique(holdings: list[Holding]) -> bool:
    """Return True if no two pods have one name at one time, as in Kubernetes: a measurement has only the name."""
    return not any(
        (one.namespace, one.pod) == (other.namespace, other.pod)
        and one.pod_uid != other.pod_uid
        and one.start < (other.end or math.inf)
        and other.start < (one.end or math.inf)
        for one, other in combinations(holdings, 2)
    )


@examples(150)
@given(worlds(SHORT), st.randoms(use_true_random=False))
def test_losses_do_not_lower_measured_time(world: World, chance: random.Random) -> None:
    """Neither one loss nor a second one after it, which another Prometheus with other scrapes has."""
    assume(names_are_unique(world.holdings))
    kept, before = list(world.samples), observed(world, world.samples)
    for shift in (0, 0, 3):
        fresh = with_losses(world.samples, chance)
        fresh = [one._replace(times=array("d", [time + shift for time in one.times])) for one in fresh]
        combined = merge_measurements(kept, fresh, START, reach(world.interval))
        after = observed(world, combined.series)
        assert all(after[pod] >= seconds - 1e-6 for pod, seconds in before.items())
        kept, before = combined.series, after


@examples(60)
@given(worlds(SHORT), st.randoms(use_true_random=False))
def test_sums_after_a_loss_equal_sums_over_seconds(world: World, chance: random.Random) -> None:
    """If the same measurements are lost and kept, the hour is unchanged, second by second."""
    combined = merge_measurements(world.samples, with_losses(world.samples, chance), START, reach(world.interval))
    truth = Oracle(
        START, world.seconds, pods_alone(world.holdings), world.capacities, world.samples, world.interval, (), ()
    )
    expected = {key[2]: sums["obs_gpu_s"] for key, sums in truth.groups.items() if key[0] == "workload"}
    found = observed(world, combined.series)
    assert all(abs(found.get(pod, 0.0) - seconds) < 1e-6 * max(1, seconds) for pod, seconds in expected.items())


@examples(60)
@given(worlds(SHORT))
def test_equal_or_more_samples_replace_stored_ones(world: World) -> None:
    """The same, more, or the same of another replica: nothing is added to it, and nothing is reported as lost."""
    more = [*world.samples, *(one._replace(gpu="other") for one in world.samples)]
    assert merge_measurements(world.samples, more, START, reach(world.interval)) == (more, [])
    assert merge_measurements([], world.samples, START, reach(world.interval)) == (world.samples, [])


@examples(60)
@given(worlds(SHORT))
def test_packed_series_round_trip(world: World) -> None:
    assert repr(unpack_series(pack_series(world.samples))) == repr(world.samples)

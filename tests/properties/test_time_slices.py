"""Time slices of pods on a shared card, for any metrics of the exporter: compared second by second."""

from __future__ import annotations

import math
from array import array
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl_usage.facts import Capacity, CapacityState, GpuSeries, Holding, SharedGpuMetrics, WorkloadKey
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.rollup.ledger import discrepancies
from gpuctl_usage.sums import Group, Level, RolledUp
from properties.scale import examples
from properties.usage_worlds import KEYS, START, World
from support.compared_sums import check_parts, compare
from support.usage_oracle import Oracle

METRIC = "DCGM_FI_DEV_GPU_UTIL"
SECONDS = 420


class Card:
    """A card of which pods hold a turn each, and its exporter."""

    def __init__(self, random: Random, gpu: int, turns: int, interval: int) -> None:
        self.random, self.gpu, self.turns = random, f"GPU-{gpu}", turns
        self.times = [time for time in range(random.randint(-20, 0), SECONDS + 40, interval) if random.random() < 0.97]
        self.pods = [f"pod-{gpu}-{number}" for number in range(random.randint(1, turns))]
        # Sometimes the exporter is updated in between, and its metrics change.
        self.turn = random.choice([-math.inf, math.inf, random.randint(0, SECONDS)])
        self.names_itself = random.random() < 0.5
        self.levels = random.choice([[0], [0, 10], [20, 80, 100], [0, 5, 33.25, 50, 100]])

    def holdings(self) -> list[Holding]:
        found = []
        for pod in self.pods:
            begin = self.random.choice([-100, self.random.randint(0, 300)])
            end = self.random.choice([None, begin + self.random.randint(20, 500)])
            team = {"team": self.random.choice("xy")}
            workload = WorkloadKey("red", "Job", pod, f"uid-{pod}")
            found.append(
                Holding(
                    *(pod, "red", pod, workload, "node-a", 1 / self.turns, "T4", team, {}),
                    START + begin,
                    START + begin,
                    None if end is None else START + end,
                )
            )
        return found

    def series(self) -> list[GpuSeries]:
        """Return the series of each pod, each time either all the card's or each pod's own, and perhaps that of the
        card.
        """
        values: dict[str, list[tuple[float, float]]] = {pod: [] for pod in ["", *self.pods]}
        for time in self.times:
            apart = time >= self.turn or self.random.random() < 0.03
            each = {pod: (self.random.choice(self.levels), self.random.choice([0, 8, 12.5])) for pod in self.pods}
            whole = min(100, sum(use for use, _ in each.values())), sum(used for _, used in each.values())
            for pod in values:
                values[pod].append(each[pod] if apart and pod else whole)
        return [
            GpuSeries(
                *("node-a", self.gpu, "red" if pod else "", pod),
                array("d", [START + time for time in self.times]),
                array("d", [use for use, _ in values[pod]]),
                array("d", [used for _, used in values[pod]]),
                array("d", [80.0] * len(self.times)),
                METRIC,
            )
            for pod in values
            if pod or self.names_itself
        ]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A node with one or two cards that are shared, and one whose only pod has it to itself."""
    random = Random(draw(st.integers(0, 2**32)))
    interval, turns = random.choice([6, 10]), random.choice([2, 3, 4])
    cards = [Card(random, number, turns, interval) for number in range(random.randint(1, 2))]
    alone = Card(random, 7, 1, interval)
    holdings = [holding for card in (*cards, alone) for holding in card.holdings()]
    capacities = [Capacity("node-a", "T4", 8.0, CapacityState.READY, START - 1000, None)]
    return World(SECONDS, holdings, capacities, [one for card in (*cards, alone) for one in card.series()], interval)


def rolled(world: World, how: SharedGpuMetrics) -> RolledUp:
    return roll_up(START, *world[:4], world.interval, **KEYS, shared=how)


@pytest.mark.parametrize("how", SharedGpuMetrics)
@examples(60)
@given(world=worlds())
def test_shared_card_sums_equal_sums_over_seconds(how: SharedGpuMetrics, world: World) -> None:
    result = rolled(world, how)
    keys = KEYS["label_keys"], KEYS["annotation_keys"]
    compare(result, Oracle(START, *world[:4], world.interval, *keys, how.value))
    check_parts(result)
    assert discrepancies(result) == []


@examples(60)
@given(world=worlds(), order=st.randoms(use_true_random=False))
def test_sample_order_does_not_matter(world: World, order: Random) -> None:
    other = world._replace(samples=order.sample(world.samples, len(world.samples)))
    assert repr(rolled(other, SharedGpuMetrics.DETECT)) == repr(rolled(world, SharedGpuMetrics.DETECT))


@examples(60)
@given(world=worlds())
def test_per_process_use_adds_up_to_the_cards(world: World) -> None:
    """Process by process: what pods used of what they held, and what they used beyond it, is what the cards did for them."""
    apart = [one for one in world.samples if one.pod and one.gpu != "GPU-7"]
    alone = [holding for holding in world.holdings if not holding.pod.startswith("pod-7")]
    whole = rolled(world._replace(samples=apart, holdings=alone), SharedGpuMetrics.PER_PROCESS).sums[
        Group(Level.CLUSTER)
    ]
    # The same pods, as if each had had a card of its own.
    cards = [holding._replace(gpus=1.0) for holding in alone]
    scaled = []
    for one in apart:
        others = [other for other in apart if other.gpu == one.gpu]
        sums = [sum(other.utilization[place] for other in others) for place in range(len(one.times))]
        parts = [value / max(1.0, total / 100) for value, total in zip(one.utilization, sums, strict=True)]
        scaled.append(one._replace(utilization=array("d", parts)))
    used = rolled(world._replace(samples=scaled, holdings=cards), SharedGpuMetrics.COPIES).sums[Group(Level.CLUSTER)]
    assert whole.util_gpu_s / 100 + whole.beyond_gpu_s == pytest.approx(used.util_gpu_s / 100, abs=1e-6)

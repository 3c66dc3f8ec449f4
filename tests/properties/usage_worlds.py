"""Random clusters and what was measured in them: pods that come and go, are re-labelled and named alike, nodes that join."""

from __future__ import annotations

import math
from array import array
from itertools import pairwise
from random import Random
from typing import NamedTuple

from hypothesis import strategies as st

from gpuctl.objects.durations import HOUR
from gpuctl_usage.facts import Capacity, CapacityState, EndReason, GpuSeries, Holding, WorkloadKey
from gpuctl_usage.rollup.hour import roll_up
from gpuctl_usage.sums import RolledUp

START = 490_000 * HOUR
NODES = ("node-a", "node-b", "node-c")
INTERVALS = (2, 6, 10, 20)
LABEL_KEYS, ANNOTATION_KEYS = ("team", "app"), ("cost-center",)
KEYS = {"label_keys": LABEL_KEYS, "annotation_keys": ANNOTATION_KEYS}


class World(NamedTuple):
    """The arguments of a roll-up."""

    seconds: int
    holdings: list[Holding]
    capacities: list[Capacity]
    samples: list[GpuSeries]
    interval: int


def _model(node: str) -> str:
    return "A100" if node == "node-a" else "H100"


@st.composite
def _splits(draw: st.DrawFn, seconds: int, most: int) -> list[tuple[int, int | None]]:
    """Intervals that follow each other, around or within the time: the last may be open."""
    times = draw(st.lists(st.integers(-90, seconds + 90), min_size=2, max_size=most, unique=True).map(sorted))
    bounds: list[tuple[int, int | None]] = list(pairwise(times))
    if draw(st.booleans()):
        bounds[-1] = (bounds[-1][0], None)
    return bounds


def _labels(keys: tuple[str, ...]) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(["x", "y", ""]))


@st.composite
def _pod(draw: st.DrawFn, number: int, seconds: int) -> list[Holding]:
    """One pod in one to three intervals; two pods of one name follow each other, or now and then overlap."""
    namespace = draw(st.sampled_from(["red", "blue"]))
    kind, name = draw(st.sampled_from([("Job", "train"), ("Deployment", "serve")]))
    workload = WorkloadKey(namespace, kind, name, f"{namespace}-{name}-{draw(st.integers(1, 2))}")
    node, pod = draw(st.sampled_from(NODES)), f"{name}-{draw(st.integers(0, 1))}"
    gpus = draw(st.sampled_from([0.25, 0.5, 1.0, 1 / 3, 2.0, 3.0, 8.0, 0.0]))
    wait = draw(st.none() | st.integers(0, 60))
    found = []
    for begin, end in draw(_splits(seconds, 4)):
        first = found[0].start if found else START + begin
        found.append(
            Holding(
                *(f"uid-{number}", namespace, pod, workload, node, gpus, _model(node)),
                labels=draw(_labels(LABEL_KEYS)),
                annotations=draw(_labels(("cost-center", "project"))),
                start=START + begin,
                started=None if wait is None else first + wait,
                end=None if end is None else START + end,
                ending=EndReason.CHANGED,
            )
        )
    return found


@st.composite
def _capacities(draw: st.DrawFn, node: str, seconds: int) -> list[Capacity]:
    return [
        Capacity(
            *(node, _model(node), draw(st.sampled_from([0.0, 1.0, 4.0, 8.0, 16.0]))),
            state=draw(st.sampled_from(CapacityState)),
            start=START + begin,
            end=None if end is None else START + end,
        )
        for begin, end in draw(_splits(seconds, 4))
    ]


@st.composite
def _series(draw: st.DrawFn, place: tuple[str, str, str], seconds: int, interval: int) -> list[GpuSeries]:
    """The GPUs of one pod, scraped together or each for itself, with gaps and things said twice."""
    # Hypothesis would take long over every single value of them.
    random = Random(draw(st.integers(0, 2**32)))
    regular = list(range(random.randint(-40, 0), seconds + 60, interval))
    gap = random.randint(0, seconds)
    together = [time for time in regular if not gap <= time < gap + 4 * interval]
    apart, memories = random.random() < 0.4, random.choice(["none", "all", "some"])
    found = []
    for gpu in range(random.randint(1, 4)):
        times = sorted(random.sample(regular, random.randint(0, len(regular)))) if apart else together
        values = [random.choice([0.0, 100.0, random.randint(0, 400) / 4]) for _ in times]
        used, total = [random.randint(0, 80) / 2 for _ in times], [40.0 + gpu for _ in times]
        if memories == "some":
            used = [math.nan if random.random() < 0.3 else amount for amount in used]
            total = [math.nan if random.random() < 0.1 else amount for amount in total]
        columns = [
            array("d", [START + time for time in times]),
            array("d", values),
            array("d", used),
            array("d", total),
        ]
        known = 2 if memories == "none" else 4
        node, namespace, pod = place
        found.append(GpuSeries(node, f"GPU-{gpu}", namespace, pod, *columns[:known]))
        if random.random() < 0.3:
            # What a second query or another Prometheus says of a part of it.
            middle = len(times) // 3
            again = [column[middle:] for column in columns[:known]]
            again[1] = array("d", [random.choice([value, 100 - value]) for value in again[1]])
            found.append(GpuSeries(node, f"GPU-{gpu}", namespace, pod, *again))
    return found


@st.composite
def worlds(draw: st.DrawFn, seconds: st.SearchStrategy[int]) -> World:
    """A cluster, and some of its time."""
    length, interval = draw(seconds), draw(st.sampled_from(INTERVALS))
    pods = draw(st.integers(0, 5))
    holdings = [holding for number in range(pods) for holding in draw(_pod(number, length))]
    if holdings and draw(st.integers(0, 4)) == 0:
        # What should not come, and does: the same pod again, with other times.
        twin = draw(st.sampled_from(holdings))
        moved = START + draw(st.integers(-90, length))
        end = draw(st.none() | st.integers(1, length).map(lambda later: moved + later))
        holdings.append(twin._replace(start=draw(st.sampled_from([twin.start, moved])), end=end))
    capacities = [capacity for node in NODES for capacity in draw(_capacities(node, length))]
    places = sorted({(holding.node, holding.namespace, holding.pod) for holding in holdings})
    places += draw(st.sampled_from([[], [("node-a", "red", "exporter")], [("node-z", "red", "train-0")]]))
    samples = [one for place in places for one in draw(_series(place, length, interval))]
    return World(length, holdings, capacities, samples, interval)


def rolled(world: World, start: int = START, seconds: int | None = None) -> RolledUp:
    """A part of a world, an hour at most, added up."""
    length = world.seconds if seconds is None else seconds
    return roll_up(start, length, world.holdings, world.capacities, world.samples, world.interval, **KEYS)

"""The scheduler's scores, held against values that its own formulas give, worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from gpuctl.capacity.draws import Draws
from gpuctl.capacity.scoring import (
    Spreading,
    balance_gained,
    evenness,
    least_allocated,
    liking,
    looked_for,
    neighbours_normalised,
    node_preference,
    normalised,
    taint_counts,
)
from gpuctl.capacity.seats import HOST_NAME, Incoming, PlacedPod, SchedulableNode, Seat, Spread, Term


def seat(name: str, *pods: PlacedPod, zone: str = "", taints: tuple[dict[str, str], ...] = ()) -> Seat:
    labels = {HOST_NAME: name, **({"zone": zone} if zone else {})}
    return Seat(SchedulableNode(name, {"cpu": 4000, "pods": 10}, labels, taints, False, {}, frozenset()), pods)


def pod(app: str, **more: object) -> PlacedPod:
    return PlacedPod("team", app, {"app": app}, **more)  # type: ignore[arg-type]


def test_least_allocated_is_the_mean_of_what_is_left() -> None:
    # cpu (4000 - 1000) * 100 / 4000 = 75, memory (10 - 5) * 100 / 10 = 50: 125 / 2.
    assert least_allocated((1000, 5), (4000, 10)) == 62
    # What is asked for too much counts 0, what a node does not have counts nothing.
    assert least_allocated((5000, 0), (4000, 10)) == 50
    assert least_allocated((1000, 5), (4000, 0)) == 75
    assert least_allocated((1, 1), (0, 0)) == 0


def balanced_allocation(before: tuple[int, int], after: tuple[int, int], capacity: tuple[int, int]) -> int:
    return balance_gained(evenness(before, capacity), evenness(after, capacity))


def test_balanced_allocation_is_the_change_for_the_better() -> None:
    capacity = 4000, 8000
    # Shares 1/4 and 1/4: as even as before.
    assert balanced_allocation((0, 0), (1000, 2000), capacity) == 75
    # Shares 1/2 and 1/4: deviation 1/8, score 87; 100 before: 50 + (50 - 13) / 2.
    assert balanced_allocation((0, 0), (2000, 2000), capacity) == 68
    # The other way round: 50 + (50 + 13) / 2.
    assert balanced_allocation((2000, 2000), (2000, 4000), capacity) == 81


@pytest.mark.parametrize(
    ("scores", "reverse", "found"),
    [([0, 1, 4], True, [100, 75, 0]), ([0, 0], True, [100, 100]), ([1, 3], False, [33, 100]), ([0, 0], False, [0, 0])],
)
def test_scores_are_brought_to_a_hundred(scores: list[int], reverse: bool, found: list[int]) -> None:
    assert normalised(scores, reverse=reverse) == found


def test_soft_taints_and_preferences_are_counted() -> None:
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    node = seat("a", zone="x", taints=(soft, {"key": "hard", "effect": "NoSchedule"})).node
    assert taint_counts(Incoming(pod("job")), node) == 1
    assert taint_counts(Incoming(pod("job"), tolerations=[{"key": "old", "operator": "Exists"}]), node) == 0
    hard = [{"key": "old", "operator": "Exists", "effect": "NoSchedule"}]
    assert taint_counts(Incoming(pod("job"), tolerations=hard), node) == 1
    here = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
    preferred = [(5, here), (3, here), (9, {})]
    assert node_preference(Incoming(pod("job"), preferred_nodes=preferred), node) == 8


def test_pods_are_spread_over_nodes() -> None:
    rule = Spread(HOST_NAME, {"matchLabels": {"app": "x"}}, 1, 1, True, False)
    seats = [seat("a", pod("x"), pod("x")), seat("b", pod("y")), seat("c", pod("x"))]
    counted = Spreading(Incoming(pod("x"), soft_spread=(rule,)), seats)
    # ln(3 + 2) = 1.609 a pod: 3, 0 and 2, rounded; of those the most is 3.
    assert counted.scores([0, 1, 2]) == [0, 100, 33]
    # Of two nodes a pod weighs ln(2 + 2) = 1.386: 0 and 1.
    assert counted.scores([1, 2]) == [100, 0]
    later = counted.copy()
    later.count(1, [pod("x")], 1)
    assert later.scores([1, 2]) == [100 * 1 // 1, 100]
    assert counted.scores([1, 2]) == [100, 0]


def test_pods_are_spread_over_zones_by_the_scheduler_itself() -> None:
    rules = tuple(
        Spread(key, {"matchLabels": {"app": "x"}}, most, 1, True, False) for key, most in ((HOST_NAME, 3), ("zone", 5))
    )
    seats = [seat("a", pod("x"), zone="z"), seat("b", zone="z"), seat("c", zone="y")]
    own = Incoming(pod("x"), soft_spread=rules, spreads_by_default=True)
    # a: 1.609 + 2 + ln(4) + 4 = 8.995, b: 2 + 1.386 + 4 = 7.386, c: 6; the most is 9, the least 6.
    assert Spreading(own, seats).scores([0, 1, 2]) == [100 * 6 // 9, 100 * 8 // 9, 100]


def test_neighbours_are_liked_by_weight() -> None:
    near = Term("zone", {"matchLabels": {"app": "x"}}, frozenset({"team"}))
    other = Term("zone", {"matchLabels": {"app": "job"}}, frozenset({"team"}))
    own = Incoming(pod("job", preferences=((10, near),)))
    shy, fond = pod("shy", preferences=((-4, other),)), pod("fond", near=(other,))
    seats = [seat("a", pod("x"), zone="z"), seat("b", shy, zone="y"), seat("c", fond, zone="w")]
    liked = liking(own, seats)
    assert liked == Counter({("zone", "z"): 10, ("zone", "y"): -4, ("zone", "w"): 1})
    # From -4 to 10: 14 apart.
    assert neighbours_normalised(liked, seats) == [100, 0, 35]


@pytest.mark.parametrize(("nodes", "found"), [(99, 99), (100, 100), (500, 230), (1000, 420), (6000, 300)])
def test_of_many_nodes_some_are_looked_for(nodes: int, found: int) -> None:
    assert looked_for(nodes) == found


def test_draws_are_those_of_the_text() -> None:
    first, second = Draws("a"), Draws("a")
    assert [first.below(10) for _ in range(50)] == [second.below(10) for _ in range(50)]
    assert [Draws("b").bits(), Draws("a").bits()] != [Draws("a").bits()] * 2
    shares = [first.share() for _ in range(2000)]
    assert 0.45 < sum(shares) / len(shares) < 0.55

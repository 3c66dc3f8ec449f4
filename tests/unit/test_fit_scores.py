"""The scheduler's scores, compared with values computed by hand from its formulas."""

from __future__ import annotations

import pytest

from gpuctl.capacity.scheduler.scheduler_model import HOST_NAME, IncomingPod, NodeInfo, PlacedPod, SchedulableNode
from gpuctl.capacity.scheduler.scoring import (
    NodeRanks,
    avoided_taints,
    balance_score,
    least_allocated,
    node_preference,
    normalised_scores,
    resource_evenness,
    resource_score,
)


def node_info(name: str, *pods: PlacedPod, zone: str = "", taints: tuple[dict[str, str], ...] = ()) -> NodeInfo:
    labels = {HOST_NAME: name, **({"zone": zone} if zone else {})}
    return NodeInfo(SchedulableNode(name, {"cpu": 4000, "pods": 10}, labels, taints, False, {}, frozenset()), pods)


def pod(app: str, **more: object) -> PlacedPod:
    return PlacedPod("team", app, {"app": app}, **more)  # type: ignore[arg-type]


def test_resource_score_counts_the_pods_of_the_node_and_the_new_one() -> None:
    """cpu (4000 - 1000 - 2000) * 100 / 4000 = 25, memory (10 - 2 - 3) * 100 / 10 = 50: 75 / 2.

    Pods without requests are scored with amounts of the scheduler's.
    """
    node = SchedulableNode("a", {"cpu": 4000, "memory": 10, "pods": 10}, {}, (), False, {}, frozenset())
    assert resource_score(pod("new", scored=(2000, 3)), NodeInfo(node, (pod("old", scored=(1000, 2)),))) == 1 + 37


def test_least_allocated_is_the_mean_free_fraction() -> None:
    # cpu (4000 - 1000) * 100 / 4000 = 75, memory (10 - 5) * 100 / 10 = 50: 125 / 2.
    assert least_allocated((1000, 5), (4000, 10)) == 62
    # Requests above the capacity score 0; a resource that the node does not have is left out.
    assert least_allocated((5000, 0), (4000, 10)) == 50
    assert least_allocated((1000, 5), (4000, 0)) == 75
    assert least_allocated((1, 1), (0, 0)) == 0


def balanced_allocation(before: tuple[int, int], after: tuple[int, int], capacity: tuple[int, int]) -> int:
    return balance_score(resource_evenness(before, capacity), resource_evenness(after, capacity))


def test_balanced_allocation_scores_the_change_in_balance() -> None:
    capacity = 4000, 8000
    # Fractions 1/4 and 1/4: as balanced as before.
    assert balanced_allocation((0, 0), (1000, 2000), capacity) == 75
    # Fractions 1/2 and 1/4: deviation 1/8, score 87; 100 before: 50 + (50 - 13) / 2.
    assert balanced_allocation((0, 0), (2000, 2000), capacity) == 68
    # In the other direction: 50 + (50 + 13) / 2.
    assert balanced_allocation((2000, 2000), (2000, 4000), capacity) == 81


@pytest.mark.parametrize(
    ("scores", "reverse", "found"),
    [([0, 1, 4], True, [100, 75, 0]), ([0, 0], True, [100, 100]), ([1, 3], False, [33, 100]), ([0, 0], False, [0, 0])],
)
def test_scores_are_normalised_to_100(scores: list[int], reverse: bool, found: list[int]) -> None:
    assert normalised_scores(scores, reverse=reverse) == found


def test_soft_taints_and_preferred_nodes_are_scored() -> None:
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    node = node_info("a", zone="x", taints=(soft, {"key": "hard", "effect": "NoSchedule"})).node
    assert avoided_taints(IncomingPod(pod("job")), node) == 1
    assert avoided_taints(IncomingPod(pod("job"), tolerations=[{"key": "old", "operator": "Exists"}]), node) == 0
    hard = [{"key": "old", "operator": "Exists", "effect": "NoSchedule"}]
    assert avoided_taints(IncomingPod(pod("job"), tolerations=hard), node) == 1
    here = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}
    preferred = [(5, here), (3, here), (9, {})]
    assert node_preference(IncomingPod(pod("job"), preferred_nodes=preferred), node) == 8


def test_best_node_is_the_first_of_equals() -> None:
    soft = {"key": "old", "effect": "PreferNoSchedule"}
    plain, tainted = node_info("a").node, node_info("b", taints=(soft,)).node
    assert NodeRanks(IncomingPod(pod("job")), [plain, plain], [3, 5]).best({5: 90, 3: 90}) == 3
    assert NodeRanks(IncomingPod(pod("job")), [plain, plain], [3, 5]).best({5: 90, 3: 90}, last=True) == 5
    # The taint costs 3 * 100.
    assert NodeRanks(IncomingPod(pod("job")), [tainted, plain], [3, 5]).best({3: 200, 5: 1}) == 5
    here = {"matchExpressions": [{"key": HOST_NAME, "operator": "In", "values": ["a"]}]}
    wishing = IncomingPod(pod("job"), preferred_nodes=[(1, here)])
    assert NodeRanks(wishing, [node_info("c").node, plain], [3, 5]).best({3: 200, 5: 1}) == 5
    assert NodeRanks(wishing, [node_info("c").node, plain], [3, 5]).best({3: 202, 5: 1}) == 3

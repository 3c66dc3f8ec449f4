"""`fit` of elastic trainings: the number of nodes that starts, without a queue and by Kueue's partial admission."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.objects.elastic_jobs import MIN_PARALLELISM, with_nodes
from support.fit_objects import cluster, job, node, running
from support.queue_cases import judged, queue, snapshot, workload, world
from support.queue_worlds import GPU, queue_job

Object = dict[str, Any]


def elastic(workload: Object, least: int) -> Object:
    """Make a Job with several pods elastic."""
    most = workload["spec"]["parallelism"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "PET_NNODES", "value": f"{least}:{most}"}]
    workload["metadata"]["annotations"] = {MIN_PARALLELISM: str(least)}
    return workload


def alone(free: int, *, least: int = 2, most: int = 4, nodes: int = 4) -> Fit:
    """Return the answer for a training without a queue. Of the nodes, some are free, and the others run other jobs."""
    names = [f"n{number}" for number in range(nodes)]
    used = [running(f"old-{name}", name, 8, 1000) for name in names[free:]]
    (found,) = fit(cluster([node(name) for name in names], used), [elastic(job(pods=most, gpus=8), least)])
    return found


@pytest.mark.parametrize(
    ("free", "verdict", "starts", "reason"),
    [
        (4, "fits", 4, ""),
        (3, "fits", 3, "with 3 of 2-4 nodes; the others join when there is room"),
        (2, "fits", 2, "with 2 of 2-4 nodes; the others join when there is room"),
        (1, "fits-when-empty", 1, None),
    ],
)
def test_training_without_a_queue_starts_with_the_least_number(
    free: int, verdict: str, starts: int, reason: str | None
) -> None:
    found = alone(free)
    assert (found.verdict, found.starts, found.certain) == (verdict, starts, True)
    assert found.demand.pods == 4
    # Only a training that does not run yet holds its nodes in vain.
    assert bool(found.held) is (free == 1)
    if reason is not None:
        assert found.reason == reason


def test_training_that_can_never_have_all_nodes_fits_with_fewer() -> None:
    assert (alone(3, nodes=3).verdict, alone(1, nodes=2).verdict) == ("fits", "fits-when-empty")
    assert alone(1, nodes=1).verdict == "never"


def test_scaled_training_is_judged_by_its_new_number() -> None:
    """Another node is requested for it, and has no room."""
    have = cluster([node("n0"), node("n1")], [running("old", "n1", 8, 1000)])
    (found,) = fit(have, [with_nodes(elastic(job(pods=4, gpus=8), 1), 2)])
    assert (found.verdict, found.reason) == ("fits", "with 1 of 1-2 nodes; the others join when there is room")


def queued(name: str, pods: int, least: int, priority: str = "queue-low") -> Object:
    return elastic(queue_job(name, "team", "team", 1, pods=pods, priority=priority), least)


@pytest.mark.parametrize(
    ("quota", "starts"),
    [(8, 8), (7, 7), (5, 5), (2, 2)],
)
def test_kueue_admits_as_many_nodes_as_there_is_quota_for(quota: int, starts: int) -> None:
    found = judged(snapshot(world(queue("team", quota))), queued("new", 8, 2))["new"]
    assert (found.verdict, found.starts, found.admitted) == ("fits", starts, True)
    assert found.certain is (starts == 8)
    if starts < 8:
        assert found.reason.startswith(f"with {starts} of 2-8 nodes; ")


def test_training_waits_without_quota_for_the_least_number() -> None:
    old = workload("old", "team", 3, since="2025-01-01T00:00:00Z")
    found = judged(snapshot(world(queue("team", 4)), old), queued("new", 4, 2))["new"]
    assert (found.verdict, found.admitted, found.starts) == ("fits-when-empty", False, 0)
    assert f"it asks for 2 {GPU}, 1 free" in found.reason


def test_preemption_for_all_nodes_comes_before_fewer_nodes() -> None:
    trial = world(queue("team", 4, preemption={"withinClusterQueue": "LowerPriority"}))
    have = snapshot(trial, workload("old", "team", 2, since="2025-01-01T00:00:00Z"))
    found = judged(have, queued("new", 4, 2, "queue-high"))["new"]
    assert (found.admitted, found.starts) == (True, 4)
    assert "preempts 1 job for it" in found.reason


def test_two_trainings_that_lack_quota_are_unknown() -> None:
    found = judged(snapshot(world(queue("team", 3))), queued("one", 4, 2), queued("two", 4, 2))
    assert {answer.verdict for answer in found.values()} == {"unknown"}

"""``SchedulerRun`` updates its caches pod by pod; after each job they equal those of a new run."""

from __future__ import annotations

import random

import pytest

from gpuctl.capacity.fit.simulation import SchedulerRun
from gpuctl.capacity.pods.cluster_model import ClusterModel
from gpuctl.capacity.scheduler.cluster_state import PodGroup
from gpuctl.capacity.scheduler.scheduler_model import (
    HOST_NAME,
    AffinityTerm,
    IncomingPod,
    NodeInfo,
    PlacedPod,
    SchedulableNode,
)

GPU = "nvidia.com/gpu"


def _pod(draw: random.Random, name: str, priority: int) -> PlacedPod:
    requests = {GPU: draw.choice((1, 2, 4)), "cpu": draw.choice((500, 2000)), "memory": draw.choice((1, 8)) << 30}
    scored = requests["cpu"], requests["memory"]
    labels = {"app": draw.choice(("red", "blue"))}
    return PlacedPod("team", name, labels, priority, requests, start=f"2026-01-{draw.randrange(10, 29)}", scored=scored)


def _cluster(draw: random.Random) -> ClusterModel:
    """Return nodes with running pods, one nominated pod, and one pending pod."""
    node_infos = []
    for number in range(6):
        amounts = {"cpu": draw.choice((16_000, 32_000)), "memory": 64 << 30, "pods": 9, GPU: 8}
        labels = {HOST_NAME: f"node-{number}"}
        node = SchedulableNode(f"node-{number}", amounts, labels, (), False, {}, frozenset())
        node_infos.append(
            NodeInfo(node, tuple(_pod(draw, f"old-{number}-{own}", draw.choice((0, 5))) for own in range(2)))
        )
    waiting = [IncomingPod(_pod(draw, "waiting", 7))]
    return ClusterModel(node_infos, [(0, _pod(draw, "promised", 5))], waiting, [], [], frozenset(), False)


def _groups(draw: random.Random) -> list[PodGroup]:
    """Return pods of several sizes and priorities, some with anti-affinity."""
    result = []
    for number in range(8):
        pod = _pod(draw, f"job-{number}", draw.choice((5, 10)))
        apart = AffinityTerm(HOST_NAME, {"matchLabels": {"app": "red"}}, frozenset({"team"}))
        if draw.random() < 0.4:
            pod = PlacedPod(**{**vars(pod), "anti_affinity": (apart,)})
        result.append(PodGroup(number, IncomingPod(pod)))
    return result


@pytest.mark.parametrize("seed", range(40))
def test_cached_room_equals_a_fresh_run(seed: int) -> None:
    draw = random.Random(seed)
    cluster, groups = _cluster(draw), _groups(draw)
    run = SchedulerRun(cluster, groups)
    for job, group in enumerate(groups):
        run.add_job(job, [(group, draw.randrange(1, 4))])
        placed = [pod for node_info in run.node_infos for pod in node_info.pods]
        assert len(placed) == len(set(placed))
        for kind in run._kinds.values():
            fresh = SchedulerRun(cluster._replace(node_infos=run.node_infos, nominated=[], waiting=[]), groups)
            other = fresh._entry(kind.incoming).kind
            for one, own in ((run, kind), (fresh, other)):
                one._update_rooms(own)
            assert kind.rooms == other.rooms
            if kind.incoming.preempts and not kind.rooms:
                assert run._cheapest_eviction(kind) == fresh._cheapest_eviction(other)
    # The pod nominated for the first node exceeds its allocatable resources.
    for node_info in run.node_infos[1:]:
        assert all(
            node_info.used.get(name, 0) <= amount
            for name, amount in node_info.node.allocatable.items()
            if name != "pods"
        )

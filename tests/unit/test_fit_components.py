"""Components: jobs that cannot affect each other are judged separately, all others together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpuctl.capacity.fit import job_fit as fit_module
from gpuctl.capacity.fit.components import Component, components
from gpuctl.capacity.fit.job_fit import fit
from gpuctl.capacity.pods.demand import model_demands
from gpuctl.capacity.scheduler.suitable_nodes import SuitableNodes
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from support.fit_objects import REQUIRED, apart, cluster, job, node, running, service_of, waiting

Object = dict[str, Any]


def pooled(name: str, pool: str, gpus: int = 8, **labels: str) -> Object:
    return node(name, gpus, labels={"pool": pool, **labels})


def in_pool(pool: str) -> Object:
    return {"nodeSelector": {"pool": pool}}


def component_names(snapshot: Snapshot, *jobs: Object) -> list[list[str]]:
    """Return the names of the jobs of each component."""
    found, demands = model_demands(snapshot, jobs)
    groups = [[group for group, _ in demand.groups] for demand in demands]
    parts = components(found, groups, SuitableNodes(found.node_infos))
    return sorted(sorted(demands[number].name for number in part.demands) for part in parts)


TWO_POOLS = [pooled("a", "p", zone="x"), pooled("b", "q", zone="x")]


def test_jobs_in_120_separate_pools_are_certain() -> None:
    jobs = [job(f"j{number}", pods=3, gpus=4, **in_pool(f"p{number}")) for number in range(120)]
    nodes = [pooled(f"n{number}-{side}", f"p{number}") for number in range(120) for side in "ab"]
    answers = fit(cluster(nodes), jobs)
    assert {(item.verdict, item.certain, item.likelihood) for item in answers} == {("fits", True, 1.0)}


@pytest.mark.parametrize(
    ("first", "second", "more"),
    [
        (job("one", **in_pool("p")), job("two", **in_pool("q")), {}),
        (job("one", gpus=9), job("two", **in_pool("q")), {}),
    ],
    ids=["pools", "too large for any node"],
)
def test_unrelated_jobs_are_in_separate_components(first: Object, second: Object, more: Object) -> None:
    assert component_names(cluster(TWO_POOLS, **more), first, second) == [["one"], ["two"]]


BUDGET = {"namespace": "team", "name": "x", "selector": {"matchLabels": {"app": "x"}}, "disruptionsAllowed": 1}
ZONE_TERM = {"labelSelector": {"matchLabels": {"app": "two"}}, "topologyKey": "zone"}


@pytest.mark.parametrize(
    ("first", "second", "pods", "more"),
    [
        (job("one"), job("two", **in_pool("q")), [], {}),
        (job("one", affinity=apart("two"), **in_pool("p")), job("two", **in_pool("q")), [], {}),
        (
            job("one", **in_pool("p")),
            job("two", affinity={"podAffinity": {REQUIRED: [{**ZONE_TERM, "labelSelector": {}}]}}, **in_pool("q")),
            [],
            {},
        ),
        # The eviction of x opens the zone to the other job.
        (job("one", **in_pool("p")), job("two", **in_pool("q")), [running("x", "a", 8, antiAffinity=[ZONE_TERM])], {}),
        (
            job("one", gpus=8, **in_pool("p")),
            job("two", gpus=8, **in_pool("q")),
            [running("x", "a", 8), running("x", "b", 8) | {"name": "y"}],
            {"budgets": [BUDGET]},
        ),
        (
            job("one", gpus=8, **in_pool("p")),
            job("two", gpus=8, **in_pool("q")),
            [running("x", "a", 8), running("y", "b", 8), waiting("w", 8, 200)],
            {},
        ),
    ],
    ids=["a shared node", "anti-affinity", "affinity", "a running pod's anti-affinity", "a budget", "a pending pod"],
)
def test_related_jobs_share_a_component(first: Object, second: Object, pods: list[Object], more: Object) -> None:
    assert component_names(cluster(TWO_POOLS, pods, **more), first, second) == [["one", "two"]]


def test_irrelevant_pods_and_budgets_connect_no_jobs() -> None:
    """A pending pod that no eviction helps, a budget of pods that cannot be evicted, the scheduler's default spread."""
    others = [running("x", "a", 8, 500), running("y", "b", 8, 500), waiting("w", 8, 200)]
    one, two = job("one", **in_pool("p")), job("two", **in_pool("q"))
    assert component_names(
        cluster(TWO_POOLS, others, budgets=[{**BUDGET, "selector": {"matchLabels": {}}}]), one, two
    ) == [
        ["one"],
        ["two"],
    ]
    service = service_of(1)
    service["spec"]["template"]["spec"].update(in_pool("q"))
    assert component_names(cluster(TWO_POOLS), one, service) == [["chat"], ["one"]]


@pytest.mark.parametrize("seed", range(12))
def test_component_answers_equal_the_joint_simulation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certain answers of one joint simulation equal those of the separate components."""
    draw = random.Random(seed)
    pools = "pqr"
    nodes = [pooled(f"{pool}{number}", pool, draw.choice((48, 64))) for pool in pools for number in range(2)]
    pods = [
        running(
            f"x{number}",
            draw.choice(nodes)["name"],
            draw.choice((1, 2)),
            draw.choice((0, 10, 200)),
            startTime=f"2026-01-0{number + 1}T00:00:00Z",
        )
        for number in range(6)
    ]
    jobs = [
        job(
            f"j{number}",
            draw.choice((1, 2)),
            draw.choice((1, 2, 4)),
            f"c{number}",
            **in_pool(draw.choice(pools)),
        )
        for number in range(5)
    ]
    # With equal priorities the joint simulation would depend on the order.
    classes = [{"name": f"c{number}", "value": draw.randrange(10) + 20 * number} for number in range(5)]
    snapshot = cluster(nodes, pods, priority_classes=classes)
    alone = {item.demand.name: item for item in fit(snapshot, jobs)}
    every = list(range(len(nodes)))
    monkeypatch.setattr(fit_module, "components", lambda *_: [Component(list(range(len(jobs))), every, [])])
    both = [(alone[item.demand.name], item) for item in fit(snapshot, jobs) if item.certain]
    assert both
    for apart_, whole in both:
        assert apart_.certain
        expected = (whole.verdict, whole.starts, {victim.pod.name for victim in whole.victims})
        assert expected == (apart_.verdict, apart_.starts, {victim.pod.name for victim in apart_.victims})


def test_fit_is_deterministic() -> None:
    jobs = [job(f"j{number}", gpus=3) for number in range(8)]
    snapshot = cluster([node("a"), node("b")])
    first = fit(snapshot, jobs)
    assert [(item.verdict, item.reason) for item in first] == [
        (item.verdict, item.reason) for item in fit(snapshot, jobs)
    ]
    assert any(item.depends for item in first)
    assert not any(item.certain for item in first)
    assert any("depends on order" in item.reason for item in first)

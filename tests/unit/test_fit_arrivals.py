"""When the pods of jobs that are applied together are made, and what becomes of the jobs for it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from gpuctl.capacity.arrivals import RUNS, is_in_turn, made_at, pace
from gpuctl.capacity.fit import fit
from gpuctl.objects.api_resources import key_of
from support.fit_objects import CLASSES, cluster, job, node, running

Object = dict[str, Any]

DISORDERLY = [run for run in range(RUNS) if not is_in_turn(run)]


def made(*jobs: Object) -> list[list[list[float]]]:
    """When the pods of jobs are made, run by run."""
    demands = [answer.demand for answer in fit(cluster([node("a")]), jobs)]
    return [[made_at(demand, run) for demand in demands] for run in range(RUNS)]


def deployment(name: str, pods: int) -> Object:
    """A Deployment of pods like those of a job."""
    template = job(name)["spec"]["template"]
    spec = {"replicas": pods, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team"},
        "spec": spec,
    }


def test_jobs_that_are_applied_together_come_one_after_another() -> None:
    for run, (one, two) in enumerate(made(job("one", pods=9), deployment("two", 3))):
        assert max(one) < min(two) or run in DISORDERLY


def test_what_apply_creates_in_turn_never_comes_side_by_side() -> None:
    jobs = [job("one", gpus=5), job("two", gpus=5)]
    answers = fit(cluster([node("a")]), jobs, {key_of(item) for item in jobs})
    assert [(answer.verdict, answer.likelihood) for answer in answers] == [("fits", 1), ("fits-when-empty", 1)]
    for run in range(RUNS):
        one, two = (made_at(answer.demand, run) for answer in answers)
        assert max(one) < min(two)
    others = fit(cluster([node("a")]), jobs)
    assert all(0.5 < answer.likelihood < 1 for answer in others)


def test_the_most_important_come_first() -> None:
    answers = fit(cluster([node("a")]), [job("one"), job("two", priority="high"), job("three", priority="high")])
    made = [(made_at(answer.demand, 1)[0], answer.demand.name) for answer in answers]
    assert [name for _, name in sorted(made)] == ["two", "three", "one"]


def test_some_orders_are_such_as_other_tools_have() -> None:
    assert 0 < len(DISORDERLY) <= RUNS // 8
    assert len({pace(run) for run in DISORDERLY}) == len({pace(run) for run in range(RUNS)})


def test_controllers_make_one_pod_then_two_then_four() -> None:
    for (times,) in [made(job(pods=9))[run] for run in DISORDERLY]:
        assert list(Counter(times).values()) == [1, 2, 4, 2]
        assert times == sorted(times)


def test_jobs_that_are_made_side_by_side_come_in_any_order() -> None:
    runs = [times for number in range(8) for times in _disorderly(job(f"a{number}"), job(f"b{number}"))]
    first = Counter(one[0] < two[0] for one, two in runs)
    assert min(first[True], first[False]) >= len(runs) // 4


def test_jobs_that_are_applied_much_later_come_later() -> None:
    for times in made(*(job(f"j{number:03}") for number in range(200))):
        assert times[0][0] < times[-1][0]


def test_the_pods_of_a_deployment_wait_for_its_replicaset() -> None:
    runs = [times for number in range(8) for times in _disorderly(job(f"a{number}"), deployment(f"b{number}", 1))]
    assert sum(plain[0] < service[0] for plain, service in runs) > len(runs) * 2 // 3


def _disorderly(*jobs: Object) -> list[list[list[float]]]:
    runs = made(*jobs)
    return [runs[run] for run in DISORDERLY]


def test_the_scheduler_is_faster_or_slower_than_those_who_make_pods() -> None:
    paces = {pace(run) for run in range(RUNS)}
    assert None in paces
    assert min(found for found in paces if found is not None) < 1


def test_the_first_of_two_jobs_takes_the_room_and_the_other_waits_whole() -> None:
    answers = fit(cluster([node("a", 4)]), [job("one", pods=4), job("two", pods=4)])
    assert [answer.verdict for answer in answers] == ["fits", "fits-when-empty"]
    assert [answer.starts for answer in answers] == [4, 0]
    assert all(not answer.certain and answer.likelihood >= 0.8 for answer in answers)


def test_nothing_is_certain_that_depends_on_the_more_important_job_being_first() -> None:
    """The less important one keeps the free node when it comes first: the other one then evicts who is least."""
    nodes = [node("a", 4), node("b", 4)]
    classes = [*CLASSES, {"name": "late", "value": 10, "preemptionPolicy": "Never"}]
    for first in ("late", "low"):
        answers = fit(
            cluster(nodes, [running("old", "a", 4)], priority_classes=classes),
            [job("one", gpus=4, priority=first), job("two", gpus=4, priority="high")],
        )
        assert [(answer.demand.name, answer.certain) for answer in answers] == [("two", False), ("one", False)]
        assert all(0.5 <= answer.likelihood < 1 for answer in answers)
    alone = fit(cluster(nodes, [running("old", "a", 4)]), [job("two", gpus=4, priority="high")])
    assert alone[0].certain


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_of_two_jobs_the_most_important_takes_the_room(names: tuple[str, str]) -> None:
    """Neither evicts anybody."""
    classes = [*CLASSES, {"name": "late", "value": 10, "preemptionPolicy": "Never"}]
    least, most = names
    jobs = [job(least, gpus=4, priority="late"), job(most, gpus=4, priority="polite")]
    answers = fit(
        cluster([node("a", 4)], priority_classes=classes), sorted(jobs, key=lambda one: one["metadata"]["name"])
    )
    assert [(answer.demand.name, answer.verdict) for answer in answers] == [(most, "fits"), (least, "fits-when-empty")]
    assert all(0.9 < answer.likelihood <= 1 and not answer.certain for answer in answers)

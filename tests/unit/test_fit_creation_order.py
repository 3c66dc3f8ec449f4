"""Jobs that are applied together: the order of their creation, and when the answer depends on it."""

from __future__ import annotations

import pytest

from gpuctl.capacity.fit.job_fit import fit
from gpuctl.objects.api_resources import key_of
from support.fit_objects import CLASSES, cluster, job, node, running, waiting


def test_jobs_created_in_sequence_do_not_depend_on_order() -> None:
    jobs = [job("one", gpus=5), job("two", gpus=5)]
    answers = fit(cluster([node("a")]), jobs, {key_of(item) for item in jobs})
    assert [(answer.verdict, answer.likelihood) for answer in answers] == [("fits", 1), ("fits-when-empty", 1)]
    others = fit(cluster([node("a")]), jobs)
    assert [(answer.verdict, answer.likelihood) for answer in others] == [("fits", None), ("fits-when-empty", None)]
    assert all("depends on order" in answer.reason for answer in others)


def test_dependence_on_order_is_the_last_clause_of_a_reason() -> None:
    one, two = fit(cluster([node("a")]), [job("one", gpus=5), job("two", gpus=5)])
    assert one.reason == "depends on order"
    assert two.reason.startswith("0 of 1 pods (5 nvidia.com/gpu each) have room now; ")
    assert two.reason.endswith("; depends on order")


def test_first_of_two_gangs_takes_all_the_room() -> None:
    answers = fit(cluster([node("a", 4)]), [job("one", pods=4), job("two", pods=4)])
    assert [answer.verdict for answer in answers] == ["fits", "fits-when-empty"]
    assert [answer.starts for answer in answers] == [4, 0]
    assert all(not answer.certain and answer.depends for answer in answers)


def test_answers_that_depend_on_creation_order_are_uncertain() -> None:
    """The less important job takes the free node if it comes first; the other then evicts the least important pod."""
    nodes = [node("a", 4), node("b", 4)]
    classes = [*CLASSES, {"name": "late", "value": 10, "preemptionPolicy": "Never"}]
    for first in ("late", "low"):
        answers = fit(
            cluster(nodes, [running("old", "a", 4)], priority_classes=classes),
            [job("one", gpus=4, priority=first), job("two", gpus=4, priority="high")],
        )
        assert [(answer.demand.name, answer.certain) for answer in answers] == [("two", False), ("one", False)]
        assert all(answer.depends for answer in answers)
    alone = fit(cluster(nodes, [running("old", "a", 4)]), [job("two", gpus=4, priority="high")])
    assert alone[0].certain


@pytest.mark.parametrize("names", [("one", "two"), ("two", "one")])
def test_more_important_of_two_jobs_takes_the_room(names: tuple[str, str]) -> None:
    classes = [*CLASSES, {"name": "late", "value": 10, "preemptionPolicy": "Never"}]
    least, most = names
    jobs = [job(least, gpus=4, priority="late"), job(most, gpus=4, priority="polite")]
    answers = fit(
        cluster([node("a", 4)], priority_classes=classes), sorted(jobs, key=lambda one: one["metadata"]["name"])
    )
    assert [(answer.demand.name, answer.verdict) for answer in answers] == [(most, "fits"), (least, "fits-when-empty")]
    assert not any(answer.certain for answer in answers)


def test_choice_between_equal_nodes_is_open() -> None:
    """The first job takes one of two nodes; the second job fits only one of them."""
    jobs = [job("one", gpus=8), job("two", gpus=8, nodeSelector={"zone": "b"})]
    nodes = [node("a", labels={"zone": "b"}), node("b")]
    for ordered in (nodes, nodes[::-1]):
        one, two = fit(cluster(ordered), jobs, {key_of(item) for item in jobs})
        assert (one.verdict, one.likelihood) == ("fits", 1)
        assert (two.depends, two.certain) == (True, False)
        assert "depends on order" in two.reason


def test_job_that_runs_keeps_its_room_before_a_job_that_waits() -> None:
    """The waiting job is the first of the files: an apply of the unchanged documents replaces neither."""
    owner = {"kind": "Job", "name": "runs", "group": "batch"}
    waits = {"kind": "Job", "name": "waits", "group": "batch"}
    pods = [running("runs-x", "a", 4, owner=owner), {**waiting("waits-x", 5, 0), "owner": waits}]
    jobs = [job("waits", gpus=5), job("runs", gpus=4)]
    answers = fit(cluster([node("a")], pods), jobs)
    assert {answer.demand.name: answer.verdict for answer in answers} == {"runs": "fits", "waits": "fits-when-empty"}
    replaced = fit(cluster([node("a")], pods), jobs, {key_of(item) for item in jobs})
    assert {answer.demand.name: answer.verdict for answer in replaced} == {"runs": "fits-when-empty", "waits": "fits"}

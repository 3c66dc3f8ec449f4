"""Jobs that share a quota that is too small for all of them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.pods.demand import model_demands
from gpuctl.capacity.pods.quota_admission import quota_admissions
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from support.fit_objects import GPU, cluster, job, node, running

Object = dict[str, Any]
KEY = f"requests.{GPU}"


def quota(name: str = "q", used: str = "0", **hard: str) -> Object:
    limits = {KEY if key == "gpus" else key: amount for key, amount in hard.items()}
    status = {"hard": limits, "used": dict.fromkeys(limits, used)}
    metadata = {"namespace": "team", "name": name}
    return {"kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": limits}, "status": status}


def fit_by_name(have: Snapshot, *jobs: Object) -> dict[str, Fit]:
    return {found.demand.name: found for found in fit(have, jobs)}


def free_cluster(*quotas: Object, pods: list[Object] | None = None) -> Snapshot:
    return cluster([node(name) for name in "abcdef"], pods or [], quotas=list(quotas))


@pytest.mark.parametrize(("priority", "first"), [("low", "one"), ("high", "two")])
def test_first_created_job_gets_the_quota(priority: str, first: str) -> None:
    """The job that is created first gets it, in order of priority."""
    found = fit_by_name(free_cluster(quota(gpus="5")), job("one", gpus=3), job("two", gpus=3, priority=priority))
    one, two = sorted(found.values(), key=lambda answer: answer.verdict)
    assert (one.verdict, two.verdict) == ("fits", "fits-when-empty")
    assert one.demand.name == first
    assert not one.certain
    assert not two.certain
    assert one.reason == "depends on order"
    assert "quota q: requests.nvidia.com/gpu would be 6 of 5 (in use 0, needed 6)" in two.reason


def test_jobs_admitted_in_every_order_are_certain() -> None:
    """The large job is refused in every order, and takes nothing from the others."""
    found = fit_by_name(free_cluster(quota(gpus="5")), job("large", gpus=6), job("one", gpus=3), job("two", gpus=2))
    verdicts = {name: (item.verdict, item.certain) for name, item in found.items()}
    assert verdicts == {"large": ("never", True), "one": ("fits", True), "two": ("fits", True)}


def test_job_without_quota_resources_is_certain() -> None:
    jobs = [job("one", gpus=3), job("two", gpus=3), job("plain", gpus=0, amounts={"cpu": "1"})]
    assert fit_by_name(free_cluster(quota(gpus="5")), *jobs)["plain"].certain


def test_quota_is_charged_pod_by_pod() -> None:
    """The second job gets what the first leaves, and keeps it although it cannot start."""
    found = fit_by_name(free_cluster(quota(gpus="5")), job("one", pods=4, gpus=1), job("two", pods=4, gpus=1))
    verdicts = {name: (item.verdict, item.starts) for name, item in found.items()}
    assert verdicts == {"one": ("fits", 4), "two": ("fits-when-empty", 1)}
    assert all(item.depends and not item.certain for item in found.values())


def test_job_that_gets_the_quota_gets_the_node() -> None:
    """Only one of the two jobs reaches the scheduler."""
    have = cluster([node("a")], [running("x", "a", 2, 500)], quotas=[quota(gpus="4")])
    found = fit_by_name(have, job("one", gpus=4), job("two", gpus=4))
    assert {item.verdict for item in found.values()} == {"fits", "fits-when-empty"}
    assert all(item.depends for item in found.values())


def test_quota_of_another_namespace_is_ignored() -> None:
    other = quota(gpus="5")
    other["metadata"]["namespace"] = "others"
    assert all(
        item.certain for item in fit_by_name(free_cluster(other), job("one", gpus=3), job("two", gpus=3)).values()
    )


def test_jobs_without_a_node_in_any_order_are_certain() -> None:
    taken = [running(f"x{name}", name, 8, 500) for name in "abcdef"]
    found = fit_by_name(free_cluster(quota(gpus="5"), pods=taken), job("one", gpus=3), job("two", gpus=3))
    assert {(item.verdict, item.certain) for item in found.values()} == {("fits-when-empty", True)}


def _admitted_in_order(hard: dict[str, int], order: list[tuple[int, dict[str, int]]], jobs: int) -> list[int]:
    """Return the number of admitted pods of each job if they are created in this order."""
    left, passed = dict(hard), [0] * jobs
    for number, charge in order:
        if all(charge[key] <= left[key] for key in left):
            passed[number] += 1
            left = {key: amount - charge[key] for key, amount in left.items()}
    return passed


@pytest.mark.parametrize("seed", range(40))
def test_settled_admissions_are_equal_in_every_order(seed: int) -> None:
    draw = random.Random(seed)
    hard = {"requests.cpu": draw.randrange(1, 9), KEY: draw.randrange(1, 9)}
    limits = {key: str(amount) for key, amount in hard.items()}
    asked = [
        (draw.randrange(1, 3), {"requests.cpu": draw.randrange(1, 5), KEY: draw.randrange(1, 6)}) for _ in range(3)
    ]
    jobs = [
        job(f"j{number}", count, charge[KEY], amounts={"cpu": str(charge["requests.cpu"])})
        for number, (count, charge) in enumerate(asked)
    ]
    have = free_cluster(quota(**limits))
    node_infos, demands = model_demands(have, jobs)
    pods = [(number, charge) for number, (count, charge) in enumerate(asked) for _ in range(count)]
    every = {tuple(_admitted_in_order(hard, list(order), 3)) for order in itertools.permutations(pods)}
    admissions = quota_admissions(node_infos.quotas, demands)
    for number in range(3):
        numbers = {passed[number] for passed in every}
        if admissions[number].settled:
            assert len(numbers) == 1, (hard, asked, every)
    assert tuple(item.groups[0][1] for item in admissions) == tuple(_admitted_in_order(hard, pods, 3))
    assert all(item.settled for item in admissions) == (len(every) == 1)


@pytest.mark.parametrize("namespace", ["team", "others"])
def test_evicted_pod_may_release_the_quota(namespace: str) -> None:
    """``late`` has room on another node, but the quota is used by ``old`` until ``old`` is evicted."""
    old = {**running("old", "a", 8, 0), "namespace": namespace}
    full = quota(gpus="8", used="8")
    have = cluster([node("a", labels={"kind": "x"}), node("b")], [old], quotas=[full])
    urgent = job("urgent", gpus=8, priority="high", nodeSelector={"kind": "x"})
    urgent["metadata"]["namespace"] = "elsewhere"
    found = fit_by_name(have, urgent, job("late", gpus=1))
    assert (found["urgent"].verdict, [victim.pod.name for victim in found["urgent"].victims]) == ("preempts", ["old"])
    late = found["late"]
    assert (late.verdict, late.certain) == ("fits-when-empty", namespace != "team")
    assert ("evictions in its namespace may free the quota" in late.reason) == (namespace == "team")

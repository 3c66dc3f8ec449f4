"""Evicted pods that their controller recreates: they compete for room again."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import fit
from gpuctl.capacity.snapshot.snapshot_entries import pod_entry
from support.fit_objects import GPU, cluster, job, node, running

Object = dict[str, Any]
CLASSES = [{"name": name, "value": value} for name, value in (("low", 10), ("mid", 50), ("high", 100))]
BY_DEPLOYMENT = {"owner": {"group": "apps", "kind": "Deployment", "name": "chat"}}
BY_DAEMON_SET = {"owner": {"group": "apps", "kind": "DaemonSet", "name": "agent"}}
ON_A = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
ON_B = {"nodeSelector": {"kubernetes.io/hostname": "b"}}
TWO_NODES = [node("a", 8), node("b", 8)]


def verdicts(pods: list[Object], jobs: list[Object]) -> dict[str, tuple[str, bool]]:
    answers = fit(cluster(TWO_NODES, pods, priority_classes=CLASSES), jobs)
    return {answer.demand.name: (answer.verdict, answer.certain) for answer in answers}


BOSS, LATE = job("boss", gpus=8, priority="high", **ON_A), job("late", gpus=8, priority="low")


def test_recreated_pod_takes_room_before_a_less_important_job() -> None:
    """The new pod of ``x`` takes node b before ``late``, which is less important."""
    assert verdicts([running("x", "a", 8, 50, **BY_DEPLOYMENT)], [BOSS, LATE])["late"] == ("fits-when-empty", False)


@pytest.mark.parametrize(
    "more", [{}, BY_DAEMON_SET, {**BY_DEPLOYMENT, "deleting": True}, {**BY_DEPLOYMENT, "wants": ON_A}]
)
def test_pods_not_recreated_on_that_node_take_no_room(more: Object) -> None:
    assert verdicts([running("x", "a", 8, 50, **more)], [BOSS, LATE])["late"][0] == "fits"


def test_recreated_pod_evicts_other_pods() -> None:
    """``x`` loses node a, and its new pod evicts ``y`` from b: the victim of ``boss`` may not be the only one."""
    pods = [running("x", "a", 8, 50, **BY_DEPLOYMENT), running("y", "b", 8, 0)]
    assert verdicts(pods, [BOSS]) == {"boss": ("preempts", False)}
    # With preemptionPolicy Never the new pod waits instead.
    polite = [{**item, "preemptionPolicy": "Never"} for item in CLASSES]
    kind = {**BY_DEPLOYMENT, "priorityClass": "mid"}
    answers = fit(cluster(TWO_NODES, [running("x", "a", 8, 50, **kind), pods[1]], priority_classes=polite), [BOSS])
    assert answers[0].verdict == "fits-when-empty"


def test_recreated_pod_takes_room_that_a_later_one_frees() -> None:
    """``polite`` evicts nothing. ``other``, as important and tried after it, evicts ``w``, whose node has room for both."""
    classes = [*CLASSES, {"name": "never", "value": 50, "preemptionPolicy": "Never"}]
    other = {"owner": {"group": "apps", "kind": "Deployment", "name": "other"}, "priorityClass": "mid"}
    pods = [
        running("polite", "a", 4, 50, priorityClass="never", **BY_DEPLOYMENT),
        running("other", "a", 4, 50, **other),
        running("w", "b", 8, 0),
    ]
    small = job("late", gpus=4, priority="low")
    *_, late = fit(cluster(TWO_NODES, pods, priority_classes=classes), [BOSS, small])
    assert (late.verdict, late.balance.free[GPU]) == ("fits-when-empty", 0)


def test_recreated_pod_makes_other_jobs_uncertain() -> None:
    """``free`` fits wherever ``boss`` goes. But the new pod of ``x`` may take its node first, and be evicted again."""
    same = job("free", gpus=8, priority="high", **ON_B)
    sure = verdicts([running("x", "a", 8, 50)], [BOSS, same])
    assert sure == {"boss": ("preempts", True), "free": ("fits", True)}
    unsure = verdicts([running("x", "a", 8, 50, **BY_DEPLOYMENT)], [BOSS, same])
    assert unsure["free"][0] == "fits"
    assert not unsure["free"][1]


def test_room_freed_for_a_nominated_pod_is_not_reported_free() -> None:
    """The node that ``x`` leaves is nominated for ``boss``."""
    pods = [running("x", "a", 8, 50, **BY_DEPLOYMENT), running("important", "b", 8, 200, **BY_DEPLOYMENT)]
    *_, late = fit(cluster(TWO_NODES, pods, priority_classes=CLASSES), [BOSS, LATE])
    assert (late.demand.name, late.verdict, late.balance.free[GPU]) == ("late", "fits-when-empty", 0)
    assert "0 nvidia.com/gpu free in total, at most 0 on one node" in late.reason


@pytest.mark.parametrize("seed", range(8))
def test_recreated_pods_cost_no_job_its_room(seed: int) -> None:
    """All jobs start that the room is enough for, in any order of the recreated pods."""
    draw = random.Random(seed)
    pods = [running(f"x{number}", draw.choice("ab"), 1, 50, **BY_DEPLOYMENT) for number in range(8)]
    jobs = [job(f"j{number}", gpus=4, priority="high") for number in range(4)]
    jobs += [job(f"k{number}", gpus=1, priority="low") for number in range(3)]
    found = verdicts(pods, jobs)
    assert all(found[f"j{number}"][0] in ("fits", "preempts") for number in range(4))
    assert all(found[f"k{number}"][0] == "fits-when-empty" for number in range(3))


@pytest.mark.parametrize(("kind", "kept"), [("Job", True), ("DaemonSet", False), (None, False)])
def test_snapshot_keeps_scheduling_rules_of_recreated_pods(kind: str | None, kept: bool) -> None:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "x", "uid": "1", "controller": True}
    metadata = {"namespace": "team", "name": "x-0", **({"ownerReferences": [owner]} if kind else {})}
    spec = {"nodeName": "a", "nodeSelector": {"pool": "p"}, "containers": [{"name": "main"}]}
    found = pod_entry({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    assert found.get("wants") == ({"nodeSelector": {"pool": "p"}} if kept else None)

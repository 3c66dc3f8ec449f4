"""Pods that are evicted come again, where a controller makes them, and look for room themselves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpuctl.capacity.job_fit import fit
from gpuctl.capacity.snapshot_entries import pod_entry
from support.fit_objects import GPU, cluster, job, node, running

Object = dict[str, Any]
CLASSES = [{"name": name, "value": value} for name, value in (("low", 10), ("mid", 50), ("high", 100))]
MADE = {"owner": {"group": "apps", "kind": "Deployment", "name": "chat"}}
BY_NODE = {"owner": {"group": "apps", "kind": "DaemonSet", "name": "agent"}}
ON_A = {"nodeSelector": {"kubernetes.io/hostname": "a"}}
ON_B = {"nodeSelector": {"kubernetes.io/hostname": "b"}}
FULL = [node("a", 8), node("b", 8)]


def verdicts(pods: list[Object], jobs: list[Object]) -> dict[str, tuple[str, bool]]:
    answers = fit(cluster(FULL, pods, priority_classes=CLASSES), jobs)
    return {answer.demand.name: (answer.verdict, answer.certain) for answer in answers}


BOSS, LATE = job("boss", gpus=8, priority="high", **ON_A), job("late", gpus=8, priority="low")


def test_who_comes_again_takes_room_before_the_less_important() -> None:
    """``x`` loses node a, and takes b before ``late``: it is more important."""
    assert verdicts([running("x", "a", 8, 50, **MADE)], [BOSS, LATE])["late"] == ("fits-when-empty", False)


@pytest.mark.parametrize("more", [{}, BY_NODE, {**MADE, "deleting": True}, {**MADE, "wants": ON_A}])
def test_who_does_not_come_again_or_not_there_takes_none(more: Object) -> None:
    assert verdicts([running("x", "a", 8, 50, **more)], [BOSS, LATE])["late"][0] == "fits"


def test_who_comes_again_evicts_others() -> None:
    """``x`` loses node a and evicts ``y`` from b: that ``boss`` costs one pod is not all that there is to know."""
    pods = [running("x", "a", 8, 50, **MADE), running("y", "b", 8, 0)]
    assert verdicts(pods, [BOSS]) == {"boss": ("preempts", False)}
    # A pod that is polite waits.
    polite = [{**item, "preemptionPolicy": "Never"} for item in CLASSES]
    kind = {**MADE, "priorityClass": "mid"}
    answers = fit(cluster(FULL, [running("x", "a", 8, 50, **kind), pods[1]], priority_classes=polite), [BOSS])
    assert answers[0].verdict == "fits-when-empty"


def test_jobs_that_were_sure_of_their_room_are_not_when_somebody_comes_again() -> None:
    """``free`` has room wherever ``boss`` goes, but whom that evicts may take it before, and be evicted again."""
    same = job("free", gpus=8, priority="high", **ON_B)
    sure = verdicts([running("x", "a", 8, 50)], [BOSS, same])
    assert sure == {"boss": ("preempts", True), "free": ("fits", True)}
    unsure = verdicts([running("x", "a", 8, 50, **MADE)], [BOSS, same])
    assert unsure["free"][0] == "fits"
    assert not unsure["free"][1]


def test_room_that_is_made_for_somebody_is_not_told_as_free() -> None:
    """While ``x`` leaves, its room is promised to ``boss``."""
    pods = [running("x", "a", 8, 50, **MADE), running("important", "b", 8, 200, **MADE)]
    *_, late = fit(cluster(FULL, pods, priority_classes=CLASSES), [BOSS, LATE])
    assert (late.demand.name, late.verdict, late.balance.free[GPU]) == ("late", "fits-when-empty", 0)
    assert "0 nvidia.com/gpu free in total, at most 0 on one node" in late.reason


@pytest.mark.parametrize("seed", range(8))
def test_nobody_is_lost(seed: int) -> None:
    """In a node's worth of room as many jobs start as there is room for, whoever comes again in between."""
    draw = random.Random(seed)
    pods = [running(f"x{number}", draw.choice("ab"), 1, 50, **MADE) for number in range(8)]
    jobs = [job(f"j{number}", gpus=4, priority="high") for number in range(4)]
    jobs += [job(f"k{number}", gpus=1, priority="low") for number in range(3)]
    found = verdicts(pods, jobs)
    assert all(found[f"j{number}"][0] in ("fits", "preempts") for number in range(4))
    assert all(found[f"k{number}"][0] == "fits-when-empty" for number in range(3))


@pytest.mark.parametrize(("kind", "kept"), [("Job", True), ("DaemonSet", False), (None, False)])
def test_a_snapshot_has_what_a_pod_wants_that_comes_again(kind: str | None, kept: bool) -> None:
    owner = {"apiVersion": "batch/v1", "kind": kind, "name": "x", "uid": "1", "controller": True}
    metadata = {"namespace": "team", "name": "x-0", **({"ownerReferences": [owner]} if kind else {})}
    spec = {"nodeName": "a", "nodeSelector": {"pool": "p"}, "containers": [{"name": "main"}]}
    found = pod_entry({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})
    assert found.get("wants") == ({"nodeSelector": {"pool": "p"}} if kept else None)

"""Work that fails when one of its pods is evicted: all of it ends, and nobody says for certain that it runs."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.backend.api_resources import key_of
from gpuctl.capacity.fit import Fit, fit
from gpuctl.capacity.snapshot import Snapshot
from support.fit_objects import cluster, job, node, running

Object = dict[str, Any]

NODES = [node("a", 4), node("b", 4)]
IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


def once(name: str, **more: Any) -> Object:
    """A Job that fails with its first pod that does."""
    made = job(name, **more)
    made["spec"]["backoffLimit"] = 0
    return made


def jobset(name: str, restarts: int = 0, **more: Any) -> Object:
    inner = once(name, **more)["spec"]
    spec = {
        "failurePolicy": {"maxRestarts": restarts},
        "replicatedJobs": [{"name": "main", "template": {"spec": inner}}],
    }
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def wide(frail: bool, set_of: str = "", restarts: bool = False) -> Snapshot:
    """A job of two pods, one on each node."""
    labels = {"jobset.sigs.k8s.io/jobset-name": set_of} if set_of else {}
    owner = {"kind": "Job", "name": "wide", "group": "batch"}
    pods = [running(f"wide-{name}", name, 4, 10, owner=owner, labels=labels) for name in ("a", "b")]
    jobs = [{"namespace": "team", "name": "wide", **({"enough": 1} if frail else {"spared": 6, "enough": 7})}]
    sets = [{"namespace": "team", "name": set_of, **({"restarts": True} if restarts else {})}] if set_of else []
    return cluster(NODES, pods, jobs=jobs, job_sets=sets)


def judged(have: Snapshot, *jobs: Object, in_turn: bool = False) -> dict[str, Fit]:
    return {answer.demand.name: answer for answer in fit(have, jobs, {key_of(item) for item in jobs if in_turn})}


def victims(answer: Fit) -> set[str]:
    return {victim.pod.name for victim in answer.victims}


@pytest.mark.parametrize(
    ("frail", "set_of", "restarts", "lost"),
    [(True, "", False, 2), (False, "", False, 1), (True, "wide", False, 2), (True, "wide", True, 2)],
    ids=["job", "job that makes it again", "jobset", "jobset that restarts"],
)
def test_all_pods_that_end_are_told(frail: bool, set_of: str, restarts: bool, lost: int) -> None:
    answer = judged(wide(frail, set_of, restarts), job("urgent", gpus=4, priority="high"))["urgent"]
    assert answer.verdict == "preempts"
    assert len(victims(answer)) == len(answer.victims) == lost


def test_a_pod_whose_node_has_gone_is_not_lost_again() -> None:
    have = wide(True)
    rest = Snapshot(have.taken_at, have.nodes[:1], have.pods, priority_classes=have.priority_classes, jobs=have.jobs)
    answer = judged(rest, job("urgent", gpus=4, priority="high"))["urgent"]
    assert (answer.verdict, victims(answer)) == ("preempts", {"wide-a"})


def test_what_ends_with_others_makes_room_for_who_could_not_evict_it() -> None:
    found = judged(wide(True), job("urgent", gpus=4, priority="high"), job("late", gpus=4))
    assert (found["urgent"].verdict, found["late"].verdict) == ("preempts", "fits")
    assert (victims(found["urgent"]), victims(found["late"])) == ({"wide-a", "wide-b"}, set())
    found = judged(wide(False), job("urgent", gpus=4, priority="high"), job("late", gpus=4))
    assert found["late"].verdict == "fits-when-empty"


def test_it_makes_room_also_where_only_the_other_can_go() -> None:
    """Nodes that jobs do not share are judged together when pods on both end together."""
    nodes = [node("a", 4, labels={"side": "a"}), node("b", 4, labels={"side": "b"})]
    have = wide(True)
    split = Snapshot(
        have.taken_at, cluster(nodes).nodes, have.pods, priority_classes=have.priority_classes, jobs=have.jobs
    )
    urgent = job("urgent", gpus=4, priority="high", nodeSelector={"side": "a"})
    found = judged(split, urgent, job("late", gpus=4, nodeSelector={"side": "b"}))
    assert (found["late"].verdict, found["late"].component) == ("fits", found["urgent"].component)


def test_a_second_pod_may_find_the_room_of_what_has_ended() -> None:
    """Then nobody else is evicted for it."""
    have = wide(True)
    owner = {"kind": "Job", "name": "other", "group": "batch"}
    more = cluster([*NODES, node("c", 4)], [*have.pods, running("other", "c", 4, 10, owner=owner)], jobs=have.jobs)
    answer = judged(more, job("urgent", pods=2, gpus=4, priority="high"))["urgent"]
    assert (answer.verdict, answer.certain) == ("preempts", False)


@pytest.mark.parametrize("make", [once, jobset])
def test_who_may_fail_before_it_runs_is_not_certain_to(make: Any) -> None:
    """The least important one may come first, on both nodes: then it makes room for the other one, and fails."""
    jobs = make("wide", pods=2, gpus=2), job("urgent", gpus=4, priority="high")
    found = judged(cluster(NODES), *jobs)
    assert (found["wide"].certain, found["urgent"].certain) == (False, True)
    found = judged(cluster(NODES), *jobs, in_turn=True)
    assert (found["wide"].verdict, found["wide"].likelihood) == ("fits", 1)


def test_it_fails_in_some_orders() -> None:
    shares = []
    for number in range(20):
        jobs = once(f"wide-{number}", pods=2, gpus=2), job(f"urgent-{number}", gpus=4, priority="high")
        shares.append(judged(cluster(NODES), *jobs)[f"wide-{number}"].likelihood)
    assert 0.8 < min(shares) < 1


@pytest.mark.parametrize("make", [job, lambda *names, **more: jobset(*names, restarts=3, **more)])
def test_who_comes_again_runs_in_the_end(make: Any) -> None:
    found = judged(cluster(NODES), make("wide", pods=2, gpus=2), job("urgent", gpus=4, priority="high"))
    assert all(answer.certain for answer in found.values())


def test_who_has_room_beside_all_others_is_certain() -> None:
    nodes = [*NODES, node("c", 4)]
    found = judged(cluster(nodes), once("wide", pods=2, gpus=2), job("urgent", gpus=4, priority="high"))
    assert all(answer.certain for answer in found.values())


def test_an_eviction_that_does_not_count() -> None:
    spared = once("wide", pods=2, gpus=2)
    spared["spec"]["podFailurePolicy"] = IGNORED
    assert judged(cluster(NODES), spared, job("urgent", gpus=4, priority="high"))["wide"].certain


def test_whichever_pod_is_evicted_the_same_work_is_lost() -> None:
    answer = judged(wide(True), job("urgent", gpus=4, priority="high"))["urgent"]
    assert (answer.certain, answer.reason) == (True, "")
    assert not judged(wide(False), job("urgent", gpus=4, priority="high"))["urgent"].certain


def test_what_ends_is_lost_in_all_orders() -> None:
    """Two jobs take both nodes, whoever evicts which pod: each is told once."""
    jobs = job("urgent", gpus=4, priority="high"), job("second", gpus=4, priority="high")
    answers = judged(wide(True), *jobs).values()
    assert sorted(victim.pod.name for answer in answers for victim in answer.victims) == ["wide-a", "wide-b"]
    assert all(victim.likelihood == 1 for answer in answers for victim in answer.victims)

"""Work that fails when one of its pods is evicted: all of it ends, and nobody says for certain that it runs."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.job_fit import Fit, fit
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import key_of
from support.fit_objects import CLASSES, cluster, job, node, running, waiting

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
    assert (found["wide"].verdict, found["wide"].depends) == ("fits", False)


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


SIDES = [node(name, 8, labels={"side": name}, allocatable={"pods": "110"}) for name in ("a", "b", "c")]
JOBSET = "jobset.sigs.k8s.io/jobset-name"


def of(name: str, on: str, gpus: int, count: int = 1, priority: int = 10, **more: Any) -> list[Object]:
    """Pods of a Job on one node."""
    owner = {"kind": "Job", "name": name, "group": "batch"}
    return [running(f"{name}-{on}-{number}", on, gpus, priority, owner=owner, **more) for number in range(count)]


def enduring(name: str, **known: int) -> Object:
    return {"namespace": "team", "name": name, **known}


def here(name: str, side: str, gpus: int = 8, priority: str = "low", **more: Any) -> Object:
    """A job for one node."""
    return job(name, gpus=gpus, priority=priority, nodeSelector={"side": side}, **more)


URGENT = here("urgent", "a", priority="high")


@pytest.mark.parametrize(
    ("pods", "left", "lost"),
    [(8, 6, 16), (4, 6, 4), (4, 4, 4), (4, 3, 8), (1, 1, 1)],
    ids=["default limit", "few pods", "as many as are left", "one too many", "one"],
)
def test_a_job_fails_when_more_are_evicted_than_failures_are_left(pods: int, left: int, lost: int) -> None:
    """All on the first node are evicted; those on the other end, too, when that was too much."""
    have = [*of("wide", "a", 8 // pods, pods), *of("wide", "b", 8 // pods, pods)]
    snapshot = cluster(SIDES, have, jobs=[enduring("wide", spared=left, enough=left + 1)])
    answer = judged(snapshot, URGENT)["urgent"]
    assert (answer.verdict, answer.certain, len(answer.victims), len(victims(answer))) == ("preempts", True, lost, lost)
    found = judged(snapshot, URGENT, here("late", "b"))
    assert found["late"].verdict == ("fits" if lost > pods else "fits-when-empty")
    assert found["late"].depends


def test_pods_of_a_job_are_counted_together_whoever_evicts_them() -> None:
    """Two jobs evict two each of a job that endures three."""
    have = [pod for side in "abc" for pod in of("wide", side, 4, 2)]
    snapshot = cluster(SIDES, have, jobs=[enduring("wide", spared=3, enough=4)])
    found = judged(snapshot, URGENT, here("second", "b", priority="high"), here("late", "c"))
    assert {name: answer.verdict for name, answer in found.items()} == {
        "urgent": "preempts",
        "second": "preempts",
        "late": "fits",
    }
    assert len(set().union(*map(victims, found.values()))) == 6
    assert len({answer.component for answer in found.values()}) == 1


def test_a_job_that_comes_endures_as_many() -> None:
    """It comes first in some orders, and is evicted: of two pods from each node, at its default limit or without one."""
    nodes = SIDES[:2]
    for limit, certain in ((2, True), (1, False)):
        mine = job("wide", pods=2, gpus=4)
        mine["spec"]["backoffLimit"] = limit
        found = judged(cluster(nodes), mine, job("urgent", gpus=8, priority="high"))
        assert (found["urgent"].certain, found["wide"].certain) == (True, certain)


@pytest.mark.parametrize(
    "more",
    [
        {"jobs": [enduring("wide")]},
        {"jobs": [enduring("wide", enough=9)]},
        {"unreadable": ["jobs"]},
        {"jobs": [{**enduring("wide"), "frail": True}]},
    ],
    ids=["rules leave it open", "until more are evicted", "may not be listed", "an older snapshot"],
)
def test_who_may_end_is_told_and_nothing_is_certain(more: dict[str, Any]) -> None:
    snapshot = cluster(SIDES[:2], [*of("wide", "a", 8), *of("wide", "b", 8)], **more)
    answer = judged(snapshot, URGENT)["urgent"]
    assert (answer.verdict, answer.certain) == ("preempts", False)
    assert victims(answer) == {"wide-a-0", "wide-b-0"}
    assert answer.reason == "other pods may end with the evicted ones: whether their jobs survive is unknown"
    found = judged(snapshot, URGENT, here("late", "b"))
    assert victims(found["urgent"]) | victims(found["late"]) == {"wide-a-0", "wide-b-0"}
    assert found["late"].component == found["urgent"].component
    assert found["late"].depends


def test_of_one_pod_alone_nothing_more_can_be_lost() -> None:
    answer = judged(cluster(SIDES[:1], of("small", "a", 8), unreadable=["jobs"]), URGENT)["urgent"]
    assert (answer.certain, victims(answer)) == (True, {"small-a-0"})


@pytest.mark.parametrize("queued", [{}, {"queued": True}], ids=["", "in a queue"])
@pytest.mark.parametrize("restarts", [{}, {"restarts": True}], ids=["ends", "restarts"])
def test_all_jobs_of_a_set_end_with_one_that_fails(queued: Object, restarts: Object) -> None:
    """The driver's Job would endure six."""
    labels = {JOBSET: "set"}
    have = [*of("worker", "a", 8, labels=labels), *of("driver", "b", 8, labels=labels)]
    known = [enduring("worker", enough=1), enduring("driver", spared=6, enough=7)]
    snapshot = cluster(SIDES[:2], have, jobs=known, job_sets=[{**enduring("set"), **queued, **restarts}])
    answer = judged(snapshot, URGENT)["urgent"]
    assert (victims(answer), answer.certain) == ({"worker-a-0", "driver-b-0"}, True)
    late = judged(snapshot, URGENT, here("late", "b"))["late"]
    assert (late.certain, late.verdict) == (False, "fits")
    # Its own pod evicted, the driver goes on.
    other = judged(snapshot, here("other", "b", priority="high"))["other"]
    assert victims(other) == {"driver-b-0"}


@pytest.mark.parametrize(
    "sets", [{"job_sets": [{**enduring("set"), "unsure": True}]}, {"job_sets": []}], ids=["rules", "not listed"]
)
def test_of_a_set_with_rules_only_the_job_ends_for_certain(sets: dict[str, Any]) -> None:
    labels = {JOBSET: "set"}
    have = [*of("worker", "a", 8, labels=labels), *of("driver", "b", 8, labels=labels)]
    known = [enduring("worker", enough=1), enduring("driver", spared=6, enough=7)]
    answer = judged(cluster(SIDES[:2], have, jobs=known, **sets), URGENT)["urgent"]
    assert (victims(answer), answer.certain) == ({"worker-a-0", "driver-b-0"}, False)


def restarting(*, wants: Object, priority: int = 10, gpus: int = 8) -> tuple[list[Object], dict[str, Any]]:
    """A JobSet that starts again: one pod on the first node, and one on the second that may want others."""
    own = of("one", "a", 8, labels={JOBSET: "set"}, wants={"nodeSelector": {"side": "a"}})
    own += of("two", "b", gpus, priority=priority, labels={JOBSET: "set"}, wants=wants)
    known = [enduring("one", enough=1), enduring("two", enough=1)]
    return own, {"jobs": known, "job_sets": [{**enduring("set"), "restarts": True}]}


def either(*names: str) -> Object:
    return {"nodeTerms": [{"matchExpressions": [{"key": "side", "operator": "In", "values": list(names)}]}]}


def test_who_starts_again_with_a_victim_may_take_the_room_of_others() -> None:
    pods, known = restarting(wants=either("b", "c"))
    found = judged(cluster(SIDES, pods, **known), URGENT, here("late", "c"))
    assert victims(found["urgent"]) == {"one-a-0", "two-b-0"}
    assert found["late"].component == found["urgent"].component
    assert not found["late"].certain


def test_who_starts_again_with_a_victim_may_evict_others() -> None:
    """Somebody who waits takes its place first."""
    pods, known = restarting(wants=either("b", "c"), priority=50)
    have = [*pods, running("small", "c", 8, 20), waiting("next", 8, 30, nodeSelector={"side": "b"})]
    answer = judged(cluster(SIDES, have, **known), URGENT)["urgent"]
    assert (answer.verdict, answer.certain) == ("preempts", False)
    assert answer.reason.startswith("evicted pods may be recreated and evict others in turn")


def test_what_is_kept_for_a_pod_of_a_job_that_fails_is_free() -> None:
    nominated = {**waiting("wide-b-0", 8, 10), "nominatedNode": "b", "owner": of("wide", "b", 8)[0]["owner"]}
    nominated["labels"] = {"app": "wide"}
    have = [*of("wide", "a", 8), nominated]
    found = judged(cluster(SIDES[:2], have, jobs=[enduring("wide", enough=1)]), URGENT, here("late", "b"))
    assert victims(found["urgent"]) == {"wide-a-0"}
    assert (found["late"].verdict, found["late"].component) == ("fits", found["urgent"].component)
    found = judged(cluster(SIDES[:2], have, jobs=[enduring("wide", spared=6, enough=7)]), URGENT, here("late", "b"))
    assert found["late"].verdict == "fits-when-empty"


def test_who_waits_of_a_job_that_fails_takes_no_room() -> None:
    """Else it would be before the less important one where that comes late enough."""
    owner = of("wide", "b", 8)[0]["owner"]
    have = [
        *of("wide", "a", 8, priority=50),
        *of("wide", "b", 8, priority=50),
        {**waiting("wide-x", 8, 50, nodeSelector={"side": "b"}), "owner": owner},
    ]
    for known, verdict in (({"enough": 1}, "fits"), ({"spared": 6, "enough": 7}, "fits-when-empty")):
        found = judged(cluster(SIDES[:2], have, jobs=[enduring("wide", **known)]), URGENT, here("late", "b"))
        assert found["late"].verdict == verdict


def test_whoever_waits_may_take_the_room_of_what_ends() -> None:
    have = [*of("wide", "a", 8), *of("wide", "b", 8), waiting("next", 8, 50, nodeSelector={"side": "b"})]
    late = judged(cluster(SIDES[:2], have, jobs=[enduring("wide", enough=1)]), URGENT, here("late", "b"))["late"]
    assert (late.verdict, late.certain) == ("fits-when-empty", False)


def crowded(*more: Object) -> list[Object]:
    """Three nodes with room for one more pod each, once somebody has left."""
    return [*(running(f"kept-{side}", side, 4, 200) for side in "abc"), *of("wide", "a", 4), *more]


def test_the_next_pod_of_a_job_may_find_what_ends_with_the_first_victim() -> None:
    """Then nobody of the third node is evicted, though those of the second are more important."""
    wanted = job("urgent", pods=2, gpus=4, priority="high")
    have = crowded(*of("wide", "b", 4, priority=12), running("other", "c", 4, 11))
    for spared, lost in ((0, {"wide-a-0", "wide-b-0", "other"}), (6, {"wide-a-0", "other"})):
        jobs = [enduring("wide", spared=spared, enough=spared + 1)]
        answer = judged(cluster(SIDES, have, jobs=jobs), wanted)["urgent"]
        assert (victims(answer), answer.certain) == (lost, spared > 0)


def test_the_next_pod_of_a_job_may_find_what_was_kept_for_one() -> None:
    labels = {JOBSET: "set"}
    nominated = {**waiting("driver-0", 4, 200), "nominatedNode": "b", "labels": labels}
    nominated["owner"] = {"kind": "Job", "name": "driver", "group": "batch"}
    have = crowded(nominated, running("other", "c", 4, 11))
    have = [{**pod, "labels": labels} if pod["name"].startswith("wide") else pod for pod in have]
    for spared in (0, 6):
        jobs = [enduring("driver", spared=6, enough=7), enduring("wide", spared=spared, enough=spared + 1)]
        snapshot = cluster(SIDES, have, jobs=jobs, job_sets=[enduring("set")])
        answer = judged(snapshot, job("urgent", pods=2, gpus=4, priority="high"))["urgent"]
        assert (victims(answer), answer.certain) == ({"wide-a-0", "other"}, spared > 0)


def test_who_starts_again_with_a_victim_may_be_more_important_than_who_evicts_that() -> None:
    """It may go to a larger node, where one that evicts nobody had room beside all others."""
    pods, known = restarting(wants=either("b", "c"), priority=50, gpus=24)
    nodes = [node(side, gpus, labels={"side": side}) for side, gpus in (("a", 8), ("b", 24), ("c", 32))]
    classes = [*CLASSES, {"name": "mid", "value": 30}]
    jobs = here("polite", "c", pods=2, priority="polite"), here("mid", "a", priority="mid")
    found = judged(cluster(nodes, pods, **known, priority_classes=classes), *jobs)
    assert victims(found["mid"]) == {"one-a-0", "two-b-0"}
    assert not found["polite"].certain


def test_who_is_deleted_already_is_nobodys_victim() -> None:
    have = [*of("wide", "a", 8), *of("wide", "b", 8, deleting=True)]
    snapshot = cluster(SIDES[:2], have, jobs=[enduring("wide", enough=1)])
    assert victims(judged(snapshot, URGENT)["urgent"]) == {"wide-a-0"}
    # Nor do others end with one that somebody else has deleted.
    found = judged(snapshot, here("other", "b", priority="high"), here("third", "b"))
    assert (found["other"].verdict, victims(found["other"])) == ("fits-when-empty", set())


def test_who_is_deleted_may_be_counted_already() -> None:
    have = [*of("wide", "a", 8), *of("wide", "b", 8, deleting=True), *of("wide", "c", 8)]
    for left, certain, lost in ((1, False, {"wide-a-0", "wide-c-0"}), (2, True, {"wide-a-0"})):
        answer = judged(cluster(SIDES, have, jobs=[enduring("wide", spared=left, enough=left + 1)]), URGENT)["urgent"]
        assert (answer.certain, victims(answer)) == (certain, lost)

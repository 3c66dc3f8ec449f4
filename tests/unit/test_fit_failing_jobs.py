"""Jobs and JobSets that fail when a pod is evicted: all their pods end, and they may not be certain to run."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from gpuctl.objects.api_resources import key_of
from support.fit_objects import CLASSES, cluster, job, node, running, waiting

Object = dict[str, Any]

NODES = [node("a", 4), node("b", 4)]
IGNORE_DISRUPTIONS = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}


def fail_once_job(name: str, **more: Any) -> Object:
    """Return a Job that fails with its first failed pod."""
    made = job(name, **more)
    made["spec"]["backoffLimit"] = 0
    return made


def jobset(name: str, restarts: int = 0, **more: Any) -> Object:
    inner = fail_once_job(name, **more)["spec"]
    spec = {
        "failurePolicy": {"maxRestarts": restarts},
        "replicatedJobs": [{"name": "main", "template": {"spec": inner}}],
    }
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def wide_job(frail: bool, set_of: str = "", restarts: bool = False) -> Snapshot:
    """Return a cluster with a running job of two pods, one on each node."""
    labels = {"jobset.sigs.k8s.io/jobset-name": set_of} if set_of else {}
    owner = {"kind": "Job", "name": "wide", "group": "batch"}
    pods = [running(f"wide-{name}", name, 4, 10, owner=owner, labels=labels) for name in ("a", "b")]
    jobs = [{"namespace": "team", "name": "wide", **({"enough": 1} if frail else {"spared": 6, "enough": 7})}]
    sets = [{"namespace": "team", "name": set_of, **({"restarts": True} if restarts else {})}] if set_of else []
    return cluster(NODES, pods, jobs=jobs, job_sets=sets)


def fit_by_name(have: Snapshot, *jobs: Object, in_turn: bool = False) -> dict[str, Fit]:
    return {answer.demand.name: answer for answer in fit(have, jobs, {key_of(item) for item in jobs if in_turn})}


def victim_names(answer: Fit) -> set[str]:
    return {victim.pod.name for victim in answer.victims}


@pytest.mark.parametrize(
    ("frail", "set_of", "restarts", "lost"),
    [(True, "", False, 2), (False, "", False, 1), (True, "wide", False, 2), (True, "wide", True, 2)],
    ids=["job", "job that recreates it", "jobset", "jobset that restarts"],
)
def test_all_pods_of_a_failed_job_are_victims(frail: bool, set_of: str, restarts: bool, lost: int) -> None:
    answer = fit_by_name(wide_job(frail, set_of, restarts), job("urgent", gpus=4, priority="high"))["urgent"]
    assert answer.verdict == "preempts"
    assert len(victim_names(answer)) == len(answer.victims) == lost


def test_pod_on_a_removed_node_is_not_a_victim() -> None:
    have = wide_job(True)
    rest = Snapshot(have.taken_at, have.nodes[:1], have.pods, priority_classes=have.priority_classes, jobs=have.jobs)
    answer = fit_by_name(rest, job("urgent", gpus=4, priority="high"))["urgent"]
    assert (answer.verdict, victim_names(answer)) == ("preempts", {"wide-a"})


def test_failed_job_frees_room_for_a_job_that_cannot_evict() -> None:
    found = fit_by_name(wide_job(True), job("urgent", gpus=4, priority="high"), job("late", gpus=4))
    assert (found["urgent"].verdict, found["late"].verdict) == ("preempts", "fits")
    assert (victim_names(found["urgent"]), victim_names(found["late"])) == ({"wide-a", "wide-b"}, set())
    found = fit_by_name(wide_job(False), job("urgent", gpus=4, priority="high"), job("late", gpus=4))
    assert found["late"].verdict == "fits-when-empty"


def test_failed_job_connects_the_pools_of_its_pods() -> None:
    """Pools that share no job are judged together if one job has pods in both."""
    nodes = [node("a", 4, labels={"side": "a"}), node("b", 4, labels={"side": "b"})]
    have = wide_job(True)
    split = Snapshot(
        have.taken_at, cluster(nodes).nodes, have.pods, priority_classes=have.priority_classes, jobs=have.jobs
    )
    urgent = job("urgent", gpus=4, priority="high", nodeSelector={"side": "a"})
    found = fit_by_name(split, urgent, job("late", gpus=4, nodeSelector={"side": "b"}))
    assert (found["late"].verdict, found["late"].component) == ("fits", found["urgent"].component)


def test_second_pod_may_use_the_room_of_a_failed_job() -> None:
    """The second pod may take the failed job's other node instead of evicting `other`."""
    have = wide_job(True)
    owner = {"kind": "Job", "name": "other", "group": "batch"}
    more = cluster([*NODES, node("c", 4)], [*have.pods, running("other", "c", 4, 10, owner=owner)], jobs=have.jobs)
    answer = fit_by_name(more, job("urgent", pods=2, gpus=4, priority="high"))["urgent"]
    assert (answer.verdict, answer.certain) == ("preempts", False)


@pytest.mark.parametrize("make", [fail_once_job, jobset])
def test_job_that_may_be_evicted_and_fail_is_uncertain(make: Any) -> None:
    """If the less important job is created first, it takes both nodes, is evicted, and fails."""
    jobs = make("wide", pods=2, gpus=2), job("urgent", gpus=4, priority="high")
    found = fit_by_name(cluster(NODES), *jobs)
    assert (found["wide"].certain, found["urgent"].certain) == (False, True)
    found = fit_by_name(cluster(NODES), *jobs, in_turn=True)
    assert (found["wide"].verdict, found["wide"].depends) == ("fits", False)


@pytest.mark.parametrize("make", [job, lambda *names, **more: jobset(*names, restarts=3, **more)])
def test_restarted_job_is_certain(make: Any) -> None:
    found = fit_by_name(cluster(NODES), make("wide", pods=2, gpus=2), job("urgent", gpus=4, priority="high"))
    assert all(answer.certain for answer in found.values())


def test_job_with_room_beside_all_others_is_certain() -> None:
    nodes = [*NODES, node("c", 4)]
    found = fit_by_name(cluster(nodes), fail_once_job("wide", pods=2, gpus=2), job("urgent", gpus=4, priority="high"))
    assert all(answer.certain for answer in found.values())


def test_ignored_disruptions_do_not_fail_a_job() -> None:
    spared = fail_once_job("wide", pods=2, gpus=2)
    spared["spec"]["podFailurePolicy"] = IGNORE_DISRUPTIONS
    assert fit_by_name(cluster(NODES), spared, job("urgent", gpus=4, priority="high"))["wide"].certain


def test_victims_are_certain_if_any_eviction_fails_the_job() -> None:
    answer = fit_by_name(wide_job(True), job("urgent", gpus=4, priority="high"))["urgent"]
    assert (answer.certain, answer.reason) == (True, "")
    assert not fit_by_name(wide_job(False), job("urgent", gpus=4, priority="high"))["urgent"].certain


def test_pods_of_a_failed_job_are_reported_once() -> None:
    """Two jobs take both nodes. Each lost pod is reported once, whichever job evicts it."""
    jobs = job("urgent", gpus=4, priority="high"), job("second", gpus=4, priority="high")
    answers = fit_by_name(wide_job(True), *jobs).values()
    assert sorted(victim.pod.name for answer in answers for victim in answer.victims) == ["wide-a", "wide-b"]


SIDES = [node(name, 8, labels={"side": name}, allocatable={"pods": "110"}) for name in ("a", "b", "c")]
JOBSET = "jobset.sigs.k8s.io/jobset-name"


def pods_of(name: str, on: str, gpus: int, count: int = 1, priority: int = 10, **more: Any) -> list[Object]:
    """Return running pods of a Job on one node."""
    owner = {"kind": "Job", "name": name, "group": "batch"}
    return [running(f"{name}-{on}-{number}", on, gpus, priority, owner=owner, **more) for number in range(count)]


def job_entry(name: str, **known: int) -> Object:
    return {"namespace": "team", "name": name, **known}


def job_on(name: str, side: str, gpus: int = 8, priority: str = "low", **more: Any) -> Object:
    """Return a job that selects one node."""
    return job(name, gpus=gpus, priority=priority, nodeSelector={"side": side}, **more)


URGENT = job_on("urgent", "a", priority="high")


@pytest.mark.parametrize(
    ("pods", "left", "lost"),
    [(8, 6, 16), (4, 6, 4), (4, 4, 4), (4, 3, 8), (1, 1, 1)],
    ids=["default limit", "few pods", "as many as tolerated", "one too many", "one"],
)
def test_job_fails_when_evictions_exceed_its_backoff_limit(pods: int, left: int, lost: int) -> None:
    """All pods on the first node are evicted. The pods on the second end if that exceeds the tolerated failures."""
    have = [*pods_of("wide", "a", 8 // pods, pods), *pods_of("wide", "b", 8 // pods, pods)]
    snapshot = cluster(SIDES, have, jobs=[job_entry("wide", spared=left, enough=left + 1)])
    answer = fit_by_name(snapshot, URGENT)["urgent"]
    assert (answer.verdict, answer.certain, len(answer.victims), len(victim_names(answer))) == (
        "preempts",
        True,
        lost,
        lost,
    )
    found = fit_by_name(snapshot, URGENT, job_on("late", "b"))
    assert found["late"].verdict == ("fits" if lost > pods else "fits-when-empty")
    assert found["late"].depends


def test_evictions_by_several_jobs_are_added() -> None:
    """Two jobs evict two pods each of a job that tolerates three failures."""
    have = [pod for side in "abc" for pod in pods_of("wide", side, 4, 2)]
    snapshot = cluster(SIDES, have, jobs=[job_entry("wide", spared=3, enough=4)])
    found = fit_by_name(snapshot, URGENT, job_on("second", "b", priority="high"), job_on("late", "c"))
    assert {name: answer.verdict for name, answer in found.items()} == {
        "urgent": "preempts",
        "second": "preempts",
        "late": "fits",
    }
    assert len(set().union(*map(victim_names, found.values()))) == 6
    assert len({answer.component for answer in found.values()}) == 1


def test_submitted_job_tolerates_evictions_up_to_backoff_limit() -> None:
    """In some orders the job starts first and loses its two pods, which `backoffLimit` tolerates or not."""
    nodes = SIDES[:2]
    for limit, certain in ((2, True), (1, False)):
        mine = job("wide", pods=2, gpus=4)
        mine["spec"]["backoffLimit"] = limit
        found = fit_by_name(cluster(nodes), mine, job("urgent", gpus=8, priority="high"))
        assert (found["urgent"].certain, found["wide"].certain) == (True, certain)


@pytest.mark.parametrize(
    "more",
    [
        {"jobs": [job_entry("wide")]},
        {"jobs": [job_entry("wide", enough=9)]},
        {"unreadable": ["jobs"]},
    ],
    ids=["rules undecided", "enough for nine", "jobs unreadable"],
)
def test_unknown_eviction_tolerance_makes_answers_uncertain(more: dict[str, Any]) -> None:
    snapshot = cluster(SIDES[:2], [*pods_of("wide", "a", 8), *pods_of("wide", "b", 8)], **more)
    answer = fit_by_name(snapshot, URGENT)["urgent"]
    assert (answer.verdict, answer.certain) == ("preempts", False)
    assert victim_names(answer) == {"wide-a-0", "wide-b-0"}
    assert answer.reason == "other pods may end with the evicted ones: whether their jobs survive is unknown"
    found = fit_by_name(snapshot, URGENT, job_on("late", "b"))
    assert victim_names(found["urgent"]) | victim_names(found["late"]) == {"wide-a-0", "wide-b-0"}
    assert found["late"].component == found["urgent"].component
    assert found["late"].depends


def test_job_of_one_pod_loses_only_that_pod() -> None:
    answer = fit_by_name(cluster(SIDES[:1], pods_of("small", "a", 8), unreadable=["jobs"]), URGENT)["urgent"]
    assert (answer.certain, victim_names(answer)) == (True, {"small-a-0"})


@pytest.mark.parametrize("queued", [{}, {"queued": True}], ids=["", "in a queue"])
@pytest.mark.parametrize("restarts", [{}, {"restarts": True}], ids=["ends", "restarts"])
def test_all_jobs_of_a_jobset_end_when_one_fails(queued: Object, restarts: Object) -> None:
    """The driver's Job alone would tolerate six failures."""
    labels = {JOBSET: "set"}
    have = [*pods_of("worker", "a", 8, labels=labels), *pods_of("driver", "b", 8, labels=labels)]
    known = [job_entry("worker", enough=1), job_entry("driver", spared=6, enough=7)]
    snapshot = cluster(SIDES[:2], have, jobs=known, job_sets=[{**job_entry("set"), **queued, **restarts}])
    answer = fit_by_name(snapshot, URGENT)["urgent"]
    assert (victim_names(answer), answer.certain) == ({"worker-a-0", "driver-b-0"}, True)
    late = fit_by_name(snapshot, URGENT, job_on("late", "b"))["late"]
    assert (late.certain, late.verdict) == (False, "fits")
    # An eviction of the driver's own pod does not fail its Job.
    other = fit_by_name(snapshot, job_on("other", "b", priority="high"))["other"]
    assert victim_names(other) == {"driver-b-0"}


@pytest.mark.parametrize(
    "sets", [{"job_sets": [{**job_entry("set"), "unsure": True}]}, {"job_sets": []}], ids=["rules", "not listed"]
)
def test_jobset_with_failure_rules_is_uncertain(sets: dict[str, Any]) -> None:
    labels = {JOBSET: "set"}
    have = [*pods_of("worker", "a", 8, labels=labels), *pods_of("driver", "b", 8, labels=labels)]
    known = [job_entry("worker", enough=1), job_entry("driver", spared=6, enough=7)]
    answer = fit_by_name(cluster(SIDES[:2], have, jobs=known, **sets), URGENT)["urgent"]
    assert (victim_names(answer), answer.certain) == ({"worker-a-0", "driver-b-0"}, False)


def restarting_jobset(*, wants: Object, priority: int = 10, gpus: int = 8) -> tuple[list[Object], dict[str, Any]]:
    """Return the pods of a JobSet that restarts, one on node a and one on node b, and its entries in the snapshot.

    wants: the scheduling rules of the pod on node b.
    """
    own = pods_of("one", "a", 8, labels={JOBSET: "set"}, wants={"nodeSelector": {"side": "a"}})
    own += pods_of("two", "b", gpus, priority=priority, labels={JOBSET: "set"}, wants=wants)
    known = [job_entry("one", enough=1), job_entry("two", enough=1)]
    return own, {"jobs": known, "job_sets": [{**job_entry("set"), "restarts": True}]}


def node_names(*names: str) -> Object:
    return {"nodeTerms": [{"matchExpressions": [{"key": "side", "operator": "In", "values": list(names)}]}]}


def test_restarted_jobset_may_take_room_of_other_jobs() -> None:
    pods, known = restarting_jobset(wants=node_names("b", "c"))
    found = fit_by_name(cluster(SIDES, pods, **known), URGENT, job_on("late", "c"))
    assert victim_names(found["urgent"]) == {"one-a-0", "two-b-0"}
    assert found["late"].component == found["urgent"].component
    assert not found["late"].certain


def test_restarted_jobset_may_evict_other_pods() -> None:
    """A pending pod takes the restarted pod's node first."""
    pods, known = restarting_jobset(wants=node_names("b", "c"), priority=50)
    have = [*pods, running("small", "c", 8, 20), waiting("next", 8, 30, nodeSelector={"side": "b"})]
    answer = fit_by_name(cluster(SIDES, have, **known), URGENT)["urgent"]
    assert (answer.verdict, answer.certain) == ("preempts", False)
    assert answer.reason.startswith("evicted pods may be recreated and evict others in turn")


def test_nomination_of_a_failed_jobs_pod_is_released() -> None:
    nominated = {**waiting("wide-b-0", 8, 10), "nominatedNode": "b", "owner": pods_of("wide", "b", 8)[0]["owner"]}
    nominated["labels"] = {"app": "wide"}
    have = [*pods_of("wide", "a", 8), nominated]
    found = fit_by_name(cluster(SIDES[:2], have, jobs=[job_entry("wide", enough=1)]), URGENT, job_on("late", "b"))
    assert victim_names(found["urgent"]) == {"wide-a-0"}
    assert (found["late"].verdict, found["late"].component) == ("fits", found["urgent"].component)
    found = fit_by_name(
        cluster(SIDES[:2], have, jobs=[job_entry("wide", spared=6, enough=7)]), URGENT, job_on("late", "b")
    )
    assert found["late"].verdict == "fits-when-empty"


def test_pending_pods_of_a_failed_job_take_no_room() -> None:
    """If its pending pod counted, it would take the room before the less important `late`."""
    owner = pods_of("wide", "b", 8)[0]["owner"]
    have = [
        *pods_of("wide", "a", 8, priority=50),
        *pods_of("wide", "b", 8, priority=50),
        {**waiting("wide-x", 8, 50, nodeSelector={"side": "b"}), "owner": owner},
    ]
    for known, verdict in (({"enough": 1}, "fits"), ({"spared": 6, "enough": 7}, "fits-when-empty")):
        found = fit_by_name(cluster(SIDES[:2], have, jobs=[job_entry("wide", **known)]), URGENT, job_on("late", "b"))
        assert found["late"].verdict == verdict


def test_pending_pods_may_take_the_room_of_a_failed_job() -> None:
    have = [*pods_of("wide", "a", 8), *pods_of("wide", "b", 8), waiting("next", 8, 50, nodeSelector={"side": "b"})]
    late = fit_by_name(cluster(SIDES[:2], have, jobs=[job_entry("wide", enough=1)]), URGENT, job_on("late", "b"))[
        "late"
    ]
    assert (late.verdict, late.certain) == ("fits-when-empty", False)


def crowded_nodes(*more: Object) -> list[Object]:
    """Return pods on three nodes, each of which has room for one more pod after an eviction."""
    return [*(running(f"kept-{side}", side, 4, 200) for side in "abc"), *pods_of("wide", "a", 4), *more]


def test_next_pod_may_use_room_freed_with_the_first_victim() -> None:
    """Then no pod on the third node is evicted, although those on the second are more important."""
    wanted = job("urgent", pods=2, gpus=4, priority="high")
    have = crowded_nodes(*pods_of("wide", "b", 4, priority=12), running("other", "c", 4, 11))
    for spared, lost in ((0, {"wide-a-0", "wide-b-0", "other"}), (6, {"wide-a-0", "other"})):
        jobs = [job_entry("wide", spared=spared, enough=spared + 1)]
        answer = fit_by_name(cluster(SIDES, have, jobs=jobs), wanted)["urgent"]
        assert (victim_names(answer), answer.certain) == (lost, spared > 0)


def test_next_pod_may_use_the_room_of_a_released_nomination() -> None:
    labels = {JOBSET: "set"}
    nominated = {**waiting("driver-0", 4, 200), "nominatedNode": "b", "labels": labels}
    nominated["owner"] = {"kind": "Job", "name": "driver", "group": "batch"}
    have = crowded_nodes(nominated, running("other", "c", 4, 11))
    have = [{**pod, "labels": labels} if pod["name"].startswith("wide") else pod for pod in have]
    for spared in (0, 6):
        jobs = [job_entry("driver", spared=6, enough=7), job_entry("wide", spared=spared, enough=spared + 1)]
        snapshot = cluster(SIDES, have, jobs=jobs, job_sets=[job_entry("set")])
        answer = fit_by_name(snapshot, job("urgent", pods=2, gpus=4, priority="high"))["urgent"]
        assert (victim_names(answer), answer.certain) == ({"wide-a-0", "other"}, spared > 0)


def test_restarted_pod_may_outrank_the_evicting_job() -> None:
    """It may go to a larger node, on which a job that evicts no pods had room beside all other jobs."""
    pods, known = restarting_jobset(wants=node_names("b", "c"), priority=50, gpus=24)
    nodes = [node(side, gpus, labels={"side": side}) for side, gpus in (("a", 8), ("b", 24), ("c", 32))]
    classes = [*CLASSES, {"name": "mid", "value": 30}]
    jobs = job_on("polite", "c", pods=2, priority="polite"), job_on("mid", "a", priority="mid")
    found = fit_by_name(cluster(nodes, pods, **known, priority_classes=classes), *jobs)
    assert victim_names(found["mid"]) == {"one-a-0", "two-b-0"}
    assert not found["polite"].certain


def test_terminating_pod_of_a_failed_job_is_not_a_victim() -> None:
    have = [*pods_of("wide", "a", 8), *pods_of("wide", "b", 8, deleting=True)]
    snapshot = cluster(SIDES[:2], have, jobs=[job_entry("wide", enough=1)])
    assert victim_names(fit_by_name(snapshot, URGENT)["urgent"]) == {"wide-a-0"}
    # A pod that was deleted by another client does not end the rest of its job either.
    found = fit_by_name(snapshot, job_on("other", "b", priority="high"), job_on("third", "b"))
    assert (found["other"].verdict, victim_names(found["other"])) == ("fits-when-empty", set())


def test_terminating_pod_may_count_as_a_failure_already() -> None:
    have = [*pods_of("wide", "a", 8), *pods_of("wide", "b", 8, deleting=True), *pods_of("wide", "c", 8)]
    for left, certain, lost in ((1, False, {"wide-a-0", "wide-c-0"}), (2, True, {"wide-a-0"})):
        answer = fit_by_name(cluster(SIDES, have, jobs=[job_entry("wide", spared=left, enough=left + 1)]), URGENT)[
            "urgent"
        ]
        assert (answer.certain, victim_names(answer)) == (certain, lost)

"""Admission of jobs by Kueue: its rules, one by one, and the reported reasons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.admission.limit_ranges import is_rejected_by_kueue
from gpuctl.capacity.fit.job_fit import fit
from gpuctl.capacity.fit.waiting_fit import fit_waiting
from gpuctl.capacity.kueue.kueue_configuration import configuration_entry
from gpuctl.objects.api_resources import key_of
from support.queue_cases import configured, flavor, job, judged, pod_of, queue, snapshot, verdict, workload, world
from support.queue_worlds import GPU, queue_job, queue_trial

Object = dict[str, Any]


def test_waiting_job_reports_the_numbers_of_its_queue() -> None:
    have = snapshot(world(queue("team", 4)), workload("old", "team", 3, since="2025-01-01T00:00:00Z"))
    found = judged(have, job("new", "team", 2))["new"]
    assert (found.verdict, found.certain, found.starts) == ("fits-when-empty", True, 0)
    assert found.reason == (
        f"waits in Kueue's queue team (ClusterQueue team): it asks for 2 {GPU}, 1 free in flavor card (3 of 4 used)"
    )
    assert verdict(have, job("new", "team", 1)) == ("fits", True)
    small, free = judged(have, job("new", "team", 1))["new"], judged(have, queue_job("free", "lab", "", 1))["free"]
    assert "admits it with flavor card" in small.reason
    assert [fit_job(item).as_json()["admitted"] for item in (found, small, free)] == [False, True, None]


def test_replaced_job_releases_its_own_quota() -> None:
    """Apply replaces the job, which releases its quota."""
    have = snapshot(world(queue("team", 4)), workload("new", "team", 3, since="2025-01-01T00:00:00Z"))
    assert verdict(have, job("new", "team", 4)) == ("fits", True)


def test_waiting_job_may_take_the_quota_that_a_replaced_job_releases() -> None:
    have = snapshot(
        world(queue("team", 2)),
        workload("new", "team", 2, since="2025-01-01T00:00:00Z"),
        workload("old", "team", 2),
    )
    assert verdict(have, job("new", "team", 2)) == ("fits-when-empty", False)


def test_queue_borrows_from_its_cohort() -> None:
    two = world(queue("one", 2, cohortName="lab"), queue("two", 3, cohortName="lab"))
    assert verdict(snapshot(two), job("new", "one", 5)) == ("fits", True)
    assert verdict(snapshot(two), job("new", "one", 6)) == ("never", True)
    limited = world(
        queue("one", {"card": {"nominalQuota": 2, "borrowingLimit": 1}}, cohortName="lab"),
        queue("two", {"card": {"nominalQuota": 3, "lendingLimit": 2}}, cohortName="lab"),
    )
    assert verdict(snapshot(limited), job("new", "one", 3)) == ("fits", True)
    assert verdict(snapshot(limited), job("new", "one", 4)) == ("never", True)
    used = snapshot(two, workload("old", "two", 3, since="2025-01-01T00:00:00Z"))
    found = judged(used, job("new", "one", 3))["new"]
    assert (found.verdict, found.certain) == ("fits-when-empty", True)
    assert f"it asks for 3 {GPU}, 2 free in flavor card (0 of 2 used), with what cohort lab lends" in found.reason


def test_queue_borrows_from_a_parent_cohort() -> None:
    own = {"resourceGroups": queue("x", 3)[0]["spec"]["resourceGroups"]}
    tree = world(
        queue("one", 1, cohortName="left"),
        queue("two", 1, cohortName="right"),
        cohorts=(
            {"metadata": {"name": "left"}, "spec": {"parentName": "lab"}},
            {"metadata": {"name": "right"}, "spec": {"parentName": "lab"}},
            {"metadata": {"name": "lab"}, "spec": own},
        ),
    )
    assert verdict(snapshot(tree), job("new", "one", 5)) == ("fits", True)
    assert verdict(snapshot(tree), job("other", "two", 2), job("new", "one", 4))[0] == "fits-when-empty"


@pytest.mark.parametrize(
    ("policy", "priority", "expected"),
    [
        ("Never", "queue-high", "fits-when-empty"),
        ("LowerPriority", "queue-high", "preempts"),
        ("LowerPriority", "queue-low", "fits-when-empty"),
        ("LowerOrNewerEqualPriority", "queue-low", "fits-when-empty"),
    ],
)
def test_preemption_policy_within_a_queue(policy: str, priority: str, expected: str) -> None:
    trial = world(queue("team", 2, preemption={"withinClusterQueue": policy}))
    old = workload("old", "team", 2, since="2025-01-01T00:00:00Z")
    have = snapshot(trial, old, pods=(pod_of("old"),))
    found = judged(have, job("new", "team", 1, priority))["new"]
    assert (found.verdict, found.certain) == (expected, True)
    assert [victim.pod.owner for victim in found.victims] == (["Job/old"] if expected == "preempts" else [])
    if expected == "preempts":
        assert "preempts 1 job for it" in found.reason


def test_least_important_and_last_admitted_job_is_preempted() -> None:
    trial = world(queue("team", 3, preemption={"withinClusterQueue": "LowerPriority"}))
    have = snapshot(
        trial,
        workload("early", "team", 1, since="2025-01-01T00:00:00Z"),
        workload("late", "team", 1, since="2025-01-02T00:00:00Z"),
        workload("medium", "team", 1, since="2025-01-03T00:00:00Z", priority=100),
        pods=(pod_of("early"), pod_of("late"), pod_of("medium")),
    )
    found = judged(have, job("new", "team", 1, "queue-high"))["new"]
    assert [victim.pod.owner for victim in found.victims] == ["Job/late"]


def test_preempted_job_preempts_another_in_turn() -> None:
    """``new`` reclaims what ``medium`` has borrowed, and ``medium`` then preempts ``low`` in its queue's other flavor."""
    trial = world(
        queue("one", {"a": {"nominalQuota": 1}}, cohortName="lab", preemption={"reclaimWithinCohort": "Any"}),
        queue(
            "two",
            {"a": {"nominalQuota": 0}, "b": {"nominalQuota": 1}},
            cohortName="lab",
            preemption={"withinClusterQueue": "LowerPriority"},
        ),
        flavors=(flavor("a"), flavor("b")),
    )
    have = snapshot(
        trial,
        workload("medium", "two", 1, since="2025-01-01T00:00:00Z", card="a", priority=100),
        workload("low", "two", 1, since="2025-01-02T00:00:00Z", card="b"),
        pods=(pod_of("medium", 100), pod_of("low")),
    )
    have = replace(have, pods=[{**item, "node": card} for item, card in zip(have.pods, "ab", strict=True)])
    found = judged(have, job("new", "one", 1))["new"]
    assert found.verdict == "preempts"
    assert "preempts 2 jobs for it" in found.reason
    assert [victim.pod.owner for victim in found.victims] == ["Job/medium", "Job/low"]


def test_preempting_job_is_preempted_itself() -> None:
    """``first`` preempts ``old`` and is itself preempted by ``second``; ``old`` has lost its pods anyway."""
    trial = world(queue("team", 1, preemption={"withinClusterQueue": "LowerPriority"}))
    have = snapshot(trial, workload("old", "team", 1, since="2025-01-01T00:00:00Z"), pods=(pod_of("old"),))
    found = judged(have, job("first", "team", 1, "queue-medium"), job("second", "team", 1, "queue-high"))
    owners = {victim.pod.owner for answer in found.values() for victim in answer.victims}
    assert owners == {"Job/old"}
    assert found["second"].verdict in ("preempts", "fits")
    assert found["first"].verdict == "fits-when-empty"


@pytest.mark.parametrize(
    ("reclaim", "gpus", "expected"),
    [
        ("Any", 2, "preempts"),
        ("Any", 3, "fits-when-empty"),
        ("LowerPriority", 2, "fits-when-empty"),
        ("Never", 2, "fits-when-empty"),
    ],
)
def test_lent_quota_is_reclaimed(reclaim: str, gpus: int, expected: str) -> None:
    trial = world(
        queue("one", 2, cohortName="lab", preemption={"reclaimWithinCohort": reclaim}),
        queue("two", 2, cohortName="lab"),
    )
    have = snapshot(
        trial,
        workload("own", "two", 2, since="2025-01-01T00:00:00Z"),
        workload("lent", "two", 2, since="2025-01-02T00:00:00Z"),
        pods=(pod_of("own"), pod_of("lent")),
    )
    found = judged(have, job("new", "one", gpus))["new"]
    assert found.verdict == expected
    assert [victim.pod.owner for victim in found.victims] == (["Job/lent"] if expected == "preempts" else [])


def test_borrowing_job_preempts_if_the_policy_allows() -> None:
    preemption = {"reclaimWithinCohort": "LowerPriority", "borrowWithinCohort": {"policy": "LowerPriority"}}
    queues = queue("two", 2, cohortName="lab")
    old = (
        workload("own", "two", 2, since="2025-01-01T00:00:00Z"),
        workload("lent", "two", 2, since="2025-01-02T00:00:00Z"),
    )
    new = job("new", "one", 3, "queue-high")
    allowed = world(queue("one", 2, cohortName="lab", preemption=preemption), queues)
    assert verdict(snapshot(allowed, *old), new)[0] == "fits-when-empty"
    small = (workload("lent", "two", 3, since="2025-01-02T00:00:00Z"),)
    assert verdict(snapshot(allowed, *small), new)[0] == "preempts"
    forbidden = world(queue("one", 2, cohortName="lab", preemption={"reclaimWithinCohort": "LowerPriority"}), queues)
    assert verdict(snapshot(forbidden, *small), new)[0] == "fits-when-empty"


def test_strict_queue_waits_for_its_head() -> None:
    large = workload("large", "team", 4, created="2025-01-01T00:00:00Z")
    old = workload("old", "team", 3, since="2025-01-01T00:00:00Z")
    strict = snapshot(world(queue("team", 4, queueingStrategy="StrictFIFO")), large, old)
    found = judged(strict, job("new", "team", 1))["new"]
    assert (found.verdict, found.certain) == ("fits-when-empty", True)
    assert found.reason.endswith("waits in Kueue's queue team (ClusterQueue team): 1 job is ahead of it")
    assert verdict(snapshot(world(queue("team", 4)), large, old), job("new", "team", 1)) == ("fits", True)


def test_flavors_are_tried_in_order() -> None:
    amounts = {"old": {"nominalQuota": 1}, "new": {"nominalQuota": 2}}
    trial = world(queue("team", amounts), flavors=(flavor("old"), flavor("new")))
    found = judged(snapshot(trial), job("one", "team", 1), job("two", "team", 2))
    assert "flavor old" in found["one"].reason
    assert "flavor new" in found["two"].reason
    chosen = judged(snapshot(trial), job("one", "team", 1, nodeSelector={"card": "new"}))["one"]
    assert "flavor new" in chosen.reason
    tainted = replace(trial, flavors=[flavor("old", nodeTaints=[{"key": "x", "value": "y", "effect": "NoSchedule"}])])
    tainted = replace(tainted, cluster_queues=[queue("team", {"old": {"nominalQuota": 1}})[0]])
    refused = judged(snapshot(tainted), job("one", "team", 1))["one"]
    assert (refused.verdict, refused.certain) == ("never", True)
    assert "flavor old has the taint x, which its pods do not tolerate" in refused.reason
    tolerant = job("one", "team", 1, tolerations=[{"key": "x", "operator": "Exists"}])
    assert verdict(snapshot(tainted), tolerant) == ("fits", True)


def test_admitted_pods_need_nodes_of_their_flavor() -> None:
    """An admitted job may still not be scheduled: the flavor's nodes may be full or not exist."""
    trial = world(queue("team", {"old": {"nominalQuota": 8}}), flavors=(flavor("old"),))
    have = replace(
        snapshot(trial), nodes=[{"name": "n", "labels": {"card": "other"}, "allocatable": {GPU: "8", "pods": "9"}}]
    )
    found = judged(have, job("one", "team", 1))["one"]
    assert found.verdict == "never"
    assert found.reason.startswith("Kueue's queue team (ClusterQueue team) admits it with flavor old; ")
    # A job that waits for quota, and that no node can take either.
    other = workload("other", "team", 7, since="2025-01-01T00:00:00Z", card="old")
    small = [{"name": "n", "labels": {"card": "old"}, "allocatable": {GPU: "1", "pods": "9"}}]
    waits = judged(replace(snapshot(trial, other), nodes=small), job("one", "team", 2))["one"]
    assert (waits.verdict, waits.certain) == ("never", True)
    assert "; waits in Kueue's queue team" in waits.reason


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_stopped_missing_or_closed_queue_never_admits(policy: str) -> None:
    stopped = snapshot(world(queue("team", 4, stopPolicy=policy)))
    found = judged(stopped, job("one", "team", 1))["one"]
    assert (found.verdict, found.certain) == ("never", True)
    assert found.reason.endswith(f"is stopped (stopPolicy {policy}): it admits nothing")
    absent = judged(stopped, job("one", "nowhere", 1))["one"]
    assert absent.reason == "Kueue's queue nowhere does not exist in team: the namespace has team"
    closed = snapshot(world(queue("team", 4, namespaceSelector={"matchLabels": {"a": "b"}})))
    assert judged(closed, job("one", "team", 1))["one"].reason.endswith(
        "accepts no jobs from namespace team (namespaceSelector)"
    )
    missing = snapshot(world(queue("team", {"gone": {"nominalQuota": 4}})))
    assert judged(missing, job("one", "team", 1))["one"].verdict == "never"


def test_admission_checks_and_topology_are_unknown() -> None:
    trial = world(queue("team", 4, admissionChecks=["budget"]))
    found = judged(snapshot(trial), job("one", "team", 1), job("large", "team", 4))
    assert found["one"].verdict == "unknown"
    assert "Kueue's admission checks decide (budget)" in found["one"].reason
    topology = world(queue("team", 4), flavors=(flavor(topologyName="racks"),))
    assert "TopologyAwareScheduling" in judged(snapshot(topology), job("one", "team", 1))["one"].reason
    have = snapshot(world(queue("team", 4)))
    blind = replace(have, kueue={name: items for name, items in (have.kueue or {}).items() if name != "clusterqueues"})
    found = judged(blind, job("one", "team", 1))
    assert (found["one"].verdict, found["one"].certain) == ("unknown", False)
    assert "Kueue's clusterqueues could not be read" in found["one"].reason


def test_topology_does_not_hide_that_a_job_is_never_admitted() -> None:
    racks, plain = world(queue("team", 4), flavors=(flavor(topologyName="racks"),)), world(queue("team", 4))
    found = judged(snapshot(racks), job("large", "team", 5))["large"]
    assert (found.verdict, found.certain) == ("never", True)
    assert f"it asks for 5 {GPU} in all, and 4 is the most" in found.reason
    close = job("close", "team", 1)
    close["spec"]["template"]["metadata"] = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "rack"}}
    for text, expected in (
        ({}, "never"),
        ({"featureGates": {"TopologyAwareScheduling": False}}, "unknown"),
    ):
        found = judged(configured(snapshot(plain), text, "v0.19.2"), close)["close"]
        assert found.verdict == expected
    assert judged(configured(snapshot(plain), {}, "v0.13.0"), close)["close"].verdict == "unknown"
    assert judged(snapshot(racks), close)["close"].verdict == "unknown"


@pytest.mark.parametrize("kind", ["Container", "Pod"])
def test_queue_never_admits_pods_that_limit_ranges_reject(kind: str) -> None:
    limit = {"namespace": "team", "name": "small", "limits": [{"type": kind, "max": {GPU: "2"}}]}
    specs = [job("new", "team", gpus)["spec"]["template"]["spec"] for gpus in (2, 3)]
    assert [is_rejected_by_kueue(spec, [limit]) for spec in specs] == [False, True]
    have = replace(snapshot(world(queue("team", 4))), limit_ranges=[limit])
    assert verdict(have, job("new", "team", 2)) == ("fits", True)
    assert verdict(have, job("new", "team", 3)) == ("never", True)


def test_jobs_created_in_sequence_queue_in_that_order() -> None:
    have = snapshot(world(queue("team", 1)))
    jobs = [job(f"job-{number}", "team", 1) for number in range(10)]
    answers = fit(have, jobs, {key_of(item) for item in jobs})
    assert [answer.verdict for answer in answers] == ["fits", *["fits-when-empty"] * 9]
    assert all(answer.likelihood == 1 for answer in answers)
    assert all(answer.likelihood is None for answer in fit(have, jobs))


def test_fair_sharing_makes_only_order_dependent_jobs_unknown() -> None:
    one, local = queue("team", 2, cohortName="lab")
    fair = {**one, "status": {"fairSharing": {"weightedShare": 0}}}
    have = snapshot(world((fair, local), queue("other", 2, cohortName="lab")))
    assert verdict(have, job("one", "team", 2), job("two", "other", 2)) == ("fits", True)
    assert verdict(have, job("large", "team", 5)) == ("never", True)
    found = judged(have, job("one", "team", 3), job("two", "other", 3))
    assert {answer.verdict for answer in found.values()} == {"unknown"}
    assert "fair sharing" in found["one"].reason
    taken = snapshot(
        world((fair, local), queue("other", 2, cohortName="lab")), workload("old", "other", 3, since="2025")
    )
    found = judged(taken, job("one", "team", 1), job("two", "other", 2), job("three", "team", 1))
    assert (found["two"].verdict, found["two"].certain) == ("fits-when-empty", True)
    assert found["one"].verdict == "unknown"


def test_job_with_partial_admission_makes_others_uncertain() -> None:
    have = snapshot(world(queue("team", 4)))
    part = job("part", "team", 3)
    part["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    found = judged(have, part, job("one", "team", 3))
    assert found["part"].verdict == "unknown"
    assert not found["one"].certain
    assert verdict(have, job("one", "team", 3)) == ("fits", True)


def test_excluded_resources_need_no_quota() -> None:
    have = snapshot(world(queue("team", 4)))
    new = job("new", "team", 1)
    new["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = 1
    have.nodes[0]["allocatable"]["example.com/licence"] = "5"
    assert "has no quota for example.com/licence" in judged(have, new)["new"].reason
    left_out = configured(have, {"resources": {"excludeResourcePrefixes": ["example.com/"]}})
    assert verdict(left_out, new) == ("fits", True)


def test_undeclared_resources_need_no_quota_if_ignored() -> None:
    have = snapshot(world(queue("team", 4)))
    new = job("new", "team", 1)
    new["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = 1
    have.nodes[0]["allocatable"]["example.com/licence"] = "5"
    ignored: Object = {"resources": {"quotaCheckStrategy": "IgnoreUndeclared"}}
    assert verdict(configured(have, ignored), new) == ("fits", True)
    assert verdict(configured(have, {**ignored, "featureGates": {"QuotaCheckStrategy": False}}), new)[0] == "never"


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("v0.19.2", ("fits", True)),
        ("0.17.6", ("fits", True)),
        ("v0.18.1", ("never", True)),
        ("v0.16.9", ("never", True)),
        ("", ("unknown", False)),
        ("main", ("unknown", False)),
    ],
)
def test_label_key_of_another_flavor_excludes_a_flavor_in_old_releases(
    release: str, expected: tuple[str, bool]
) -> None:
    """The job selects a node label that only the flavor `spot` has, in which its queue has too little quota."""
    flavors = (flavor("plain", nodeLabels={}), flavor("spot", nodeLabels={"spot": "yes"}))
    amounts = {"spot": {"nominalQuota": 1}, "plain": {"nominalQuota": 4}}
    have = configured(snapshot(world(queue("team", amounts), flavors=flavors)), {}, release)
    node = {**have.nodes[0], "labels": {"spot": "yes"}}
    assert verdict(replace(have, nodes=[node]), job("new", "team", 2, nodeSelector={"spot": "yes"})) == expected
    assert verdict(replace(have, nodes=[node]), job("new", "team", 2)) == ("fits", True)


@pytest.mark.parametrize(
    ("release", "preference", "given"),
    [
        ("v0.19.2", "BorrowingOverPreemption", "b"),
        ("v0.19.2", "PreemptionOverBorrowing", "a"),
        ("v0.16.1", "PreemptionOverBorrowing", None),
        ("", "PreemptionOverBorrowing", None),
    ],
)
def test_preference_decides_between_borrowing_and_preemption(release: str, preference: str, given: str | None) -> None:
    """Flavor `a` is in use by a job that may be preempted, flavor `b` is lent by another queue."""
    rules = {
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "flavorFungibility": {
            "whenCanBorrow": "TryNextFlavor",
            "whenCanPreempt": "TryNextFlavor",
            "preference": preference,
        },
    }
    amounts = {"a": {"nominalQuota": 1}, "b": {"nominalQuota": 0}}
    trial = world(
        queue("team", amounts, cohortName="lab", **rules),
        queue("other", {"b": {"nominalQuota": 1}}, cohortName="lab"),
        flavors=(flavor("a"), flavor("b")),
    )
    old = workload("old", "team", 1, since="2025-01-01T00:00:00Z", card="a")
    pods = ({**pod_of("old"), "node": "a"},)
    have = configured(snapshot(trial, old, pods=pods), {}, release)
    found = judged(have, job("new", "team", 1, "queue-high"))["new"]
    if given is None:
        assert found.verdict == "unknown"
        assert "flavorFungibility.preference differs between releases of Kueue" in found.reason
    else:
        assert f"admits it with flavor {given}" in found.reason
        assert found.verdict == ("preempts" if given == "a" else "fits")


def test_gated_job_is_unknown_and_does_not_hold_up_its_queue() -> None:
    new = job("new", "team", 1)
    new["metadata"]["annotations"] = {"kueue.x-k8s.io/admission-gated-by": "example.com/data"}
    assert verdict(snapshot(world(queue("team", 4))), new) == ("unknown", False)
    old = workload("old", "team", 4, created="2025-01-01T00:00:00Z")
    old["metadata"]["annotations"] = dict(new["metadata"]["annotations"])
    have = snapshot(world(queue("team", 4, queueingStrategy="StrictFIFO")), old)
    assert verdict(have, job("later", "team", 1)) == ("fits", True)
    [waiting] = fit_waiting(have)
    assert waiting.verdict == "unknown"
    assert "its gates are removed (kueue.x-k8s.io/admission-gated-by)" in waiting.reason


def test_transformed_resources_are_unknown() -> None:
    """Also for other jobs in the same queues, but not if the resource is unused."""
    have = snapshot(world(queue("team", 4), queue("other", 4)))
    changed = configured(have, {"resources": {"transformations": [{"input": GPU, "strategy": "Replace"}]}})
    found = judged(changed, job("new", "team", 1))["new"]
    assert (found.verdict, found.certain) == ("unknown", False)
    assert f"Kueue converts {GPU} to other resources (resources.transformations)" in found.reason
    unused = configured(have, {"resources": {"transformations": [{"input": "example.com/mig"}]}})
    assert verdict(unused, job("new", "team", 1)) == ("fits", True)


@pytest.mark.parametrize(
    ("stated", "blocks"),
    [
        ({"waitForPodsReady": {"blockAdmission": True}}, True),
        ({"waitForPodsReady": {"timeout": "5m"}}, False),
        ({"apiVersion": "config.kueue.x-k8s.io/v1beta1", "waitForPodsReady": {"enable": True}}, True),
        ({"apiVersion": "config.kueue.x-k8s.io/v1beta1", "waitForPodsReady": {"blockAdmission": True}}, False),
    ],
)
def test_blocked_admission_until_pods_are_ready_is_unknown(stated: Object, blocks: bool) -> None:
    old = workload("old", "team", 1, since="2025-01-01T00:00:00Z")
    have = configured(snapshot(world(queue("team", 4)), old), stated)
    found = judged(have, job("new", "team", 1))["new"]
    assert found.verdict == ("unknown" if blocks else "fits")
    assert ("pods of 1 admitted job are ready (waitForPodsReady.blockAdmission)" in found.reason) == blocks
    assert verdict(have, job("new", "team", 4))[0] == "fits-when-empty", "it waits for quota first"
    old["status"]["conditions"].append({"type": "PodsReady", "status": "True"})
    ready = configured(snapshot(world(queue("team", 4)), old), stated)
    assert verdict(ready, job("new", "team", 1)) == ("fits", True)
    beside = judged(ready, job("new", "team", 1), job("stuck", "team", 1, nodeSelector={"nowhere": "at all"}))
    assert (beside["new"].verdict, beside["stuck"].verdict) == ("unknown" if blocks else "fits", "never")


def test_jobs_without_a_queue_may_be_managed() -> None:
    plain = job("new", "team", 1)
    del plain["metadata"]["labels"]
    have = snapshot(world(queue("team", 4)))
    assert verdict(have, plain) == ("fits", True)
    held = judged(configured(have, {"manageJobsWithoutQueueName": True}), plain)["new"]
    assert held.verdict == "unknown"
    assert "manageJobsWithoutQueueName" in held.reason


def test_invalid_configuration_is_ignored() -> None:
    for value in (None, [], "text", {"kind": "Other"}, {"kind": "Configuration", "resources": ["x"]}):
        assert configuration_entry(value) is None


def test_default_queue_takes_jobs_without_a_queue_name() -> None:
    have = snapshot(world(queue("default", 1)))
    plain = job("one", "default", 2)
    del plain["metadata"]["labels"]
    assert verdict(have, plain) == ("never", True)


def test_pending_jobs_are_judged_without_documents() -> None:
    have = snapshot(
        world(queue("team", 4)),
        workload("old", "team", 3, since="2025-01-01T00:00:00Z"),
        workload("large", "team", 2, created="2025-01-02T00:00:00Z"),
        workload("small", "team", 1, created="2025-01-03T00:00:00Z"),
    )
    found = {answer.demand.name: answer for answer in fit_waiting(have)}
    assert {name: item.verdict for name, item in found.items()} == {"large": "fits-when-empty", "small": "fits"}
    assert f"it asks for 2 {GPU}" in found["large"].reason
    assert found["large"].certain


def test_pending_jobs_keep_their_order() -> None:
    """Kueue orders by creation time: the head of a StrictFIFO queue stays the head."""
    strict = world(queue("team", 4, queueingStrategy="StrictFIFO"))
    old = workload("old", "team", 3, since="2025-01-01T00:00:00Z")
    large = workload("large", "team", 2, created="2025-01-02T00:00:00Z")
    small = workload("small", "team", 1, created="2025-01-03T00:00:00Z")
    found = {answer.demand.name: answer for answer in fit_waiting(snapshot(strict, old, large, small))}
    assert {name: (item.verdict, item.certain) for name, item in found.items()} == {
        "large": ("fits-when-empty", True),
        "small": ("fits-when-empty", True),
    }
    assert "1 job is ahead of it" in found["small"].reason


@pytest.mark.parametrize("seed", range(12))
def test_random_queues_admit_no_more_than_their_quota(seed: int) -> None:
    """Never is more admitted than the total quota in any order of the jobs, and a second run returns the same answers."""
    trial = queue_trial(seed)
    have = snapshot(trial)
    jobs = [*trial.settled, *trial.coming]
    found = judged(have, *jobs)
    again = judged(have, *jobs)
    for name, answer in found.items():
        assert (answer.verdict, answer.reason) == (again[name].verdict, again[name].reason)
    total = sum(
        int(item["nominalQuota"])
        for obj in (*trial.cluster_queues, *trial.cohorts)
        for group in obj["spec"].get("resourceGroups", [])
        for part in group["flavors"]
        for item in part["resources"]
    )
    certain = sum(
        item["spec"]["parallelism"] * item["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][GPU]
        for item in jobs
        if found[item["metadata"]["name"]].certain and found[item["metadata"]["name"]].verdict == "fits"
    )
    assert certain <= total

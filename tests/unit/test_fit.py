"""``snapshot`` and ``fit`` without a cluster: each rule by itself, the reported values, and the commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.capacity.scheduler.cluster_state import initial_state
from gpuctl.capacity.scheduler.placement import _departures
from gpuctl.capacity.scheduler.pod_claims import csi_volumes
from gpuctl.capacity.scheduler.scheduler_model import IncomingPod, PlacedPod, SpreadConstraint
from gpuctl.capacity.scheduler.scheduling import counts_pod
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_entries import is_seen_by_scheduler, limit_range_entry, node_entry, pod_entry
from gpuctl.capacity.snapshot.snapshot_loading import DamagedSnapshot, load
from gpuctl.cli import main
from gpuctl.cli.main import cli
from gpuctl.cli.options.connection_options import ClusterFailure
from gpuctl.cli.output.fit_lines import fit_lines as lines
from gpuctl.objects.label_managers import POOLS_MANAGER
from gpuctl.objects.selectors import requirement_matches
from support.fit_objects import GPU, apart, cluster, job, node, running, service_of, waiting

Object = dict[str, Any]


def answer(snapshot: Snapshot, *jobs: Object) -> Fit:
    """Return the answer for a single job."""
    (found,) = fit(snapshot, jobs)
    return found


# Rules that filter one node. The differential test compares them with the scheduler.
NODE_CASES: list[tuple[str, Object, list[Object], Object, str]] = [
    ("room", node("a"), [], job(gpus=8), "fits"),
    ("too large", node("a"), [], job(gpus=9), "never"),
    ("taken", node("a"), [running("x", "a", 4, 10)], job(gpus=5), "fits-when-empty"),
    ("evicts", node("a"), [running("x", "a", 4, 0)], job(gpus=5), "preempts"),
    ("polite", node("a"), [running("x", "a", 4, 0)], job(gpus=5, priority="polite"), "fits-when-empty"),
    (
        "daemons stay",
        node("a"),
        [running("x", "a", 4, 10, owner={"kind": "DaemonSet", "name": "d"})],
        job(gpus=5),
        "never",
    ),
    ("cordoned", node("a", unschedulable=True), [], job(), "never"),
    ("no pods left", node("a", allocatable={"pods": "1"}), [running("x", "a", 1, 10)], job(), "fits-when-empty"),
    ("cpu", node("a"), [], job(amounts={"cpu": "32001m"}), "never"),
    ("cpu enough", node("a"), [], job(amounts={"cpu": "32"}), "fits"),
    ("not shown", node("a"), [], job(amounts={"nvidia.com/gpumem": "1"}), "unknown"),
    ("zero shown", node("a", gpus=0), [], job(), "never"),
    ("taint", node("a", taints=[{"key": "k", "effect": "NoSchedule"}]), [], job(), "never"),
    ("soft taint", node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]), [], job(), "fits"),
    (
        "tolerated",
        node("a", taints=[{"key": "k", "effect": "NoSchedule"}]),
        [],
        job(tolerations=[{"key": "k", "operator": "Exists"}]),
        "fits",
    ),
    ("selector", node("a"), [], job(nodeSelector={"zone": "b"}), "never"),
    ("other scheduler", node("a"), [], job(schedulerName="volcano"), "unknown"),
    ("gated", node("a"), [], job(schedulingGates=[{"name": "g"}]), "unknown"),
    ("no class", node("a"), [], job(priority="vip"), "unknown"),
    ("no claim", node("a"), [], job(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]), "unknown"),
    ("no runtime", node("a"), [], job(runtimeClassName="kata"), "unknown"),
    ("suspended", node("a", gpus=0), [], {**job(), "spec": {**job()["spec"], "suspend": True}}, "fits"),
]


@pytest.mark.parametrize(
    ("have", "pods", "wanted", "verdict"), [case[1:] for case in NODE_CASES], ids=[case[0] for case in NODE_CASES]
)
def test_verdict_on_one_node(have: Object, pods: list[Object], wanted: Object, verdict: str) -> None:
    assert answer(cluster([have], pods), wanted).verdict == verdict


@pytest.mark.parametrize(
    ("toleration", "verdict"),
    [
        ({"value": "another"}, "fits-when-empty"),
        ({"effect": "NoSchedule"}, "fits"),
        ({"key": "another"}, "fits"),
        (None, "fits"),
    ],
)
def test_unreachable_taint_is_tolerated_by_default(toleration: Object | None, verdict: str) -> None:
    """Admission adds a default toleration unless the pod has one for that key, of whatever value."""
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    tolerations = [] if toleration is None else [{**taint, **toleration}]
    assert answer(cluster([node("a", taints=[taint])]), job(tolerations=tolerations)).verdict == verdict


def test_gang_counts_whole_pods_per_node() -> None:
    nodes = [node("a", 8), node("b", 7), node("c", 3)]
    assert answer(cluster(nodes), job(pods=3, gpus=4)).verdict == "fits"
    found = answer(cluster(nodes), job(pods=4, gpus=4))
    assert (found.verdict, found.starts) == ("never", 3)
    assert found.change == "ask for 3 nvidia.com/gpu per pod instead of 4"


def test_full_node_does_not_lower_the_number_of_pods_that_start() -> None:
    nodes, held = [node("a", 8), node("b", 8), node("c", 4)], [running("x", "a", 8, priority=200)]
    found = answer(cluster(nodes, held), job(pods=4, gpus=4, amounts={"cpu": "1"}))
    assert (found.verdict, found.starts) == ("fits-when-empty", 3)


def test_victims_are_the_fewest_and_least_important() -> None:
    pods = [
        running("old", "a", 4, 0, startTime="2026-01-01T00:00:00Z"),
        running("new", "a", 4, 0, startTime="2026-01-02T00:00:00Z"),
        running("dear", "b", 8, 5),
    ]
    found = answer(cluster([node("a"), node("b")], pods), job(gpus=4))
    assert found.verdict == "preempts"
    assert [(victim.pod.name, victim.node) for victim in found.victims] == [("new", "a")]
    assert found.certain


def test_victims_of_equal_importance_are_uncertain() -> None:
    pods = [running("x", "a", 8), running("y", "b", 8)]
    found = answer(cluster([node("a"), node("b")], pods), job(gpus=8))
    assert (found.verdict, found.certain, len(found.victims)) == ("preempts", False, 1)
    assert "may evict other pods of equal importance" in found.reason


def test_equal_victims_on_one_node_are_uncertain() -> None:
    """If both victims started at the same time, the order in which the scheduler lists them decides."""
    pods = [running("x", "a", 4), running("y", "a", 4)]
    found = answer(cluster([node("a")], pods), job(gpus=4))
    assert (found.verdict, found.certain, len(found.victims)) == ("preempts", False, 1)
    assert "may evict other pods of equal importance" in found.reason
    both = answer(cluster([node("a")], pods), job(gpus=8))
    assert (both.verdict, both.certain, len(both.victims)) == ("preempts", True, 2)


def test_unequal_victims_depend_on_the_order_of_the_jobs() -> None:
    """The order of the two jobs decides which one evicts the less important pod."""
    pods = [running("dear", "a", 8, 5), running("cheap", "b", 8)]
    found = fit(cluster([node("a"), node("b")], pods), [job("one", gpus=8), job("two", gpus=8)])
    assert {item.verdict for item in found} == {"preempts"}
    assert not any("of equal importance" in item.reason for item in found)
    assert all(item.reason == "depends on order" for item in found)
    assert sorted(victim.pod.name for item in found for victim in item.victims) == ["cheap", "dear"]


def test_jobs_of_one_call_report_different_victims() -> None:
    """Each job's most frequent victims may be the same. The reported victims are those of one order of all jobs."""
    names = "abcdefgh"
    snapshot = cluster([node(name) for name in names], [running(f"on-{name}", name, 8) for name in names])
    found = fit(snapshot, [job(f"job-{number}", gpus=8) for number in range(6)])
    assert {(item.verdict, item.certain, len(item.victims)) for item in found} == {("preempts", False, 1)}
    assert len({victim.pod.name for item in found for victim in item.victims}) == len(found)


@pytest.mark.parametrize(("pods", "certain"), [(1, True), (2, False)])
def test_nominated_pods_make_anti_affinity_uncertain(pods: int, certain: bool) -> None:
    """A pod that waits for its victims to end counts only on its nominated node, so the next pod may violate
    anti-affinity.
    """
    nodes = [node("a"), node("b", labels={"zone": "b"})]
    others = [running("x", "a", 8, 0), running("y", "b", 8, 5)]
    found = answer(cluster(nodes, others), job(pods=pods, gpus=8, affinity=apart()))
    assert found.certain is certain


@pytest.mark.parametrize(
    ("scheduling", "verdict"),
    [
        ({}, "fits"),
        ({"nodeSelector": {"zone": "a"}}, "fits"),
        ({"nodeSelector": {"zone": "b"}}, "never"),
        ({"overhead": {"cpu": "31"}}, "fits"),
        ({"overhead": {"cpu": "33"}}, "never"),
    ],
    ids=str,
)
def test_runtime_class_selects_nodes_and_adds_overhead(scheduling: Object, verdict: str) -> None:
    runtimes = [{"name": "other", "nodeSelector": {"zone": "z"}}, {"name": "kata", **scheduling}]
    assert answer(cluster([node("a")], runtime_classes=runtimes), job(runtimeClassName="kata")).verdict == verdict


def test_runtime_class_adds_tolerations() -> None:
    tainted = node("a", taints=[{"key": "sandboxed", "effect": "NoSchedule"}])
    runtimes = [{"name": "kata", "tolerations": [{"key": "sandboxed", "operator": "Exists"}]}, {"name": "runc"}]
    for name, verdict in (("kata", "fits"), ("runc", "never")):
        assert answer(cluster([tainted], runtime_classes=runtimes), job(runtimeClassName=name)).verdict == verdict


def test_gang_that_cannot_start_still_evicts() -> None:
    found = answer(cluster([node("a", 4)], [running("x", "a", 4)]), job(pods=2, gpus=3))
    assert (found.verdict, found.starts) == ("never", 1)
    assert [victim.pod.name for victim in found.victims] == ["x"]
    assert "1 of 2 pods would still start, and evict others" in found.reason


def test_disruption_budget_is_preferred_over_priority() -> None:
    pods = [running("x", "a", 8, 0), running("y", "b", 8, 5)]
    budget = {"namespace": "team", "name": "x", "selector": {"matchLabels": {"app": "x"}}, "disruptionsAllowed": 0}
    found = answer(cluster([node("a"), node("b")], pods, budgets=[budget]), job(gpus=8))
    assert [victim.pod.name for victim in found.victims] == ["y"]


@pytest.mark.parametrize(("allowed", "victims"), [(2, ["x1", "x2"]), (1, ["y"])])
def test_disruption_budget_allows_its_number_of_evictions(allowed: int, victims: list[str]) -> None:
    pods = [running("x1", "a", 4, 0), running("x2", "a", 4, 0), running("y", "b", 8, 5)]
    for pod in pods[:2]:
        pod["labels"] = {"app": "x"}
    budget = {
        "namespace": "team",
        "name": "x",
        "selector": {"matchLabels": {"app": "x"}},
        "disruptionsAllowed": allowed,
    }
    found = answer(cluster([node("a"), node("b")], pods, budgets=[budget]), job(gpus=8))
    assert sorted(victim.pod.name for victim in found.victims) == victims


def test_jobs_are_placed_by_priority() -> None:
    jobs = [job("second", gpus=8, priority="low"), job("first", gpus=1, priority="high")]
    found = fit(cluster([node("a")]), jobs)
    assert [(item.demand.name, item.verdict) for item in found] == [("first", "fits"), ("second", "fits-when-empty")]


def test_room_freed_by_one_job_may_go_to_another() -> None:
    """A job that evicts no pods waits, and takes the room once the evictions of a less important job have made it."""
    jobs = [job("first", gpus=8, priority="polite"), job("second", gpus=8)]
    found = fit(cluster([node("a")], [running("x", "a", 8)]), jobs)
    assert [(item.verdict, item.certain) for item in found] == [("fits", False), ("fits-when-empty", False)]
    assert [victim.pod.name for victim in found[1].victims] == ["x"]


def test_later_job_depends_on_the_nodes_of_the_first() -> None:
    jobs = [job("first", pods=2, gpus=1, priority="high", amounts={"cpu": "2"}), job("second", gpus=8)]
    found = fit(cluster([node("a"), node("b")]), jobs)
    # The scheduler prefers the emptier node, so the pods use both nodes unless `second` is placed between them.
    assert (found[0].verdict, found[0].certain) == ("fits", True)
    assert not found[1].certain
    assert found[1].depends
    assert fit(cluster([node(name) for name in "abc"]), jobs)[1].verdict == "fits"


@pytest.mark.parametrize(
    ("gpus", "pods", "verdict"),
    [
        (1, 100, "fits"),
        (1, 128, "fits"),
        (1, 129, "fits-when-empty"),
        (7, 8, "fits"),
        (7, 16, "fits-when-empty"),
        (9, 1, "never"),
    ],
)
def test_later_jobs_when_placements_cannot_be_enumerated(gpus: int, pods: int, verdict: str) -> None:
    """Twelve pods on twenty different nodes: any placement takes 12 of 140 GPUs, on 2 to 12 nodes."""
    nodes = [node(f"n{number}") | {"allocatable": {GPU: "8", "cpu": "32", "pods": "99"}} for number in range(20)]
    others = [running(f"p{number}", f"n{number}", priority=10) for number in range(20)]
    first = job("first", pods=12, gpus=1, priority="high")
    answers = fit(cluster(nodes, others), [first, job("second", pods=pods, gpus=gpus)])
    assert [item.verdict for item in answers] == ["fits", verdict]


def test_own_pods_free_their_room() -> None:
    own = running("train-abc", "a", 8, 10, owner={"kind": "Job", "name": "train"})
    assert answer(cluster([node("a")], [own]), job(gpus=8)).verdict == "fits"
    assert answer(cluster([node("a")], [{**own, "namespace": "other"}]), job(gpus=8)).verdict == "fits-when-empty"
    volcano = {**own, "owner": {"group": "batch.volcano.sh", "kind": "Job", "name": "train"}}
    assert answer(cluster([node("a")], [volcano]), job(gpus=8)).verdict == "fits-when-empty"


def test_own_pods_of_a_hashed_job_name_free_their_room() -> None:
    """The Job that a GitOps controller creates has a hash in its name; another job's name may end in the same way."""
    owner = {"kind": "Job", "name": "train-0a1b2c"}
    own = running("train-0a1b2c-xyz", "a", 8, 10, owner=owner, labels={"app": "train"})
    assert answer(cluster([node("a")], [own]), job(gpus=8)).verdict == "fits"
    other = {**own, "labels": {"app": "train-0a1b2c"}}
    assert answer(cluster([node("a")], [other]), job(gpus=8)).verdict == "fits-when-empty"


def test_pool_documents_label_their_nodes() -> None:
    """Applying a pool labels its nodes, and jobs of the same documents may select these labels."""
    wanted = job(nodeSelector={"pool": "p"})
    label = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"pool": "p"}}}
    assert answer(cluster([node("a")]), wanted).verdict == "never"
    assert answer(cluster([node("a")]), label, wanted).verdict == "fits"


def test_label_that_a_plan_removes_does_not_exist() -> None:
    term = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    wanted, pooled = job(affinity={"nodeAffinity": required}), cluster([node("a", labels={"pool": "p"})])
    gone = {"kind": "Node", "metadata": {"name": "a", "labels": {"pool": None}}}
    assert answer(pooled, wanted).verdict == "fits"
    assert answer(pooled, gone, wanted).verdict == "never"


def test_priority_class_of_the_documents_is_used() -> None:
    planned = {"apiVersion": "v1", "kind": "PriorityClass", "metadata": {"name": "vip"}, "value": 50}
    have = cluster([node("a")], [running("x", "a", 8, 20)])
    assert answer(have, planned, job(gpus=8, priority="vip")).verdict == "preempts"
    assert answer(have, {**planned, "value": 15}, job(gpus=8, priority="vip")).verdict == "fits-when-empty"


def autoscaler(least: int, namespace: str = "team", most: int = 9, **target: str) -> Object:
    """Return a HorizontalPodAutoscaler of the Deployment ``chat``."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", **target}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": reference},
    }


def test_autoscaled_deployment_starts_with_its_minimum() -> None:
    found = answer(cluster([node("a")]), service_of(4), autoscaler(3))
    assert (found.verdict, found.demand.pods, found.starts) == ("never", 3, 2)


@pytest.mark.parametrize(
    ("scaler", "pods"),
    [
        (autoscaler(3, namespace="other"), 2),
        (autoscaler(3, name="web"), 2),
        (autoscaler(3, kind="StatefulSet"), 2),
        (autoscaler(3, apiVersion="serving.example.com/v1"), 2),
        (autoscaler(3, apiVersion=""), 2),
        (autoscaler(3, apiVersion="apps/v1beta2"), 3),
        (autoscaler(1, most=1), 1),
    ],
)
def test_autoscaler_applies_only_to_its_target(scaler: Object, pods: int) -> None:
    assert answer(cluster([node("a")]), service_of(1, replicas=2), scaler).demand.pods == pods


def test_autoscalers_apply_only_in_their_namespace() -> None:
    objects = [service_of(4), service_of(4, "other"), autoscaler(2), autoscaler(3, "other")]
    found = {item.demand.namespace: item.demand.pods for item in fit(cluster([node("a")]), objects)}
    assert found == {"team": 2, "other": 3}


def test_autoscaler_keeps_zero_replicas() -> None:
    assert answer(cluster([node("a")]), service_of(4, replicas=0), autoscaler(2)).demand.pods == 0


def test_workload_without_pods_fits_whatever_is_unknown() -> None:
    """No node reports GPUs: that is unknown for a service with pods only."""
    verdicts = [answer(cluster([]), service_of(4, replicas=number)).verdict for number in (0, 1)]
    assert verdicts == ["fits", "unknown"]


def test_autoscaler_applies_to_stateful_sets() -> None:
    pods = {**service_of(4, replicas=1), "kind": "StatefulSet"}
    assert answer(cluster([node("a")]), pods, autoscaler(2, kind="StatefulSet")).demand.pods == 2


def test_jobset_needs_room_for_all_replicated_jobs() -> None:
    def of(gpus: int) -> Object:
        return {"replicas": 1, "template": {"spec": job(gpus=gpus)["spec"]}}

    metadata = {"name": "set", "namespace": "team"}
    jobs = [{"name": "leader", **of(2)}, {"name": "worker", **of(6)}]
    both = {"apiVersion": "x", "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": jobs}}
    found = answer(cluster([node("a")]), both)
    assert next(lines(fit_job(found))) == (
        "jobset.jobset.x-k8s.io/set -n team: fits now (2 pods of 8 nvidia.com/gpu in all)"
    )
    assert fit_job(found).as_json()["need"] == {GPU: 8}
    assert answer(cluster([node("a", 7)]), both).verdict == "never"
    # Both nodes are equally empty, and the leader's choice decides whether the worker fits.
    found = answer(cluster([node("a", 2), node("b", 6)]), both)
    assert not found.certain
    assert found.depends
    assert answer(cluster([node("a", 1), node("b", 6)]), both).verdict == "never"


def test_jobset_fits_when_placements_cannot_be_enumerated() -> None:
    """Thirty different nodes have too many placements to enumerate, but every placement leaves room for all pods."""
    nodes = [node(f"n{number}") for number in range(30)]
    pods = [running(f"p{number}", f"n{number}", priority=10) for number in range(30)]
    roles = (("leader", 1, 1), ("worker", 20, 4))
    jobs = [
        {"name": name, "replicas": 1, "template": {"spec": job(pods=count, gpus=gpus)["spec"]}}
        for name, count, gpus in roles
    ]
    metadata = {"name": "set", "namespace": "team"}
    both = {"apiVersion": "x", "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": jobs}}
    found = answer(cluster(nodes, pods), both)
    assert (found.verdict, found.demand.pods, found.starts) == ("fits", 21, 21)


def test_room_of_a_nominated_pod_is_not_free() -> None:
    nominated = {**running("next", "a", 8, 50), "nominatedNode": "a"}
    del nominated["node"]
    have = cluster([node("a")], [nominated])
    assert answer(have, job(gpus=1)).verdict == "fits-when-empty"
    assert answer(have, job(gpus=1, priority="high")).verdict == "fits"


@pytest.mark.parametrize(
    ("hard", "used", "verdict", "reason"),
    [
        ("8", "0", "fits", ""),
        ("8", "5", "fits-when-empty", "requests.nvidia.com/gpu would be 9 of 8 (in use 5, needed 4)"),
        ("3", "0", "never", "would be 4 of 3"),
    ],
)
def test_quota_limits_a_job(hard: str, used: str, verdict: str, reason: str) -> None:
    key = f"requests.{GPU}"
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "q"},
        "spec": {"hard": {key: hard}},
        "status": {"hard": {key: hard}, "used": {key: used}},
    }
    found = answer(cluster([node("a")], quotas=[quota]), job(pods=2, gpus=2))
    assert found.verdict == verdict
    assert reason in found.reason
    expected = {
        "fits": None,
        "fits-when-empty": f"raise {key} of quota q to 9",
        "never": f"raise {key} of quota q to 4",
    }
    assert found.change == expected[verdict]


def test_jobs_of_one_call_share_a_quota() -> None:
    key = f"requests.{GPU}"
    quota = {"kind": "ResourceQuota", "metadata": {"namespace": "team", "name": "q"}, "spec": {"hard": {key: "5"}}}
    found = fit(cluster([node("a")], quotas=[quota]), [job("one", gpus=3), job("two", gpus=3)])
    assert sorted(item.verdict for item in found) == ["fits", "fits-when-empty"]


def test_bound_volume_restricts_the_nodes() -> None:
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}]
    claims = [{"namespace": "team", "name": "data", "volume": "v"}]
    wanted = job(gpus=8, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    for gpus, verdict in ((8, "fits"), (4, "never")):
        have = cluster([node("a"), node("b", gpus)], claims=claims, volumes=[{"name": "v", "nodeTerms": terms}])
        assert answer(have, wanted).verdict == verdict


@pytest.mark.parametrize(
    ("nodes", "pods", "wanted", "change"),
    [
        ([node("a", unschedulable=True)], [], job(), "uncordon node a"),
        (
            [node("a", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}])],
            [],
            job(),
            "tolerate the taint k=v:NoSchedule",
        ),
        (
            [node("a"), node("b")],
            [running("x", "a", 6, 20), running("y", "b", 5, 20)],
            job(gpus=4),
            "free 1 nvidia.com/gpu on b",
        ),
        # The node has just enough free CPU.
        (
            [node("a")],
            [running("x", "a", 6, 20, requests={"cpu": "28"})],
            job(gpus=4, amounts={"cpu": "4"}),
            "free 2 nvidia.com/gpu on a",
        ),
        ([node("a"), node("b", 4)], [], job(gpus=5, pods=2), "ask for 4 nvidia.com/gpu per pod instead of 5"),
        ([node("a", 1)], [], job(gpus=1, pods=3), "run 1 pod instead of 3"),
        ([node("a", 2)], [], job(gpus=1, pods=3), "run 2 pods instead of 3"),
        ([node("a", 0)], [], job(), None),
    ],
)
def test_smallest_change_that_makes_a_job_fit(
    nodes: list[Object], pods: list[Object], wanted: Object, change: str | None
) -> None:
    assert answer(cluster(nodes, pods), wanted).change == change


@pytest.mark.parametrize(("nodes", "certain"), [(100, True), (101, False)])
def test_scheduler_examines_only_some_of_more_than_100_candidates(nodes: int, certain: bool) -> None:
    """One pod is cheaper to evict than all others."""
    names = [f"n{number}" for number in range(nodes)]
    pods = [running(f"on-{name}", name, 8, 0 if name == "n50" else 5) for name in names]
    found = answer(cluster([node(name) for name in names], pods), job(gpus=8, priority="high"))
    assert (found.verdict, found.certain, found.victims[0].pod.name) == ("preempts", certain, "on-n50")


def test_report_of_a_shortage() -> None:
    pods = [
        running("chat-1", "a", 4, 10, owner={"kind": "Deployment", "name": "chat"}),
        running("chat-2", "b", 2, 10, owner={"kind": "Deployment", "name": "chat"}),
        running("sweep", "b", 3, 10),
    ]
    found = answer(cluster([node("a"), node("b")], pods), job(pods=2, gpus=5, amounts={"cpu": "1500m"}))
    why = "  reason: 0 of 2 pods (5 nvidia.com/gpu, 1500m cpu each) have room now; 7 nvidia.com/gpu free in total, "
    assert list(lines(fit_job(found))) == [
        "job.batch/train -n team: does not fit now, but may later (2 pods of 5 nvidia.com/gpu, 1500m cpu)",
        f"{why}at most 4 on one node (a)",
        "  nvidia.com/gpu on nodes open to it held by: Deployment/chat -n team 6, Pod/sweep -n team 3",
        "  smallest change: free 1 nvidia.com/gpu on a, 2 nvidia.com/gpu on b",
    ]
    value = fit_job(found).as_json()
    assert value["need"] == {GPU: 10, "cpuCores": 3, "perPod": {GPU: 5, "cpuCores": 1.5}}
    assert value["free"] == {GPU: 7, "cpuCores": 64, "pods": 17}
    assert value["largestNode"] == {"name": "a", GPU: 4, "cpuCores": 32, "pods": 9}
    assert value["heldBy"][0] == {"namespace": "team", "job": "Deployment/chat", "priority": 10, "pods": 2, GPU: 6}
    assert set(value) >= {"name", "namespace", "verdict", "victims", "pods", "reason", "smallestChange"}


def test_snapshot_has_the_limits_of_a_limit_range() -> None:
    limits = [{"type": "Container", "default": {"cpu": "1"}}]
    named = {"metadata": {"namespace": "n", "name": "l"}}
    assert limit_range_entry({**named, "spec": {"limits": limits}}) == {"namespace": "n", "name": "l", "limits": limits}
    assert limit_range_entry(named) == {"namespace": "n", "name": "l", "limits": []}


def test_snapshot_omits_fields_that_may_hold_secrets() -> None:
    """Commands, variables and annotations may contain secrets."""
    pod = {
        "metadata": {"namespace": "n", "name": "p", "annotations": {"a": "SECRET"}, "labels": {"app": "x"}},
        "spec": {
            "nodeName": "a",
            "hostNetwork": True,
            "containers": [
                {
                    "name": "main",
                    "image": "SECRET",
                    "command": ["SECRET"],
                    "env": [{"name": "TOKEN", "value": "SECRET"}],
                    "ports": [{"containerPort": 80}],
                    "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}, "limits": {GPU: "1"}},
                }
            ],
        },
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    }
    kept = pod_entry(pod)
    assert kept == {
        "namespace": "n",
        "name": "p",
        "labels": {"app": "x"},
        "priority": 0,
        "requests": {"cpu": "1500m", "memory": "1Gi", GPU: "1"},
        "node": "a",
        "hostPorts": [{"ip": "0.0.0.0", "protocol": "TCP", "port": 80}],
        "startTime": "2026-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({}, None),
        ({"pod-security.kubernetes.io/enforce": "privileged"}, None),
        ({"pod-security.kubernetes.io/warn": "restricted"}, None),
        ({"pod-security.kubernetes.io/enforce": "baseline"}, "hostNetwork: true"),
    ],
)
def test_pod_security_level_of_the_namespace_is_enforced(labels: dict[str, str], reason: str | None) -> None:
    have = cluster([node("a")], namespaces=[{"name": "team", "labels": labels}, {"name": "other", "labels": labels}])
    found = answer(have, job(hostNetwork=True))
    assert (found.verdict, found.starts) == (("never", 0) if reason else ("fits", 1))
    assert (reason or "") in found.reason


def small_jobs(number: int) -> list[Object]:
    """Return jobs of one pod each; the largest requests eight times the memory of the smallest."""
    return [job(f"j{index}", gpus=0, amounts={"cpu": "1", "memory": f"{1 + index % 8}Gi"}) for index in range(number)]


def large_nodes(number: int) -> list[Object]:
    """Return large nodes."""
    return [node(f"n{index}", allocatable={"pods": "110", "cpu": "200", "memory": "2Ti"}) for index in range(number)]


def test_many_small_jobs_fit_in_any_placement() -> None:
    """Small pods beside large ones: each kind is limited by another resource."""
    snapshot = cluster(large_nodes(3), [running(f"p{index}", f"n{index}", 0, 10) for index in range(3)])
    assert {found.verdict for found in fit(snapshot, small_jobs(200))} == {"fits"}


def test_host_ports_limit_jobs_with_enough_other_room() -> None:
    """Three nodes can serve one host port three times, however much else is free."""
    jobs = small_jobs(12)
    for item in jobs[8:]:
        item["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    snapshot = cluster(large_nodes(3), [running(f"p{index}", f"n{index}", 0, 10) for index in range(3)])
    *_, third, last = fit(snapshot, jobs)
    assert [third.verdict, last.verdict] == ["fits", "fits-when-empty"]
    for found in (third, last):
        assert not found.certain
        assert found.depends


@pytest.mark.parametrize(("nodes", "looked_at"), [(4, 16), (5, 2)])
def test_eviction_subsets_are_enumerated_for_few_nodes(nodes: int, looked_at: int) -> None:
    """With more than four nodes only two cases are tried: all victims have left, or none."""
    state = dataclasses.replace(initial_state([], False), leaving=dict.fromkeys(range(nodes), ()))
    assert len(set(_departures(state))) == looked_at


def test_victims_anti_affinity_ends_with_it() -> None:
    """A pod's anti-affinity ends with the pod, be it on another node or the victim itself."""
    term = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": "zone"}
    snapshot = cluster([node("a"), node("b", gpus=0)], [running("x", "a", 8, 0, antiAffinity=[term])])
    found = answer(snapshot, job(gpus=8))
    assert (found.verdict, [victim.pod.name for victim in found.victims]) == ("preempts", ["x"])


def test_namespace_labels_of_the_documents_are_used() -> None:
    label = {"pod-security.kubernetes.io/enforce": "baseline"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": label}}
    assert answer(cluster([node("a")]), namespace, job(hostNetwork=True)).verdict == "never"


def test_rejected_job_evicts_no_pods_and_takes_no_room() -> None:
    """Even if it would have room, and is placed first."""
    limit = {"namespace": "team", "name": "small", "limits": [{"type": "Container", "max": {GPU: "4"}}]}
    have = cluster([node("a")], [running("x", "a", 8, 0)], limit_ranges=[limit])
    first, second = fit(have, [job(gpus=8, priority="high"), job("other", gpus=4)])
    assert (first.verdict, first.victims, first.change) == ("never", [], None)
    assert first.reason == (
        "LimitRange small requires at most 4 nvidia.com/gpu per Container, and the limit is 8 (container main)"
    )
    assert second.verdict == "preempts"


@pytest.mark.parametrize(
    ("claim", "verdict", "reason"),
    [
        ({"volume": "pv", "deleting": True}, "never", "claim data is being deleted"),
        ({"volume": "pv", "phase": "Lost"}, "never", "claim data has lost its volume (pv no longer exists)"),
        (
            {"phase": "Pending", "storageClass": "late"},
            "fits",
            "the volume of claim data is still to be provisioned by x",
        ),
        (
            {"phase": "Pending", "storageClass": "early"},
            "unknown",
            "claim data is not bound to a volume yet (storage class early)",
        ),
    ],
)
def test_claims_that_are_not_bound(claim: Object, verdict: str, reason: str) -> None:
    have = cluster(
        [node("a")],
        claims=[{"namespace": "team", "name": "data", **claim}],
        storage_classes=[
            {"name": "late", "provisioner": "x", "bindingMode": "WaitForFirstConsumer"},
            {"name": "early", "provisioner": "x", "bindingMode": "Immediate"},
        ],
    )
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    found = answer(have, job(volumes=volumes))
    assert (found.verdict, found.reason) == (verdict, reason)


def test_replaced_pods_release_scoped_quotas() -> None:
    scope = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}]}
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "few"},
        "spec": {"hard": {"pods": "1"}, "scopeSelector": scope},
        "status": {"used": {"pods": "1"}},
    }
    own = running("train-abc", "a", 1, 10, owner={"kind": "Job", "name": "train"}, priorityClass="low")
    assert answer(cluster([node("a")], [own], quotas=[quota]), job()).verdict == "fits"
    other = {**own, "priorityClass": "high"}
    assert answer(cluster([node("a")], [other], quotas=[quota]), job()).verdict == "fits-when-empty"


def test_snapshot_round_trips_through_a_file() -> None:
    made = cluster(
        [node("a", taints=[{"key": "k", "effect": "NoSchedule"}])], [running("x", "a")], unreadable=["budgets"]
    )
    assert load(render(made)) == made


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text[:-3], "c.json is not JSON"),
        (lambda text: "[]", "c.json is not a snapshot: its `kind` is not ClusterSnapshot"),
        (lambda text: "[" * 100_000, "c.json is not a snapshot: it is nested too deeply"),
        (
            lambda text: text.replace('"version": 5', '"version": 6'),
            "c.json has version 6; this gpuctl reads version 5",
        ),
        (
            lambda text: text.replace('"cpu": "32"', '"cpu": "many"'),
            'nodes[0].allocatable.cpu: "many" is not a quantity',
        ),
        (lambda text: text.replace('"priority": 0', '"priority": "0"'), 'pods[0].priority: "0" is not a whole number'),
        (
            lambda text: text.replace('"priority": 0', '"priority": 0.0'),
            'pods[0].priority: "0.0" is not a whole number',
        ),
        (lambda text: text.replace('"priority": 0', '"Priority": 0'), "pods[0].Priority is not a field of a snapshot"),
        (lambda text: text.replace("2026-01-01T00:00:00Z", "2026-02-30T00:00:00Z"), 'Z" is not a time such as 2026-01'),
        (lambda text: text.replace('"32"', '"\\ud800"'), "it has text that is not Unicode"),
        (lambda text: text.replace('"In"', '"Inside"'), '.operator: "Inside" is not one of In, NotIn, Exists'),
        (lambda text: text.replace('"low"', ""), "matchExpressions[0].values: [] is not a list with a text"),
        (lambda text: text.replace('"namespace": "team", ', ""), "pods[0].namespace is missing"),
        (lambda text: text.replace('"takenAt"', '"x"'), "takenAt is missing"),
        (lambda text: text.replace('"budgets": []', '"budgets": {}'), "budgets: {} is not a list"),
    ],
)
def test_damaged_snapshot_error_names_the_field(change: Callable[[str], str], message: str) -> None:
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["low"]}
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "q"},
        "spec": {"scopeSelector": {"matchExpressions": [scope]}},
    }
    text = render(cluster([node("a")], [running("x", "a")], quotas=[quota], priority_classes=[]))
    with pytest.raises(DamagedSnapshot) as caught:
        load(change(text), "c.json")
    assert message in str(caught.value)


DOCUMENT = """\
kind: training
version: v0.1
job: {name: train, namespace: team, priority: high}
environment: {image: "busybox:1", command: ["true"]}
resources: {pool: default, gpu: 2, cpu: 1, memory: 1Gi}
"""


def fit_arguments(directory: Path, *more: str, have: Snapshot | None = None, document: str = DOCUMENT) -> list[str]:
    """Return the arguments of ``gpuctl fit`` for a document and an optional snapshot."""
    (directory / "job.yaml").write_text(document)
    (directory / "cluster.json").write_text(render(have) if have else "{}")
    return ["fit", "-f", str(directory / "job.yaml"), "--snapshot", str(directory / "cluster.json"), *more]


def run_fit(directory: Path, *more: str, have: Snapshot | None = None) -> Result:
    """Run ``gpuctl fit`` with a document and an optional snapshot."""
    # Invoke the whole group: click caches the help option of a command, and invoked alone it has no `-h`.
    return CliRunner().invoke(cli, fit_arguments(directory, *more, have=have), standalone_mode=False)


@pytest.mark.parametrize(
    ("gpus", "pods", "code", "verdict"),
    [(2, [], 0, "fits"), (2, [running("x", "a", 2)], 0, "preempts"), (1, [], 1, "never"), (None, [], 2, "unknown")],
)
def test_fit_exit_code_follows_the_verdict(
    tmp_path: Path, gpus: int | None, pods: list[Object], code: int, verdict: str
) -> None:
    have = node("a", gpus or 0)
    if gpus is None:
        del have["allocatable"][GPU]
    result = run_fit(tmp_path, "-o", "json", have=cluster([have], pods))
    assert result.return_value == code, result.output
    (found,) = json.loads(result.stdout)["jobs"]
    assert (found["name"], found["namespace"], found["verdict"]) == ("train", "team", verdict)


def test_fit_command_prints_the_victims(tmp_path: Path) -> None:
    result = run_fit(tmp_path, have=cluster([node("a", 2)], [running("x", "a", 2)]))
    assert "job.batch/train -n team: fits by evicting other pods (1 pod of" in result.stdout
    assert "  evicts: pod x -n team on a (priority 0)" in result.stdout


def test_fit_command_reports_a_damaged_snapshot(tmp_path: Path) -> None:
    result = run_fit(tmp_path, "--json")
    assert isinstance(result.exception, ClusterFailure)
    assert result.exception.exit_code == 3
    assert json.loads(result.stdout) == {
        "jobs": [],
        "error": f"{tmp_path / 'cluster.json'} is not a snapshot: its `kind` is not ClusterSnapshot",
    }


def test_fit_command_rejects_snapshot_with_context(tmp_path: Path) -> None:
    result = run_fit(tmp_path, "--context", "prod")
    assert isinstance(result.exception, UsageError)


def test_fit_command_rejects_invalid_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.run(fit_arguments(tmp_path, have=cluster([node("a")]), document=DOCUMENT.replace("gpu: 2", "gpu: x")))
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "job.yaml:5" in printed.err


def _ended(name: str, condition: str, **more: str) -> Object:
    return {"kind": "Job", "namespace": "team", "name": name, "condition": condition, "app": name, **more}


@pytest.mark.parametrize(
    ("after", "finished", "reason"),
    [
        ("[prep]", [], "it waits for prep"),
        ("[prep]", [_ended("prep", "Complete")], ""),
        ("[prep]", [_ended("prep-0a1b2c", "Complete", app="prep")], ""),
        ("[prep]", [_ended("prep-worker-0", "Complete", app="prep")], "it waits for prep"),
        ("[prep]", [{**_ended("prep", "Complete"), "namespace": "other"}], "it waits for prep"),
        ("[prep, eval]", [_ended("prep", "Complete"), _ended("eval", "Failed")], "it waits for eval"),
        ("{prep: failed}", [_ended("prep", "FailureTarget")], ""),
        ("{prep: any}", [_ended("prep", "Failed")], ""),
        ("[scan]", [_ended("scan-1", "Complete")], "it waits for scan"),
        ("[scan]", [_ended("scan-0", "Complete"), _ended("scan-1", "Complete")], ""),
        ("[other]", [_ended("other-0", "Complete")], "it waits for other, unless all jobs of the sweep are there"),
        ("[other]", [_ended("other-0", "Complete"), _ended("other-1", "Failed")], "it waits for other"),
        ("[other]", [_ended("other", "Complete"), _ended("other-0", "Failed")], ""),
        ("[other]", [_ended("other-x", "Complete")], "it waits for other"),
    ],
)
def test_fit_names_the_prerequisites_that_are_not_met(
    tmp_path: Path, after: str, finished: list[Object], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = DOCUMENT.replace("priority: high}", f"priority: high, after: {after}}}")
    wanted += "---\n" + DOCUMENT.replace("name: train", "name: scan") + "sweep: {seed: [1, 2]}\n"
    main.run(fit_arguments(tmp_path, "-o", "json", have=cluster([node("a")], finished=finished), document=wanted))
    found = json.loads(capsys.readouterr().out)["jobs"]
    assert [item["reason"] for item in found if item["name"] == "train"] == [reason]


def test_training_that_runs_does_not_wait_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its prerequisite has been removed by its ttl."""
    own = running("train-x", "a", 2, owner={"kind": "Job", "name": "train", "group": "batch"})
    wanted = DOCUMENT.replace("priority: high}", "priority: high, after: [prep]}")
    main.run(fit_arguments(tmp_path, "-o", "json", have=cluster([node("a")], [own]), document=wanted))
    (found,) = json.loads(capsys.readouterr().out)["jobs"]
    assert (found["verdict"], found["reason"]) == ("fits", "")


def test_held_by_includes_earlier_jobs_of_the_call() -> None:
    first, second = fit(cluster([node("a")]), [job("train", gpus=6, priority="high"), job("other", gpus=4)])
    assert (first.verdict, second.verdict) == ("fits", "fits-when-empty")
    assert [(item["job"], item["nvidia.com/gpu"]) for item in fit_job(second).as_json()["heldBy"]] == [("Job/train", 6)]


@pytest.mark.parametrize(("gpus", "code", "verdict"), [(8, 0, "fits"), (16, 1, "never")])
def test_live_node_capacity_overrides_pool_documents(
    tmp_path: Path, gpus: int, code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = "kind: pool\nversion: v0.1\npool: {name: a}\nnodes: {n1: {gpu-type: T4, gpu-count: 4}}\n---\n"
    wanted = pool + DOCUMENT.replace("pool: default, gpu: 2", f"pool: a, gpu: {gpus}")
    ended = main.run(fit_arguments(tmp_path, "-o", "json", have=cluster([node("n1", 8)]), document=wanted))
    printed = capsys.readouterr()
    assert [item["verdict"] for item in json.loads(printed.out)["jobs"]] == [verdict]
    assert (ended, "warning[GPU403]" in printed.err) == (code, True)


POOL, TYPE = "runwhere.ai/pool", "runwhere.ai/gpu-type"


@pytest.mark.parametrize(
    ("labels", "held", "verdict"),
    [
        ({POOL: "a"}, [POOL], "never"),
        ({POOL: "a"}, [], "fits"),
        ({POOL: "b"}, [POOL], "never"),
        ({POOL: "a", TYPE: "T4"}, [POOL, TYPE], "never"),
    ],
    ids=["set by the pool", "set by another manager", "of another pool", "with a type"],
)
def test_pool_documents_remove_nodes_that_they_do_not_name(
    tmp_path: Path, labels: dict[str, str], held: list[str], verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `gpuctl apply` does: a label that another manager has set stays."""
    document = "kind: pool\nversion: v0.1\npool: {name: a}\nnodes: {n1: {gpu-type: T4}}\n---\n" + DOCUMENT
    wanted = document.replace("pool: default, gpu: 2", "pool: a, gpu: 8")
    have = cluster([node("n1", 4), node("n2", 8, labels=labels, poolLabels=held)])
    main.run(fit_arguments(tmp_path, "-o", "json", have=have, document=wanted))
    assert [item["verdict"] for item in json.loads(capsys.readouterr().out)["jobs"]] == [verdict]


def test_pool_documents_remove_gpu_types_that_they_do_not_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = "kind: pool\nversion: v0.1\npool: {name: a}\nnodes: {n1: {}}\n---\n" + DOCUMENT
    wanted = document.replace("pool: default, gpu: 2", "pool: a, gpu-type: T4, gpu: 2")
    have = cluster([node("n1", labels={POOL: "a", TYPE: "T4"}, poolLabels=[TYPE, POOL])])
    main.run(fit_arguments(tmp_path, "-o", "json", have=have, document=wanted))
    assert [item["verdict"] for item in json.loads(capsys.readouterr().out)["jobs"]] == ["never"]


def test_snapshot_names_the_labels_that_only_pools_set() -> None:
    def entry(manager: str, *labels: str) -> Object:
        fields = {"f:metadata": {"f:labels": {f"f:{label}": {} for label in labels}}}
        return {"manager": manager, "operation": "Apply", "fieldsV1": fields}

    metadata = {
        "name": "a",
        "labels": {POOL: "p", TYPE: "T4", "zone": "z"},
        "managedFields": [entry(POOLS_MANAGER, TYPE, POOL), entry("kubectl-label", TYPE, "zone")],
    }
    assert node_entry({"metadata": metadata})["poolLabels"] == [POOL]


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        (waiting("w", 4, 200), "fits-when-empty"),
        (waiting("w", 4, 100), "preempts"),
        (waiting("w", 9, 200), "preempts"),
        (waiting("w", 4, 200, nodeSelector={"zone": "b"}), "preempts"),
        (waiting("train-1", 4, 200) | {"owner": {"kind": "Job", "name": "train"}}, "preempts"),
    ],
    ids=["first", "no more important", "too large", "elsewhere", "own"],
)
def test_pending_pod_may_take_the_room_of_a_victim(pod: Object, verdict: str) -> None:
    found = answer(cluster([node("a")], [running("x", "a", 8, 0), pod]), job(gpus=8, priority="high"))
    assert found.verdict == verdict
    assert [victim.pod.name for victim in found.victims] == ["x"]


@pytest.mark.parametrize(
    ("pod", "verdict", "certain"),
    [
        (waiting("w", 8, 200), "fits-when-empty", False),
        (waiting("w", 8, 0), "fits-when-empty", False),
        (waiting("w", 4, 200), "fits", True),
        (waiting("w", 8, 200, nodeSelector={"zone": "b"}), "fits", True),
        (waiting("train-1", 8, 200) | {"owner": {"kind": "Job", "name": "train"}}, "fits", True),
    ],
    ids=["more important", "less important", "room for both", "elsewhere", "own"],
)
def test_pending_pod_may_take_the_room_of_a_new_one(pod: Object, verdict: str, certain: bool) -> None:
    """It is placed before a new pod exists."""
    found = answer(cluster([node("a")], [pod]), job(gpus=4, priority="polite"))
    assert (found.verdict, found.certain) == (verdict, certain)
    assert ("pending pods may be placed first" in found.reason) is not certain


def test_terminating_pods_are_not_victims() -> None:
    found = answer(cluster([node("a")], [running("x", "a", 8, 0, deleting=True)]), job(gpus=8, priority="high"))
    assert (found.verdict, found.victims, found.starts) == ("fits-when-empty", [], 0)
    assert found.reason == "it waits for pods that are terminating"


def test_nomination_of_an_own_pod_is_ignored() -> None:
    own = {**waiting("train-x", 8, 100), "nominatedNode": "a", "owner": {"kind": "Job", "name": "train"}}
    assert answer(cluster([node("a")], [own]), job(gpus=8, priority="high")).verdict == "fits"


def test_pending_pods_that_the_scheduler_considers() -> None:
    spec: Object = {"containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}], "nodeSelector": {"a": "b"}}
    pod: Object = {"metadata": {"namespace": "n", "name": "p"}, "spec": spec, "status": {"phase": "Pending"}}
    assert is_seen_by_scheduler(pod)
    assert pod_entry(pod)["wants"] == {"nodeSelector": {"a": "b"}}
    assert not is_seen_by_scheduler({**pod, "spec": {**spec, "schedulerName": "volcano"}})
    assert not is_seen_by_scheduler({**pod, "spec": {**spec, "schedulingGates": [{"name": "kueue"}]}})
    assert not is_seen_by_scheduler(
        {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    )


@pytest.mark.parametrize(
    ("operator", "value", "found"),
    [
        ("Gt", "5", True),
        ("Gt", "4", False),
        ("Lt", "3", True),
        ("Lt", "4", False),
        ("Gt", "many", False),
        ("Lt", "many", False),
        ("Gt", None, False),
    ],
)
def test_gt_and_lt_compare_labels_as_integers(operator: str, value: str | None, found: bool) -> None:
    labels = {} if value is None else {"cards": value}
    assert requirement_matches({"key": "cards", "operator": operator, "values": ["4"]}, labels) is found


def test_excluded_nodes_are_counted_per_rule() -> None:
    closed = [node(name, unschedulable=True) for name in "abc"]
    found = answer(cluster([*closed, node("d", gpus=0)]), job())
    assert found.verdict == "never"
    assert "3 excluded by " in found.reason
    assert "1 excluded by " in found.reason


def test_csi_volumes_of_bound_claims() -> None:
    """Only volumes of CSI drivers, of bound claims in the pod's own namespace."""
    claims = [
        {"namespace": "team", "name": name, "volume": volume}
        for name, volume in (("data", "v1"), ("nfs", "v2"), ("new", ""))
    ]
    volumes = [{"name": "v1", "driver": "csi.example.com", "handle": "h1"}, {"name": "v2"}]
    snapshot = cluster([], claims=claims, volumes=volumes)
    names = ["data", "nfs", "new", "absent"]
    assert csi_volumes(names, "team", snapshot) == {("csi.example.com", "h1")}
    assert csi_volumes(names, "other", snapshot) == frozenset()


def test_reason_of_never_omits_a_quota_that_is_only_full_now() -> None:
    hard = {f"requests.{GPU}": "24"}
    quota = {"kind": "ResourceQuota", "metadata": {"namespace": "team", "name": "few"}, "spec": {"hard": hard}}
    full = {**quota, "status": {"hard": hard, "used": {f"requests.{GPU}": "20"}}}
    found = answer(cluster([node("a"), node("b")], quotas=[full]), job(gpus=16))
    assert (found.verdict, found.reason) == (
        "never",
        "no node takes one of its pods: 2 excluded by resources (16 nvidia.com/gpu needed, the largest, a, has 8)",
    )
    found = answer(cluster([node("a"), node("b")], quotas=[full]), job(gpus=32))
    assert "the largest, a, has 8); quota few: " in found.reason


def host_network_pod(name: str, on: str, port: int = 29500) -> Object:
    return running(name, on, 1, 100, hostPorts=[{"ip": "0.0.0.0", "protocol": "TCP", "port": port}])


def host_network_training(pods: int, port: int = 29500) -> Object:
    """Return a training whose pods use the host network."""
    document = job(pods=pods, gpus=2, hostNetwork=True)
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    return document


def test_host_port_in_use_is_the_reason() -> None:
    """The GPUs would be enough."""
    nodes = [node(name) for name in "abc"]
    found = answer(cluster(nodes, [host_network_pod("x", "a")]), host_network_training(3))
    assert (found.verdict, found.reason) == (
        "fits-when-empty",
        (
            "2 of 3 pods have room now: each needs the host port 29500, which is free on 2 of 3 nodes with room; "
            "`job.master_port` sets the rendezvous port of a training"
        ),
    )
    # Two pods of the job cannot share a node either.
    found = answer(cluster(nodes), host_network_training(4))
    assert found.verdict == "never"
    assert "each needs the host port 29500, which is free on 3 of 3 nodes with room; `job.master_port`" in found.reason
    # If GPUs are short, they are the reason.
    full = [running(f"y{name}", name, 7, 100) for name in "abc"]
    assert (
        "host port" not in answer(cluster(nodes, [host_network_pod("x", "a"), *full]), host_network_training(2)).reason
    )
    assert answer(cluster(nodes, [host_network_pod("x", "a", 29600)]), host_network_training(3)).verdict == "fits"


def test_queue_label_without_kueue_has_no_effect() -> None:
    queued = job()
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    found = answer(cluster([node("a")]), queued)
    assert (found.verdict, found.reason) == (
        "fits",
        "Kueue is not installed: queue research has no effect, and the pods are not started together",
    )
    assert answer(cluster([node("a")]), job()).reason == ""


def test_spread_constraint_counts_matching_pods_that_stay_in_the_namespace() -> None:
    rule = SpreadConstraint("zone", {"matchLabels": {"app": "a"}}, 1, 1, True, True)
    incoming, pod = IncomingPod(PlacedPod("team", "new")), PlacedPod("team", "old", {"app": "a"})
    assert counts_pod(rule, incoming, pod)
    for other in (replace(pod, deleting=True), replace(pod, namespace="other"), replace(pod, labels={"app": "b"})):
        assert not counts_pod(rule, incoming, other)
    assert not counts_pod(rule._replace(selector={}), incoming, pod)

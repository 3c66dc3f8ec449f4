"""``snapshot`` and ``fit`` without a cluster: each rule by itself, what is told, and the commands."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.job_fit import Fit, fit
from gpuctl.capacity.placement import _departures, initial_state
from gpuctl.capacity.pod_claims import csi_volumes
from gpuctl.capacity.snapshot_document import DamagedSnapshot, Snapshot, load, render
from gpuctl.capacity.snapshot_entries import custom_resource_entry, is_seen_by_scheduler, pod_entry
from gpuctl.cli import main
from gpuctl.cli.main import cli
from gpuctl.cli.options.connection_options import ClusterFailure
from gpuctl.cli.output.fit_lines import fit_lines as lines
from gpuctl.objects.selectors import requirement_matches
from support.fit_objects import GPU, apart, cluster, job, node, running, service_of, waiting

Object = dict[str, Any]


def answer(snapshot: Snapshot, *jobs: Object) -> Fit:
    """The answer for the only job."""
    (found,) = fit(snapshot, jobs)
    return found


# What the scheduler's rules see of one node; the differential test holds them against the scheduler itself.
CASES: list[tuple[str, Object, list[Object], Object, str]] = [
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
    ("have", "pods", "wanted", "verdict"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_node(have: Object, pods: list[Object], wanted: Object, verdict: str) -> None:
    assert answer(cluster([have], pods), wanted).verdict == verdict


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ({"value": "another"}, "fits-when-empty"),
        ({"effect": "NoSchedule"}, "fits"),
        ({"key": "another"}, "fits"),
        (None, "fits"),
    ],
)
def test_lost_nodes_are_tolerated_unless_the_pod_says_otherwise(said: Object | None, verdict: str) -> None:
    """Admission adds its tolerations only for keys of which the pod has none, even if it tolerates nothing."""
    taint = {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}
    tolerations = [] if said is None else [{**taint, **said}]
    assert answer(cluster([node("a", taints=[taint])]), job(tolerations=tolerations)).verdict == verdict


def test_gang_counts_whole_pods_on_each_node() -> None:
    nodes = [node("a", 8), node("b", 7), node("c", 3)]
    assert answer(cluster(nodes), job(pods=3, gpus=4)).verdict == "fits"
    found = answer(cluster(nodes), job(pods=4, gpus=4))
    assert (found.verdict, found.starts) == ("never", 3)
    assert found.change == "ask for 3 nvidia.com/gpu per pod instead of 4"


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


def test_equals_are_not_certain_victims() -> None:
    pods = [running("x", "a", 8), running("y", "b", 8)]
    found = answer(cluster([node("a"), node("b")], pods), job(gpus=8))
    assert (found.verdict, found.certain, len(found.victims)) == ("preempts", False, 1)
    assert "may evict other pods of equal importance" in found.reason


def test_equals_on_one_node_are_not_certain_victims() -> None:
    """Of two that started at the same time the scheduler's own order decides which one leaves."""
    pods = [running("x", "a", 4), running("y", "a", 4)]
    found = answer(cluster([node("a")], pods), job(gpus=4))
    assert (found.verdict, found.certain, len(found.victims)) == ("preempts", False, 1)
    assert "may evict other pods of equal importance" in found.reason
    both = answer(cluster([node("a")], pods), job(gpus=8))
    assert (both.verdict, both.certain, len(both.victims)) == ("preempts", True, 2)


def test_others_of_another_rank_are_told_apart() -> None:
    """Two jobs that come in any order: which of them has the less important victim is the order's to decide."""
    pods = [running("dear", "a", 8, 5), running("cheap", "b", 8)]
    found = fit(cluster([node("a"), node("b")], pods), [job("one", gpus=8), job("two", gpus=8)])
    assert {item.verdict for item in found} == {"preempts"}
    assert not any("of equal importance" in item.reason for item in found)
    assert all(item.reason == "depends on order" for item in found)
    assert sorted(victim.pod.name for item in found for victim in item.victims) == ["cheap", "dear"]


def test_jobs_that_may_evict_the_same_are_told_to_evict_others() -> None:
    """What each of them evicts most often may be the same: told is what becomes of all of them in one order."""
    names = "abcdefgh"
    snapshot = cluster([node(name) for name in names], [running(f"on-{name}", name, 8) for name in names])
    found = fit(snapshot, [job(f"job-{number}", gpus=8) for number in range(6)])
    assert {(item.verdict, item.certain, len(item.victims)) for item in found} == {("preempts", False, 1)}
    assert len({victim.pod.name for item in found for victim in item.victims}) == len(found)


@pytest.mark.parametrize(("pods", "certain"), [(1, True), (2, False)])
def test_pods_that_wait_for_room_are_not_seen_by_the_next_of_their_job(pods: int, certain: bool) -> None:
    """One that waits until its victims have left counts on its own node only, so that another may go too near."""
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
def test_a_runtime_chooses_nodes_and_takes_room(scheduling: Object, verdict: str) -> None:
    runtimes = [{"name": "other", "nodeSelector": {"zone": "z"}}, {"name": "kata", **scheduling}]
    assert answer(cluster([node("a")], runtime_classes=runtimes), job(runtimeClassName="kata")).verdict == verdict


def test_a_runtime_tolerates_what_its_nodes_are_tainted_with() -> None:
    tainted = node("a", taints=[{"key": "sandboxed", "effect": "NoSchedule"}])
    runtimes = [{"name": "kata", "tolerations": [{"key": "sandboxed", "operator": "Exists"}]}, {"name": "runc"}]
    for name, verdict in (("kata", "fits"), ("runc", "never")):
        assert answer(cluster([tainted], runtime_classes=runtimes), job(runtimeClassName=name)).verdict == verdict


def test_a_gang_that_cannot_start_evicts_all_the_same() -> None:
    found = answer(cluster([node("a", 4)], [running("x", "a", 4)]), job(pods=2, gpus=3))
    assert (found.verdict, found.starts) == ("never", 1)
    assert [victim.pod.name for victim in found.victims] == ["x"]
    assert "1 of 2 pods would still start, and evict others" in found.reason


def test_budget_spares_whom_it_can() -> None:
    pods = [running("x", "a", 8, 0), running("y", "b", 8, 5)]
    budget = {"namespace": "team", "name": "x", "selector": {"matchLabels": {"app": "x"}}, "disruptionsAllowed": 0}
    found = answer(cluster([node("a"), node("b")], pods, budgets=[budget]), job(gpus=8))
    assert [victim.pod.name for victim in found.victims] == ["y"]


@pytest.mark.parametrize(("allowed", "victims"), [(2, ["x1", "x2"]), (1, ["y"])])
def test_budget_allows_as_many_as_it_says(allowed: int, victims: list[str]) -> None:
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


def test_what_one_job_frees_another_may_take() -> None:
    """A job that evicts nobody waits, and takes the room as soon as a less important one has made it."""
    jobs = [job("first", gpus=8, priority="polite"), job("second", gpus=8)]
    found = fit(cluster([node("a")], [running("x", "a", 8)]), jobs)
    assert [(item.verdict, item.certain) for item in found] == [("fits", False), ("fits-when-empty", False)]
    assert [victim.pod.name for victim in found[1].victims] == ["x"]


def test_a_later_job_depends_on_the_choice_for_the_first() -> None:
    jobs = [job("first", pods=2, gpus=1, priority="high", amounts={"cpu": "2"}), job("second", gpus=8)]
    found = fit(cluster([node("a"), node("b")]), jobs)
    # The scheduler takes the node with less on it first, so that both are begun, unless the second comes in between.
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
def test_later_jobs_where_not_every_choice_can_be_followed(gpus: int, pods: int, verdict: str) -> None:
    """Twelve pods on twenty nodes that all differ: wherever they go, they take 12 of 140 cards, on 2 to 12 nodes."""
    nodes = [node(f"n{number}") | {"allocatable": {GPU: "8", "cpu": "32", "pods": "99"}} for number in range(20)]
    others = [running(f"p{number}", f"n{number}", priority=10) for number in range(20)]
    first = job("first", pods=12, gpus=1, priority="high")
    answers = fit(cluster(nodes, others), [first, job("second", pods=pods, gpus=gpus)])
    assert [item.verdict for item in answers] == ["fits", verdict]


def test_own_pods_are_given_back() -> None:
    own = running("train-abc", "a", 8, 10, owner={"kind": "Job", "name": "train"})
    assert answer(cluster([node("a")], [own]), job(gpus=8)).verdict == "fits"
    assert answer(cluster([node("a")], [{**own, "namespace": "other"}]), job(gpus=8)).verdict == "fits-when-empty"
    volcano = {**own, "owner": {"group": "batch.volcano.sh", "kind": "Job", "name": "train"}}
    assert answer(cluster([node("a")], [volcano]), job(gpus=8)).verdict == "fits-when-empty"


def test_pods_of_a_training_that_a_controller_made_are_given_back() -> None:
    """Their Job has a hash in its name; another job's name may end like one."""
    owner = {"kind": "Job", "name": "train-0a1b2c"}
    own = running("train-0a1b2c-xyz", "a", 8, 10, owner=owner, labels={"app": "train"})
    assert answer(cluster([node("a")], [own]), job(gpus=8)).verdict == "fits"
    other = {**own, "labels": {"app": "train-0a1b2c"}}
    assert answer(cluster([node("a")], [other]), job(gpus=8)).verdict == "fits-when-empty"


def test_labels_of_pools_in_the_documents_count() -> None:
    """Applying a pool labels its nodes, on which the jobs of the same documents rely."""
    wanted = job(nodeSelector={"pool": "p"})
    label = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a", "labels": {"pool": "p"}}}
    assert answer(cluster([node("a")]), wanted).verdict == "never"
    assert answer(cluster([node("a")]), label, wanted).verdict == "fits"


def test_priority_class_of_the_documents_counts_until_it_is_there() -> None:
    planned = {"apiVersion": "v1", "kind": "PriorityClass", "metadata": {"name": "vip"}, "value": 50}
    have = cluster([node("a")], [running("x", "a", 8, 20)])
    assert answer(have, planned, job(gpus=8, priority="vip")).verdict == "preempts"
    assert answer(have, {**planned, "value": 15}, job(gpus=8, priority="vip")).verdict == "fits-when-empty"


def scaler_of(least: int, namespace: str = "team", most: int = 9, **target: str) -> Object:
    """An autoscaler of the Deployment ``chat``."""
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", **target}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat", "namespace": namespace},
        "spec": {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": reference},
    }


def test_autoscaled_deployment_starts_with_its_minimum() -> None:
    found = answer(cluster([node("a")]), service_of(4), scaler_of(3))
    assert (found.verdict, found.demand.pods, found.starts) == ("never", 3, 2)


@pytest.mark.parametrize(
    ("scaler", "pods"),
    [
        (scaler_of(3, namespace="other"), 2),
        (scaler_of(3, name="web"), 2),
        (scaler_of(3, kind="StatefulSet"), 2),
        (scaler_of(3, apiVersion="serving.example.com/v1"), 2),
        (scaler_of(3, apiVersion=""), 2),
        (scaler_of(3, apiVersion="apps/v1beta2"), 3),
        (scaler_of(1, most=1), 1),
    ],
)
def test_autoscaler_is_of_what_it_names(scaler: Object, pods: int) -> None:
    assert answer(cluster([node("a")]), service_of(1, replicas=2), scaler).demand.pods == pods


def test_deployments_of_one_name_have_their_own_autoscalers() -> None:
    objects = [service_of(4), service_of(4, "other"), scaler_of(2), scaler_of(3, "other")]
    found = {item.demand.namespace: item.demand.pods for item in fit(cluster([node("a")]), objects)}
    assert found == {"team": 2, "other": 3}


def test_autoscaler_leaves_what_is_scaled_to_nothing() -> None:
    assert answer(cluster([node("a")]), service_of(4, replicas=0), scaler_of(2)).demand.pods == 0


def test_stateful_sets_are_scaled_too() -> None:
    pods = {**service_of(4, replicas=1), "kind": "StatefulSet"}
    assert answer(cluster([node("a")]), pods, scaler_of(2, kind="StatefulSet")).demand.pods == 2


def test_jobset_waits_for_both_kinds_of_pods() -> None:
    def of(gpus: int) -> Object:
        return {"replicas": 1, "template": {"spec": job(gpus=gpus)["spec"]}}

    metadata = {"name": "set", "namespace": "team"}
    jobs = [{"name": "leader", **of(2)}, {"name": "worker", **of(6)}]
    both = {"apiVersion": "x", "kind": "JobSet", "metadata": metadata, "spec": {"replicatedJobs": jobs}}
    assert answer(cluster([node("a")]), both).verdict == "fits"
    assert answer(cluster([node("a", 7)]), both).verdict == "never"
    # On these two nodes all depends on which the leader takes: either is as empty as the other.
    found = answer(cluster([node("a", 2), node("b", 6)]), both)
    assert not found.certain
    assert found.depends
    assert answer(cluster([node("a", 1), node("b", 6)]), both).verdict == "never"


def test_jobset_with_room_whatever_is_taken_first() -> None:
    """On thirty nodes that all differ the choices cannot all be followed, but none leaves a pod without room."""
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


def test_room_that_is_being_made_for_another_is_not_free() -> None:
    nominated = {**running("next", "a", 8, 50), "nominatedNode": "a"}
    del nominated["node"]
    have = cluster([node("a")], [nominated])
    assert answer(have, job(gpus=1)).verdict == "fits-when-empty"
    assert answer(have, job(gpus=1, priority="high")).verdict == "fits"


@pytest.mark.parametrize(
    ("hard", "used", "verdict", "said"),
    [
        ("8", "0", "fits", ""),
        ("8", "5", "fits-when-empty", "requests.nvidia.com/gpu would be 9 of 8 (in use 5, needed 4)"),
        ("3", "0", "never", "would be 4 of 3"),
    ],
)
def test_quota_is_a_limit_like_another(hard: str, used: str, verdict: str, said: str) -> None:
    key = f"requests.{GPU}"
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "q"},
        "spec": {"hard": {key: hard}},
        "status": {"hard": {key: hard}, "used": {key: used}},
    }
    found = answer(cluster([node("a")], quotas=[quota]), job(pods=2, gpus=2))
    assert found.verdict == verdict
    assert said in found.reason
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


def test_bound_volume_keeps_to_its_nodes() -> None:
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
        ([node("a"), node("b", 4)], [], job(gpus=5, pods=2), "ask for 4 nvidia.com/gpu per pod instead of 5"),
        ([node("a", 1)], [], job(gpus=1, pods=3), "run 1 pod instead of 3"),
        ([node("a", 2)], [], job(gpus=1, pods=3), "run 2 pods instead of 3"),
        ([node("a", 0)], [], job(), None),
    ],
)
def test_smallest_change(nodes: list[Object], pods: list[Object], wanted: Object, change: str | None) -> None:
    assert answer(cluster(nodes, pods), wanted).change == change


def test_what_is_told_of_a_shortage() -> None:
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


def test_snapshot_has_nothing_that_is_not_counted() -> None:
    """Commands, variables and annotations may hold secrets."""
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


def test_snapshot_of_an_older_gpuctl_is_read(tmp_path: Path) -> None:
    value = json.loads(render(cluster([node("a")])))
    value["version"] = 1
    for name in ("storageClasses", "csiNodes", "attachments"):
        del value[name]
    old = load(json.dumps(value))
    assert old.missing == ["storageClasses", "csiNodes", "attachments"]
    assert answer(old, job(gpus=8)).verdict == "fits"
    (tmp_path / "old.json").write_text(json.dumps(value))
    (tmp_path / "job.yaml").write_text(DOCUMENT)
    found = CliRunner().invoke(
        cli, ["fit", "-f", f"{tmp_path}/job.yaml", "--snapshot", f"{tmp_path}/old.json"], standalone_mode=False
    )
    assert (
        "note: the snapshot was written by an older gpuctl without storageClasses, csiNodes, attachments"
        in found.stderr
    )
    with pytest.raises(DamagedSnapshot, match="csiNodes is missing"):
        load(json.dumps({**value, "version": 2, "storageClasses": []}))


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({}, None),
        ({"pod-security.kubernetes.io/enforce": "privileged"}, None),
        ({"pod-security.kubernetes.io/warn": "restricted"}, None),
        ({"pod-security.kubernetes.io/enforce": "baseline"}, "hostNetwork: true"),
    ],
)
def test_pod_security_is_the_namespace_s(labels: dict[str, str], said: str | None) -> None:
    have = cluster([node("a")], namespaces=[{"name": "team", "labels": labels}, {"name": "other", "labels": labels}])
    found = answer(have, job(hostNetwork=True))
    assert (found.verdict, found.starts) == (("never", 0) if said else ("fits", 1))
    assert (said or "") in found.reason


def many(number: int) -> list[Object]:
    """Jobs of a pod each; of some the memory is eight times that of others."""
    return [job(f"j{index}", gpus=0, amounts={"cpu": "1", "memory": f"{1 + index % 8}Gi"}) for index in range(number)]


def roomy(number: int) -> list[Object]:
    """Large nodes, none like another."""
    return [node(f"n{index}", allocatable={"pods": "110", "cpu": "200", "memory": "2Ti"}) for index in range(number)]


def test_many_jobs_fit_wherever_each_of_them_goes() -> None:
    """Small pods beside large ones: what is scarce for one is not for another."""
    snapshot = cluster(roomy(3), [running(f"p{index}", f"n{index}", 0, 10) for index in range(3)])
    assert {found.verdict for found in fit(snapshot, many(200))} == {"fits"}


def test_ports_are_scarce_though_nothing_else_is() -> None:
    """Three nodes have three of them, whatever else they have."""
    jobs = many(12)
    for item in jobs[8:]:
        item["spec"]["template"]["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    snapshot = cluster(roomy(3), [running(f"p{index}", f"n{index}", 0, 10) for index in range(3)])
    *_, third, last = fit(snapshot, jobs)
    assert [third.verdict, last.verdict] == ["fits", "fits-when-empty"]
    for found in (third, last):
        assert not found.certain
        assert found.depends


@pytest.mark.parametrize(("nodes", "looked_at"), [(4, 16), (5, 2)])
def test_of_few_nodes_any_may_be_left_already(nodes: int, looked_at: int) -> None:
    """Of more, only what all of them and what none of them has left is looked at."""
    state = dataclasses.replace(initial_state([], False), leaving=dict.fromkeys(range(nodes), ()))
    assert len(set(_departures(state))) == looked_at


def test_who_keeps_others_off_leaves_with_that() -> None:
    """What is in the way on one node may be a pod on another, or the victim itself."""
    term = {"labelSelector": {"matchLabels": {"app": "train"}}, "topologyKey": "zone"}
    snapshot = cluster([node("a"), node("b", gpus=0)], [running("x", "a", 8, 0, antiAffinity=[term])])
    found = answer(snapshot, job(gpus=8))
    assert (found.verdict, [victim.pod.name for victim in found.victims]) == ("preempts", ["x"])


def test_labels_of_namespaces_in_the_documents_count() -> None:
    label = {"pod-security.kubernetes.io/enforce": "baseline"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": label}}
    assert answer(cluster([node("a")]), namespace, job(hostNetwork=True)).verdict == "never"


def test_a_job_that_is_refused_evicts_nobody_and_takes_no_room() -> None:
    """Also where it would fit, and comes first."""
    limit = {"namespace": "team", "name": "small", "limits": [{"type": "Container", "max": {GPU: "4"}}]}
    have = cluster([node("a")], [running("x", "a", 8, 0)], limit_ranges=[limit])
    first, second = fit(have, [job(gpus=8, priority="high"), job("other", gpus=4)])
    assert (first.verdict, first.victims, first.change) == ("never", [], None)
    assert first.reason == (
        "LimitRange small requires at most 4 nvidia.com/gpu per Container, and the limit is 8 (container main)"
    )
    assert second.verdict == "preempts"


@pytest.mark.parametrize(
    ("claim", "verdict", "said"),
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
def test_claims_that_are_not_ready(claim: Object, verdict: str, said: str) -> None:
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
    assert (found.verdict, found.reason) == (verdict, said)


def test_replaced_pods_give_back_what_scoped_quotas_count() -> None:
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


def test_snapshot_survives_its_file() -> None:
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
            lambda text: text.replace('"version": 4', '"version": 5'),
            "c.json has version 5; this gpuctl reads versions 1 to 4",
        ),
        (
            lambda text: text.replace('"cpu": "32"', '"cpu": "many"'),
            "nodes[0].allocatable.cpu: 'many' is not a quantity",
        ),
        (lambda text: text.replace('"priority": 0', '"priority": "0"'), "pods[0].priority is not a whole number"),
        (lambda text: text.replace('"namespace": "team", ', ""), "pods[0].namespace is missing"),
        (lambda text: text.replace('"takenAt"', '"x"'), "takenAt is missing"),
        (lambda text: text.replace('"budgets": []', '"budgets": {}'), "budgets is not a list"),
    ],
)
def test_damaged_snapshot_says_where(change: Callable[[str], str], message: str) -> None:
    text = render(cluster([node("a")], [running("x", "a")]))
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


def words(directory: Path, *more: str, have: Snapshot | None = None, document: str = DOCUMENT) -> list[str]:
    """Return the words of ``gpuctl fit`` with a document, and a snapshot if there is one."""
    (directory / "job.yaml").write_text(document)
    (directory / "cluster.json").write_text(render(have) if have else "{}")
    return ["fit", "-f", str(directory / "job.yaml"), "--snapshot", str(directory / "cluster.json"), *more]


def run(directory: Path, *more: str, have: Snapshot | None = None) -> Result:
    """Run ``gpuctl fit`` with a document, and a snapshot if there is one."""
    # Never the command by itself: click would keep its help without the group's `-h`.
    return CliRunner().invoke(cli, words(directory, *more, have=have), standalone_mode=False)


@pytest.mark.parametrize(
    ("gpus", "pods", "code", "verdict"),
    [(2, [], 0, "fits"), (2, [running("x", "a", 2)], 0, "preempts"), (1, [], 1, "never"), (None, [], 2, "unknown")],
)
def test_command_tells_by_its_exit_code(
    tmp_path: Path, gpus: int | None, pods: list[Object], code: int, verdict: str
) -> None:
    have = node("a", gpus or 0)
    if gpus is None:
        del have["allocatable"][GPU]
    result = run(tmp_path, "-o", "json", have=cluster([have], pods))
    assert result.return_value == code, result.output
    (found,) = json.loads(result.stdout)["jobs"]
    assert (found["name"], found["namespace"], found["verdict"]) == ("train", "team", verdict)


def test_command_names_whom_it_would_evict(tmp_path: Path) -> None:
    result = run(tmp_path, have=cluster([node("a", 2)], [running("x", "a", 2)]))
    assert "job.batch/train -n team: fits by evicting other pods (1 pod of" in result.stdout
    assert "  evicts: pod x -n team on a (priority 0)" in result.stdout


def test_command_says_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    result = run(tmp_path, "--json")
    assert isinstance(result.exception, ClusterFailure)
    assert result.exception.exit_code == 3
    assert json.loads(result.stdout) == {
        "jobs": [],
        "error": f"{tmp_path / 'cluster.json'} is not a snapshot: its `kind` is not ClusterSnapshot",
    }


def test_command_takes_a_snapshot_or_a_cluster(tmp_path: Path) -> None:
    result = run(tmp_path, "--context", "prod")
    assert isinstance(result.exception, UsageError)


def test_command_refuses_wrong_documents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main.run(words(tmp_path, have=cluster([node("a")]), document=DOCUMENT.replace("gpu: 2", "gpu: x")))
    printed = capsys.readouterr()
    assert (code, printed.out) == (2, "")
    assert "job.yaml:5" in printed.err


def test_holders_of_room_are_the_jobs_before_it() -> None:
    first, second = fit(cluster([node("a")]), [job("train", gpus=6, priority="high"), job("other", gpus=4)])
    assert (first.verdict, second.verdict) == ("fits", "fits-when-empty")
    assert [(item["job"], item["nvidia.com/gpu"]) for item in fit_job(second).as_json()["heldBy"]] == [("Job/train", 6)]


@pytest.mark.parametrize(("gpus", "code", "verdict"), [(8, 0, "fits"), (16, 1, "never")])
def test_nodes_know_better_than_documents(
    tmp_path: Path, gpus: int, code: int, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pool = "kind: pool\nversion: v0.1\npool: {name: a}\nnodes: {n1: {gpu-type: T4, gpu-count: 4}}\n---\n"
    wanted = pool + DOCUMENT.replace("pool: default, gpu: 2", f"pool: a, gpu: {gpus}")
    ended = main.run(words(tmp_path, "-o", "json", have=cluster([node("n1", 8)]), document=wanted))
    printed = capsys.readouterr()
    assert [item["verdict"] for item in json.loads(printed.out)["jobs"]] == [verdict]
    assert (ended, "warning[GPU403]" in printed.err) == (code, True)


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
def test_room_that_a_pod_that_waits_may_take(pod: Object, verdict: str) -> None:
    found = answer(cluster([node("a")], [running("x", "a", 8, 0), pod]), job(gpus=8, priority="high"))
    assert found.verdict == verdict
    assert [victim.pod.name for victim in found.victims] == ["x"]


def test_pods_that_end_already_are_nobody_s_victims() -> None:
    found = answer(cluster([node("a")], [running("x", "a", 8, 0, deleting=True)]), job(gpus=8, priority="high"))
    assert (found.verdict, found.victims, found.starts) == ("fits-when-empty", [], 0)
    assert found.reason == "it waits for pods that are terminating"


def test_a_promise_to_its_own_pod_is_no_obstacle() -> None:
    own = {**waiting("train-x", 8, 100), "nominatedNode": "a", "owner": {"kind": "Job", "name": "train"}}
    assert answer(cluster([node("a")], [own]), job(gpus=8, priority="high")).verdict == "fits"


def test_which_pods_that_wait_are_seen() -> None:
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
def test_labels_that_are_compared_as_numbers(operator: str, value: str | None, found: bool) -> None:
    labels = {} if value is None else {"cards": value}
    assert requirement_matches({"key": "cards", "operator": operator, "values": ["4"]}, labels) is found


def test_nodes_that_one_rule_excludes_are_counted() -> None:
    closed = [node(name, unschedulable=True) for name in "abc"]
    found = answer(cluster([*closed, node("d", gpus=0)]), job())
    assert found.verdict == "never"
    assert "3 excluded by " in found.reason
    assert "1 excluded by " in found.reason


def test_what_is_kept_of_a_kind_that_was_added() -> None:
    versions = [{"name": "v1", "served": True}, {"name": "v1alpha1", "served": False}]
    crd = {"metadata": {"name": "jobsets.jobset.x-k8s.io"}, "spec": {"names": {"kind": "JobSet"}, "versions": versions}}
    assert custom_resource_entry(crd) == {"name": "jobsets.jobset.x-k8s.io", "kind": "JobSet", "versions": ["v1"]}


def test_volumes_that_a_driver_attaches() -> None:
    """Those of CSI drivers alone, of claims that are bound; a claim of another namespace is another one."""
    claims = [
        {"namespace": "team", "name": name, "volume": volume}
        for name, volume in (("data", "v1"), ("nfs", "v2"), ("new", ""))
    ]
    volumes = [{"name": "v1", "driver": "csi.example.com", "handle": "h1"}, {"name": "v2"}]
    snapshot = cluster([], claims=claims, volumes=volumes)
    names = ["data", "nfs", "new", "absent"]
    assert csi_volumes(names, "team", snapshot) == {("csi.example.com", "h1")}
    assert csi_volumes(names, "other", snapshot) == frozenset()


DEVICES: Object = {
    "device_classes": [{"name": "gpu.example.com", "extendedResource": GPU}],
    "resource_slices": [{"driver": "gpu.example.com", "devices": 8}],
}
OF_DEVICES = (
    f"nodes may have more {GPU} than they report: the DeviceClass gpu.example.com offers it from ResourceSlices, whose "
    "devices gpuctl does not count"
)


@pytest.mark.parametrize(
    ("gpus", "others", "more", "verdict"),
    [
        (4, [], DEVICES, "unknown"),
        (2, [running("x", "a", 2, 100)], DEVICES, "unknown"),
        (2, [], DEVICES, "fits"),
        (2, [running("x", "a", 2)], DEVICES, "preempts"),
        (4, [], {**DEVICES, "device_classes": [{"name": "tpu", "extendedResource": "example.com/tpu"}]}, "never"),
        (4, [], {**DEVICES, "resource_slices": []}, "never"),
        (4, [], {**DEVICES, "resource_slices": [], "unreadable": ["resourceSlices"]}, "unknown"),
        (4, [], {"unreadable": ["deviceClasses"]}, "unknown"),
        (2, [], {"unreadable": ["deviceClasses"]}, "fits"),
    ],
    ids=[
        "too-few",
        "taken",
        "fits",
        "evicts",
        "other-class",
        "no-devices",
        "slices-unread",
        "classes-unread",
        "unread",
    ],
)
def test_devices_of_resource_slices_are_not_counted(
    gpus: int, others: list[Object], more: Object, verdict: str
) -> None:
    """What would not fit may fit on devices; what fits does, and whoever may be evicted is told."""
    found = answer(cluster([node("a", 2), node("dra", 0)], others, **more), job(gpus=gpus))
    assert found.verdict == verdict
    if verdict == "unknown":
        assert found.reason in (OF_DEVICES, (f"it is unknown whether nodes have more {GPU} than they report: "
                                "DeviceClasses could not be read"))  # fmt: skip
    if verdict == "preempts":
        assert (found.certain, len(found.victims), OF_DEVICES in found.reason) == (False, 1, True)


@pytest.mark.parametrize("more", [DEVICES, {"unreadable": ["deviceClasses"]}], ids=["devices", "unread"])
def test_devices_change_nothing_where_something_else_is_missing(more: Object) -> None:
    """Labels, taints, cpu or memory that no node has: the job never fits, whatever devices there are."""
    taint = {"key": "a", "effect": "NoSchedule"}
    nodes = [
        node("a", 2),
        node("dra", 0),
        node("large", 0, taints=[taint], allocatable={"cpu": "512", "memory": "8Ti"}),
    ]
    for asked in ({"cpu": "256"}, {"memory": "4Ti"}):
        assert answer(cluster(nodes, **more), job(gpus=4, amounts=asked)).verdict == "never"
    found = answer(cluster(nodes, **more), job(gpus=4, nodeSelector={"gpu-type": "h100"}))
    assert found.verdict == "never"
    assert "excluded by node-selector" in found.reason
    assert answer(cluster(nodes, **more), job(gpus=4)).verdict == "unknown"


def test_a_snapshot_of_an_older_gpuctl_knows_no_device_classes() -> None:
    value = json.loads(render(cluster([node("a", 2)])))
    del value["deviceClasses"], value["resourceSlices"]
    older = load(json.dumps({**value, "version": 3}))
    assert older.missing == ["deviceClasses", "resourceSlices"]
    assert answer(older, job(gpus=2)).verdict == "fits"
    found = answer(older, job(gpus=4))
    assert (found.verdict, found.reason) == (
        "unknown",
        f"it is unknown whether nodes have more {GPU} than they report: a snapshot of an older gpuctl has no DeviceClasses",
    )


def test_a_quota_keeps_out_what_devices_could_take() -> None:
    """A job that its quota never lets through never starts; one that waits for its quota waits."""
    hard, used = {f"requests.{GPU}": "3"}, {f"requests.{GPU}": "2"}
    quota = {"kind": "ResourceQuota", "metadata": {"namespace": "team", "name": "few"}}
    quotas = [{**quota, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}]
    have = cluster([node("a", 2), node("dra", 0)], quotas=quotas, **DEVICES)
    assert answer(have, job(gpus=4)).verdict == "never"
    assert answer(have, job(gpus=2)).verdict == "fits-when-empty"


def test_the_reason_of_never_is_not_a_quota_that_is_full_now() -> None:
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


def on_host_network(name: str, on: str, port: int = 29500) -> Object:
    return running(name, on, 1, 100, hostPorts=[{"ip": "0.0.0.0", "protocol": "TCP", "port": port}])


def with_port(pods: int, port: int = 29500) -> Object:
    """A training whose pods use the network of their nodes."""
    document = job(pods=pods, gpus=2, hostNetwork=True)
    container = document["spec"]["template"]["spec"]["containers"][0]
    container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    return document


def test_a_host_port_that_is_taken_is_the_reason() -> None:
    """Not the GPUs, of which there are enough."""
    nodes = [node(name) for name in "abc"]
    found = answer(cluster(nodes, [on_host_network("x", "a")]), with_port(3))
    assert (found.verdict, found.reason) == (
        "fits-when-empty",
        (
            "2 of 3 pods have room now: each needs the host port 29500, which is free on 2 of 3 nodes with room; "
            "`job.master_port` sets the rendezvous port of a training"
        ),
    )
    # Two pods of one job cannot share a node either.
    found = answer(cluster(nodes), with_port(4))
    assert found.verdict == "never"
    assert "each needs the host port 29500, which is free on 3 of 3 nodes with room; `job.master_port`" in found.reason
    # Where GPUs are short, they are the reason.
    full = [running(f"y{name}", name, 7, 100) for name in "abc"]
    assert "host port" not in answer(cluster(nodes, [on_host_network("x", "a"), *full]), with_port(2)).reason
    assert answer(cluster(nodes, [on_host_network("x", "a", 29600)]), with_port(3)).verdict == "fits"


def test_a_queue_without_kueue() -> None:
    queued = job()
    queued["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    found = answer(cluster([node("a")]), queued)
    assert (found.verdict, found.reason) == (
        "fits",
        "Kueue is not installed: queue research has no effect, and the pods are not started together",
    )
    assert answer(cluster([node("a")]), job()).reason == ""
    # An older snapshot may not tell.
    older = dataclasses.replace(cluster([node("a")]), missing=["jobs"])
    assert "no Kueue" not in answer(older, queued).reason

"""``fit`` of jobs that have room for only some of their pods, and of nodes that are not ready yet."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.api.fit_answers import fit_job
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.cli.output.fit_lines import fit_lines
from support.fit_objects import CLASSES, GPU, apart, cluster, job, node, running, service_of

Object = dict[str, Any]
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def answer(nodes: list[Object], *jobs: Object, pods: list[Object] | None = None) -> Fit:
    """Return the answer for the first job."""
    found, *_ = fit(cluster(nodes, pods, priority_classes=CLASSES), jobs)
    return found


def test_partial_gang_reports_the_gpus_it_holds() -> None:
    nodes = [node(name) for name in "abcd"]
    found = answer(nodes, job(pods=4, gpus=8), pods=[running("other", "d", 1, 200)])
    assert (found.verdict, found.starts) == ("fits-when-empty", 3)
    value = fit_job(found).as_json()
    assert (value["startingPods"], value["heldByStartingPods"]) == (3, {GPU: 24})
    line = "  partly: 3 of 4 would start and hold 24 nvidia.com/gpu while they wait for the others"
    assert line in list(fit_lines(fit_job(found)))


def test_partial_gang_that_never_starts_reports_held_gpus() -> None:
    found = answer([node("a")], job(pods=2, gpus=8))
    assert (found.verdict, found.starts, found.held) == ("never", 1, {GPU: 8})


@pytest.mark.parametrize("obj", [job(pods=2, gpus=4), job(pods=1, gpus=9), service_of(5, replicas=2)])
def test_complete_or_unstarted_jobs_hold_no_idle_gpus(obj: Object) -> None:
    """All pods start, or none, or each pod of a service is useful by itself."""
    assert answer([node("a")], obj).held == {}


@pytest.mark.parametrize(
    "key",
    [
        "node.kubernetes.io/not-ready",
        "node.cloudprovider.kubernetes.io/uninitialized",
        "ebs.csi.aws.com/agent-not-ready",
    ],
)
def test_not_ready_node_may_fit_later(key: str) -> None:
    found = answer([node("a", taints=[{"key": key, "effect": "NoSchedule"}])], job())
    assert found.verdict == "fits-when-empty"
    assert found.reason == f"node a is not ready yet (taint {key})"
    assert found.change is None


def test_only_useful_not_ready_nodes_are_named() -> None:
    small, first, second = (node(*size, taints=[NOT_READY]) for size in (("small", 1), ("first", 8), ("second", 8)))
    elsewhere = node("elsewhere", taints=[NOT_READY], labels={"zone": "b"})
    found = answer([small, first, second, elsewhere], job(pods=2, gpus=8, nodeSelector={"zone": "a"}))
    assert found.reason == "node first is not ready yet (taint node.kubernetes.io/not-ready), nor is second"
    assert answer([small, elsewhere], job(gpus=2, nodeSelector={"zone": "a"})).verdict == "never"


def test_not_ready_node_helps_jobs_with_topology_rules() -> None:
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "train"}},
        }
    ]
    nodes = [node("a"), node("b", taints=[NOT_READY])]
    for spec in ({"topologySpreadConstraints": spread}, {"affinity": apart(by="kubernetes.io/hostname")}):
        found = answer(nodes, job(pods=2, gpus=8, **spec))
        assert found.reason == "node b is not ready yet (taint node.kubernetes.io/not-ready)"


def test_not_ready_node_with_another_taint_fits_a_job_that_tolerates_it() -> None:
    nodes = [node("a", taints=[NOT_READY, {"key": "team", "effect": "NoSchedule"}])]
    assert answer(nodes, job()).verdict == "never"
    found = answer(nodes, job(tolerations=[{"key": "team", "operator": "Exists"}]))
    assert (found.verdict, found.reason) == (
        "fits-when-empty",
        "node a is not ready yet (taint node.kubernetes.io/not-ready)",
    )


@pytest.mark.parametrize(
    ("name", "has", "wants", "verdict"),
    [
        ("nvidia.com/mig-1g.10gb", "7", "7", "fits"),
        ("nvidia.com/mig-1g.10gb", "7", "8", "never"),
        ("nvidia.com/gpu.shared", "4", "4", "fits"),
        ("volcano.sh/vgpu-number", "4", "5", "never"),
    ],
)
def test_fractional_gpus_that_nodes_report_are_counted(name: str, has: str, wants: str, verdict: str) -> None:
    assert answer([node("a", allocatable={name: has})], job(gpus=0, amounts={name: wants})).verdict == verdict


@pytest.mark.parametrize(
    ("name", "whose"),
    [("nvidia.com/gpumem", "HAMi"), ("nvidia.com/gpucores", "HAMi"), ("volcano.sh/vgpu-memory", "Volcano")],
)
def test_fractional_gpus_of_another_scheduler_are_unknown(name: str, whose: str) -> None:
    found = answer([node("a")], job(amounts={name: "1"}))
    reason = f"no node reports {name} as allocatable: the scheduler of {whose} allocates it"
    assert (found.verdict, found.reason) == ("unknown", reason)

"""What a ClusterQueue may still use, as Kueue counts it: ``pkg/cache/scheduler/resource_node_test.go`` has such cases."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from gpuctl.capacity.cohorts import FlavorResource, cluster_queue, cohort_tree, requested_amounts

GPU = "nvidia.com/gpu"
SLOT = FlavorResource("a100", GPU)


def queue(name: str, nominal: int, used: int = 0, cohort: str = "", **limits: int) -> dict[str, Any]:
    """A ClusterQueue of one flavor; ``lending`` and ``borrowing`` are its limits."""
    resource = {"name": GPU, "nominalQuota": nominal, **{f"{kind}Limit": value for kind, value in limits.items()}}
    flavors = [{"name": "a100", "resources": [resource]}]
    spec = {
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
        **({"cohortName": cohort} if cohort else {}),
    }
    status = {"flavorsReservation": [{"name": "a100", "resources": [{"name": GPU, "total": used}]}]}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def cohort(name: str, parent: str = "", nominal: int | None = None, **limits: int) -> dict[str, Any]:
    """A Cohort, perhaps with quota of its own."""
    spec: dict[str, Any] = {"parentName": parent} if parent else {}
    if nominal is not None:
        spec["resourceGroups"] = queue("", nominal, **limits)["spec"]["resourceGroups"]
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("queues", "cohorts", "available", "potential"),
    [
        ([queue("q", 4, 3)], [], 1, 4),
        ([queue("q", 4, 6)], [], -2, 4),
        # All that the others leave, unless they keep it or may not be lent.
        ([queue("q", 1, 1, "lab"), queue("r", 3, 1, "lab")], [], 2, 4),
        ([queue("q", 1, 1, "lab"), queue("r", 3, 1, "lab", lending=1)], [], 1, 2),
        ([queue("q", 1, 1, "lab", borrowing=1), queue("r", 3, 0, "lab")], [], 1, 2),
        ([queue("q", 4, 0, "lab"), queue("r", 0, 3, "lab")], [], 1, 4),
        # What is never lent is there whatever others use.
        ([queue("q", 4, 0, "lab", lending=1), queue("r", 0, 1, "lab")], [], 3, 4),
        ([queue("q", 0, 0, "lab")], [cohort("lab", nominal=5)], 5, 5),
        ([queue("q", 1, 0, "lab"), queue("r", 2, 0, "site")], [cohort("lab", "site"), cohort("site")], 3, 3),
        (
            [queue("q", 1, 0, "lab"), queue("r", 2, 0, "site")],
            [cohort("lab", "site", nominal=0, borrowing=1), cohort("site")],
            2,
            2,
        ),
        # A circle lends nothing beyond itself.
        ([queue("q", 1, 0, "lab")], [cohort("lab", "site"), cohort("site", "lab")], 1, 1),
    ],
)
def test_what_is_free(queues: list[Any], cohorts: list[Any], available: int, potential: int) -> None:
    node = cohort_tree("q", queues, cohorts)
    assert node is not None
    assert (node.available(SLOT), node.potential(SLOT)) == (available, potential)


def test_names_of_v1beta1() -> None:
    old = queue("q", 1, 1)
    old["spec"]["cohort"] = "lab"
    node = cohort_tree("q", [old, queue("r", 2, 0, "lab")], [])
    assert node is not None
    assert node.available(SLOT) == 2
    assert cluster_queue(old).available(SLOT) == 0
    assert cohort_tree("absent", [old], []) is None


def test_what_a_workload_asks_for() -> None:
    """Kueue's own sums where it has written them down, else those of the pods."""
    container = {"name": "main", "resources": {"requests": {GPU: "2", "cpu": "500m"}}}
    sets = [{"name": "node", "count": 3, "template": {"spec": {"containers": [container]}}}]
    workload: dict[str, Any] = {"spec": {"podSets": sets}}
    assert requested_amounts(workload) == {GPU: 6, "cpu": 1.5}
    workload["status"] = {"resourceRequests": [{"name": "node", "resources": {GPU: "6"}}]}
    assert requested_amounts(workload) == {GPU: 6}
    assignment = {"name": "node", "count": 2, "resourceUsage": {GPU: "4", "memory": "0"}}
    workload["status"] = {"admission": {"podSetAssignments": [assignment]}}
    assert requested_amounts(workload) == {GPU: 4}
    # Partly admitted: 1 of 3 pods has ended, which leaves as many as have quota.
    workload["status"]["reclaimablePods"] = [{"name": "node", "count": 1}]
    assert requested_amounts(workload) == {GPU: 4}
    workload["status"]["reclaimablePods"] = [{"name": "node", "count": 2}]
    assert requested_amounts(workload) == {GPU: 2}
    del workload["status"]["admission"]
    assert requested_amounts(workload) == {GPU: 2, "cpu": 0.5}
    sets.append({**sets[0], "name": "none", "count": 0})
    workload["status"]["admission"] = {"podSetAssignments": [{"name": "none", "count": 0, "resourceUsage": {GPU: "0"}}]}
    assert requested_amounts(workload) == {GPU: 2, "cpu": 0.5}


def test_quota_in_whole_numbers() -> None:
    """Kueue rounds up, CPUs to thousandths."""
    half = queue("q", 0)
    half["spec"]["resourceGroups"][0]["flavors"][0]["resources"] = [
        {"name": GPU, "nominalQuota": "500m", "borrowingLimit": "1500m"},
        {"name": "cpu", "nominalQuota": "1500100u"},
    ]
    node = cluster_queue(half)
    assert [node.potential(SLOT), node.quota(SLOT).borrowing_limit] == [1, 2]
    assert node.potential(FlavorResource("a100", "cpu")) == Fraction(1501, 1000)

"""The available quota of a ClusterQueue, as Kueue computes it. The cases are like those of
``pkg/cache/scheduler/resource_node_test.go``.
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.capacity.kueue.cohorts import FlavorResource, requested_amounts
from gpuctl.capacity.kueue.queue_quota import live_quota_trees

GPU = "nvidia.com/gpu"
SLOT = FlavorResource("a100", GPU)


def queue(name: str, nominal: int, used: int = 0, cohort: str = "", **limits: int) -> dict[str, Any]:
    """Return a ClusterQueue with one flavor; ``lending`` and ``borrowing`` are its limits."""
    resource = {"name": GPU, "nominalQuota": nominal, **{f"{kind}Limit": value for kind, value in limits.items()}}
    flavors = [{"name": "a100", "resources": [resource]}]
    spec = {
        "resourceGroups": [{"coveredResources": [GPU], "flavors": flavors}],
        **({"cohortName": cohort} if cohort else {}),
    }
    status = {"flavorsReservation": [{"name": "a100", "resources": [{"name": GPU, "total": used}]}]}
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def cohort(name: str, parent: str = "", nominal: int | None = None, **limits: int) -> dict[str, Any]:
    """Return a Cohort; with ``nominal``, it has its own quota."""
    spec: dict[str, Any] = {"parentName": parent} if parent else {}
    if nominal is not None:
        spec["resourceGroups"] = queue("", nominal, **limits)["spec"]["resourceGroups"]
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("queues", "cohorts", "available", "potential"),
    [
        ([queue("q", 4, 3)], [], 1, 4),
        ([queue("q", 4, 6)], [], -2, 4),
        # Unused quota of the other queues, unless a lending or borrowing limit excludes it.
        ([queue("q", 1, 1, "lab"), queue("r", 3, 1, "lab")], [], 2, 4),
        ([queue("q", 1, 1, "lab"), queue("r", 3, 1, "lab", lending=1)], [], 1, 2),
        ([queue("q", 1, 1, "lab", borrowing=1), queue("r", 3, 0, "lab")], [], 1, 2),
        ([queue("q", 4, 0, "lab"), queue("r", 0, 3, "lab")], [], 1, 4),
        # Quota that is never lent is available whatever others use.
        ([queue("q", 4, 0, "lab", lending=1), queue("r", 0, 1, "lab")], [], 3, 4),
        ([queue("q", 0, 0, "lab")], [cohort("lab", nominal=5)], 5, 5),
        ([queue("q", 1, 0, "lab"), queue("r", 2, 0, "site")], [cohort("lab", "site"), cohort("site")], 3, 3),
        (
            [queue("q", 1, 0, "lab"), queue("r", 2, 0, "site")],
            [cohort("lab", "site", nominal=0, borrowing=1), cohort("site")],
            2,
            2,
        ),
        # Cohorts in a cycle lend nothing.
        ([queue("q", 1, 0, "lab")], [cohort("lab", "site"), cohort("site", "lab")], 1, 1),
    ],
)
def test_available_and_potential_quota(queues: list[Any], cohorts: list[Any], available: int, potential: int) -> None:
    node = live_quota_trees(queues, cohorts)["q"]
    assert (node.available(SLOT), node.potential(SLOT)) == (available, potential)


def test_v1beta1_cohort_field_is_read() -> None:
    old = queue("q", 1, 1)
    old["spec"]["cohort"] = "lab"
    assert live_quota_trees([old, queue("r", 2, 0, "lab")], [])["q"].available(SLOT) == 2
    assert live_quota_trees([old], [])["q"].available(SLOT) == 0


def test_requested_amounts_of_a_workload() -> None:
    """Kueue's own sums from the status if present, else those of the pods."""
    container = {"name": "main", "resources": {"requests": {GPU: "2", "cpu": "500m"}}}
    sets = [{"name": "node", "count": 3, "template": {"spec": {"containers": [container]}}}]
    workload: dict[str, Any] = {"spec": {"podSets": sets}}
    assert requested_amounts(workload) == {GPU: 6, "cpu": 1.5}
    workload["status"] = {"resourceRequests": [{"name": "node", "resources": {GPU: "6"}}]}
    assert requested_amounts(workload) == {GPU: 6}
    assignment = {"name": "node", "count": 2, "resourceUsage": {GPU: "4", "memory": "0"}}
    workload["status"] = {"admission": {"podSetAssignments": [assignment]}}
    assert requested_amounts(workload) == {GPU: 4}
    # Partially admitted: 1 of 3 pods is reclaimable, which leaves as many pods as have quota.
    workload["status"]["reclaimablePods"] = [{"name": "node", "count": 1}]
    assert requested_amounts(workload) == {GPU: 4}
    workload["status"]["reclaimablePods"] = [{"name": "node", "count": 2}]
    assert requested_amounts(workload) == {GPU: 2}
    del workload["status"]["admission"]
    assert requested_amounts(workload) == {GPU: 2, "cpu": 0.5}
    sets.append({**sets[0], "name": "none", "count": 0})
    workload["status"]["admission"] = {"podSetAssignments": [{"name": "none", "count": 0, "resourceUsage": {GPU: "0"}}]}
    assert requested_amounts(workload) == {GPU: 2, "cpu": 0.5}


def test_quota_is_rounded_up_like_kueue() -> None:
    """CPUs are rounded up to thousandths."""
    half = queue("q", 0)
    half["spec"]["resourceGroups"][0]["flavors"][0]["resources"] = [
        {"name": GPU, "nominalQuota": "500m", "borrowingLimit": "1500m"},
        {"name": "cpu", "nominalQuota": "1500100u"},
    ]
    node = live_quota_trees([half], [])["q"]
    assert [node.potential(SLOT), node.own[SLOT].borrowing_limit] == [1, 2]
    assert node.potential(FlavorResource("a100", "cpu")) == 1501

"""Requests that Kueue counts for waiting workloads, and which evicted workloads are requeued."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gpuctl.capacity.fit.waiting_fit import fit_waiting
from gpuctl.capacity.kueue.cohorts import requested_amounts
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
from support.queue_cases import flavor, job, judged, queue, snapshot, verdict, workload, world
from support.queue_worlds import GPU

Object = dict[str, Any]

OLD, LATER = "2025-01-01T00:00:00Z", "2025-06-01T00:00:00Z"
WAITS, NEVER, FITS = ("fits-when-empty", True), ("never", True), ("fits", True)


def with_cpu(nominal: int, **spec: Any) -> tuple[Object, Object]:
    """A ClusterQueue of 4 GPUs that also covers cpu."""
    found = queue("team", 4, **spec)
    group = found[0]["spec"]["resourceGroups"][0]
    group["coveredResources"].append("cpu")
    group["flavors"][0]["resources"].append({"name": "cpu", "nominalQuota": nominal})
    return found


def spec_of(item: Object) -> Object:
    found: Object = item["spec"]["podSets"][0]["template"]["spec"]
    return found


def cpu_job(cpu: int) -> Object:
    found = job("new", "team", 1)
    found["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    return found


def waiting(have: Snapshot) -> dict[str, tuple[str, bool]]:
    return {answer.demand.name: (answer.verdict, answer.certain) for answer in fit_waiting(have)}


def job_set(name: str, *gpus: int) -> Object:
    """A JobSet with one role per number of GPUs."""
    labels = {"kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/priority-class": "queue-low"}
    roles = [
        {"name": f"r{index}", "replicas": 1, "template": {"spec": job("x", "team", count)["spec"]}}
        for index, count in enumerate(gpus)
    ]
    metadata = {"name": name, "namespace": "team", "labels": labels}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": roles},
    }


def test_limit_range_defaults_count() -> None:
    """A Workload's spec does not contain them: Kueue adds them to a copy."""
    ranges = [{"namespace": "team", "limits": [{"type": "Container", "defaultRequest": {"cpu": "5"}}]}]
    queues = world(with_cpu(4, queueingStrategy="StrictFIFO"))
    plain = snapshot(queues, workload("old", "team", 1, created=OLD))
    have = replace(plain, limit_ranges=ranges)
    assert verdict(plain, cpu_job(1)) == FITS
    assert verdict(have, cpu_job(1)) == WAITS
    assert waiting(have) == {"old": NEVER}


def test_limit_range_default_applies_to_each_container() -> None:
    ranges = [{"namespace": "team", "limits": [{"type": "Container", "defaultRequest": {"cpu": "3"}}]}]
    old = workload("old", "team", 1, created=OLD)
    containers = spec_of(old)["containers"]
    containers[0]["resources"]["requests"]["cpu"] = 1
    containers.append({"name": "side", "image": "none"})
    for nominal, expected in ((3, NEVER), (4, FITS)):
        have = replace(snapshot(world(with_cpu(nominal)), old), limit_ranges=ranges)
        assert waiting(have) == {"old": expected}


def test_runtime_class_overhead_counts() -> None:
    old = workload("old", "team", 1, created=OLD)
    spec_of(old)["runtimeClassName"] = "kata"
    runtimes = [{"name": "kata", "overhead": {"cpu": "5"}}]
    have = replace(snapshot(world(with_cpu(4, queueingStrategy="StrictFIFO")), old), runtime_classes=runtimes)
    assert verdict(have, cpu_job(4)) == WAITS
    assert waiting(have) == {"old": NEVER}


def test_requests_in_the_workload_status_count() -> None:
    old = workload("old", "team", 1, created=OLD)
    old["status"]["resourceRequests"] = [{"name": "main", "resources": {GPU: "1", "cpu": "6"}}]
    assert waiting(snapshot(world(with_cpu(5)), old)) == {"old": NEVER}
    assert waiting(snapshot(world(with_cpu(6)), old)) == {"old": FITS}


def test_reclaimable_pods_are_not_requested_again() -> None:
    old = workload("old", "team", 1, created=OLD)
    old["spec"]["podSets"][0]["count"] = 4
    old["status"]["reclaimablePods"] = [{"name": "main", "count": 3}]
    strict = snapshot(world(queue("team", 2, queueingStrategy="StrictFIFO")), old)
    assert waiting(strict) == {"old": FITS}
    assert verdict(strict, job("new", "team", 1)) == FITS
    assert verdict(strict, job("new", "team", 2)) == WAITS
    assert requested_amounts(old) == {GPU: 1}


def test_partially_admitted_workload_keeps_its_admitted_pod_count() -> None:
    """Admitted with 3 of 5 pods, of which one has ended: 4 pods remain, and the workload keeps its quota for 3."""
    old = workload("old", "team", 3, since=OLD)
    old["spec"]["podSets"][0].update(count=5, minCount=2)
    old["status"]["admission"]["podSetAssignments"][0]["count"] = 3
    for ended, expected in ((1, WAITS), (3, FITS)):
        old["status"]["reclaimablePods"] = [{"name": "main", "count": ended}]
        assert verdict(snapshot(world(queue("team", 4)), old), job("new", "team", 2)) == expected


def test_zero_request_needs_no_quota() -> None:
    """No resource group of the ClusterQueue covers cpu."""
    have = snapshot(world(queue("team", 4)))
    assert verdict(have, cpu_job(1)) == NEVER
    assert verdict(have, cpu_job(0)) == FITS
    old = workload("old", "team", 1, created=OLD)
    spec_of(old)["containers"][0]["resources"]["requests"]["cpu"] = "0"
    strict = snapshot(world(queue("team", 4, queueingStrategy="StrictFIFO")), old)
    assert verdict(strict, job("new", "team", 1)) == FITS
    assert requested_amounts(old) == {GPU: 1}


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize(
    ("reason", "active", "expected"),
    [
        ("Preempted", True, WAITS),
        ("NodeFailures", True, WAITS),
        ("Deactivated", False, FITS),
        ("Preempted", False, FITS),
        ("PodsReadyTimeout", True, FITS),
        ("AdmissionCheck", True, FITS),
        ("LocalQueueStopped", True, FITS),
    ],
)
def test_eviction_reason_decides_whether_a_workload_is_requeued(
    strategy: str, reason: str, active: bool, expected: tuple[str, bool]
) -> None:
    old = workload("old", "team", 4, since=OLD)
    evicted = {"type": "Evicted", "status": "True", "reason": reason, "lastTransitionTime": LATER}
    old["status"]["conditions"].append(evicted)
    old["spec"]["active"] = active
    assert verdict(snapshot(world(queue("team", 4, queueingStrategy=strategy)), old), job("new", "team", 4)) == expected


def test_inactive_deleted_and_drained_workloads_release_quota() -> None:
    """Their conditions do not show the eviction yet."""
    paused, deleted = (workload("old", "team", 4, since=OLD) for _ in range(2))
    paused["spec"]["active"] = False
    deleted["metadata"]["deletionTimestamp"] = LATER
    for old in (paused, deleted):
        assert verdict(snapshot(world(queue("team", 4)), old), job("new", "team", 4)) == FITS
    drained = world(queue("team", 4))
    drained.local_queues.append(
        {
            "metadata": {"name": "drained", "namespace": "team"},
            "spec": {"clusterQueue": "team", "stopPolicy": "HoldAndDrain"},
        }
    )
    old = workload("old", "drained", 4, since=OLD)
    old["status"]["admission"]["clusterQueue"] = "team"
    assert verdict(snapshot(drained, old), job("new", "team", 4)) == FITS


def test_snapshot_without_eviction_outcome_assumes_requeue() -> None:
    old = workload("old", "team", 4, since=OLD)
    evicted = {"type": "Evicted", "status": "True", "reason": "Deactivated", "lastTransitionTime": LATER}
    old["status"]["conditions"].append(evicted)
    have = snapshot(world(queue("team", 4)), old)
    assert have.kueue is not None
    for item in have.kueue["workloads"]:
        del item["leaves"]
    assert verdict(have, job("new", "team", 4)) == WAITS


def test_workload_that_kueue_has_not_tried_comes_first() -> None:
    old = workload("old", "team", 3, created=OLD)
    assert verdict(snapshot(world(queue("team", 4)), old), job("new", "team", 2)) == WAITS
    old["status"]["conditions"] = [{"type": "QuotaReserved", "status": "False", "message": "insufficient quota"}]
    assert verdict(snapshot(world(queue("team", 4)), old), job("new", "team", 2)) == FITS


def test_roles_that_do_not_fit_into_their_first_flavors_are_unknown() -> None:
    """Kueue tries other combinations of flavors in its next cycles."""
    amounts = {"a": {"nominalQuota": 4}, "b": {"nominalQuota": 3}}
    flavors = (flavor("a"), flavor("b"))
    have = snapshot(world(queue("team", amounts), flavors=flavors))
    assert verdict(have, job_set("set", 1, 3)) == FITS
    assert verdict(have, job_set("set", 1, 4)) == ("unknown", False)
    assert verdict(snapshot(world(queue("team", 4))), job_set("set", 1, 4)) == NEVER
    strict = world(queue("team", amounts, queueingStrategy="StrictFIFO"), flavors=flavors)
    old = workload("old", "team", 1, created=OLD)
    old["metadata"]["ownerReferences"][0].update(apiVersion="jobset.x-k8s.io/v1alpha2", kind="JobSet")
    roles = old["spec"]["podSets"]
    roles.append({**copy.deepcopy(roles[0]), "name": "second", "count": 4})
    assert not judged(snapshot(strict, old), job("new", "team", 2))["new"].certain


def test_topology_request_needs_a_flavor_with_a_topology() -> None:
    old = workload("old", "team", 4, created=OLD)
    old["spec"]["podSets"][0]["topologyRequest"] = {"required": "rack"}
    have = snapshot(world(queue("team", 4)), old)
    assert waiting(have) == {"old": ("unknown", False)}
    assert verdict(have, job("new", "team", 4))[0] == "fits"
    # Kueue also records the pod index label here: that is not a topology request.
    old["spec"]["podSets"][0]["topologyRequest"] = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
    assert waiting(snapshot(world(queue("team", 4)), old)) == {"old": FITS}


def test_job_set_has_the_first_named_priority_class() -> None:
    trial = world(queue("team", 4, preemption={"withinClusterQueue": "LowerPriority"}))
    have = snapshot(trial, workload("old", "team", 4, since=OLD, priority=100))
    have = replace(have, priority_classes=[{"name": "big", "value": 1000}])
    coming = job_set("set", 1, 1)
    del coming["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    assert verdict(have, coming) == WAITS
    roles = coming["spec"]["replicatedJobs"]
    roles[1]["template"]["spec"]["template"]["spec"]["priorityClassName"] = "big"
    assert verdict(have, coming)[0] == "preempts"


def test_ephemeral_volumes_need_a_storage_class() -> None:
    old = workload("old", "team", 1, created=OLD)
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    spec_of(old)["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}}]
    have = snapshot(world(queue("team", 4)), old)
    assert [answer.reason for answer in fit_waiting(have)] == [
        "ephemeral volume scratch is not bound to a known volume"
    ]
    classes = [{"name": "disks", "default": True, "provisioner": "disks.example.com", "mode": "WaitForFirstConsumer"}]
    assert [answer.reason for answer in fit_waiting(replace(have, storage_classes=classes))] != [
        "ephemeral volume scratch is not bound to a known volume"
    ]

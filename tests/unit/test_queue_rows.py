"""Rows of queues: without the right to read ClusterQueues, and from the service's reduced copies of Workloads."""

from __future__ import annotations

from typing import Any

from gpuctl.api.queue_answers import QueueDetail
from gpuctl.language.settings import Settings
from gpuctl.objects.hidden_names import HiddenName
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.nodes.node_gpus import PlatformGpus
from gpuctl.reading.queues.queue_position import KueueLists
from gpuctl.reading.queues.queue_rows import read_queues
from gpuctl_server.mirror.trimming import Trimmer

GPU = "nvidia.com/gpu"
KEYS = records(Settings())
Object = dict[str, Any]


def local(name: str, active: str = "True", **status: Any) -> Object:
    """A LocalQueue of the ClusterQueue ``shared``."""
    condition = {"type": "Active", "status": active, "message": "Can't submit new workloads to clusterQueue"}
    metadata = {"namespace": "team-a", "name": name}
    return {
        "kind": "LocalQueue",
        "metadata": metadata,
        "spec": {"clusterQueue": "shared"},
        "status": {"conditions": [condition], **status},
    }


def workload(name: str) -> Object:
    """A waiting Workload with what Kueue and users add to its pods."""
    container = {
        "name": "main",
        "image": "registry.example.com/x:v1",
        "env": [{"name": "TOKEN", "value": "x"}],
        "resources": {"requests": {GPU: "2", "cpu": "4"}},
    }
    spec = {"containers": [container], "nodeSelector": {"card": "a100"}, "overhead": {"cpu": "1"}}
    template = {"metadata": {"labels": {"app": name, KEYS.job_type: "training"}}, "spec": spec}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "namespace": "team-a",
            "name": f"job-{name}",
            "uid": name,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": name, "controller": True}],
        },
        "spec": {"queueName": "team", "priority": 3, "podSets": [{"name": "main", "count": 2, "template": template}]},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "no quota"}]},
    }


def test_queue_without_the_right_to_read_cluster_queues() -> None:
    """The row is named after the ClusterQueue, and has what its LocalQueues report."""
    used = [{"name": "a100", "resources": [{"name": GPU, "total": "3"}, {"name": "cpu", "total": "1500m"}]}]
    counts = {"pendingWorkloads": 1, "reservingWorkloads": 2, "admittedWorkloads": 1, "flavorsReservation": used}
    queues = [local("team", **counts), local("other", active="False")]
    [queue] = read_queues(KueueLists([workload("train")], queues, None, None), KEYS)
    found = QueueDetail.of(queue, PlatformGpus(Settings()), []).as_json()
    assert [found[key] for key in ("name", "status", "cohort", "resources", "createdAt")] == [
        "shared",
        "active",
        None,
        None,
        None,
    ]
    other, team = found["localQueues"]
    assert (other["status"], other["reason"]) == ("inactive", "Can't submit new workloads to clusterQueue")
    assert [other[f"{key}Workloads"] for key in ("pending", "reserving", "admitted")] == [None, None, None]
    assert [team[f"{key}Workloads"] for key in ("pending", "reserving", "admitted")] == [1, 2, 1]
    assert [(item["name"], item["flavor"], item["used"]) for item in team["resources"]] == [
        ("gpu", "a100", 3),
        ("cpu", "a100", 1.5),
    ]
    assert [(job["position"], job["name"], job["gpu"]) for job in found["waiting"]] == [(1, "train", 4)]


def test_queue_of_inactive_local_queues_is_inactive() -> None:
    [queue] = read_queues(KueueLists([], [local("team", active="False")], None, None), KEYS)
    assert (queue.row.status, queue.row.reason) == ("inactive", "Can't submit new workloads to clusterQueue")


def test_reduced_workloads_have_the_same_rows() -> None:
    """The service's copy of a Workload lacks what no row needs, such as environment variables."""
    whole = [workload("first"), workload("second")]
    trimmer = Trimmer()
    reduced = [trimmer.trim(item) for item in whole]
    assert "TOKEN" not in str(reduced)
    [one], [other] = (read_queues(KueueLists(lists, [local("team")], None, None), KEYS) for lists in (whole, reduced))
    assert one == other
    assert one.waiting[0].claim.amounts[GPU] == 4


def test_waiting_jobs_of_one_second_have_one_position() -> None:
    """`why` counts the jobs that are certainly ahead: both have to give the same position."""
    later = workload("third")
    later["metadata"]["creationTimestamp"] = "2026-01-01T00:00:01Z"
    [queue] = read_queues(KueueLists([later, workload("second"), workload("first")], [local("team")], None, None), KEYS)
    assert [(item.position, item.claim.name) for item in queue.waiting] == [
        (1, "training/second"),
        (1, "training/first"),
        (3, "training/third"),
    ]


def test_numbers_of_a_local_queue_with_hidden_jobs_are_unknown() -> None:
    """Kueue counts the jobs of all pools: a caller who sees the jobs of one pool must not learn of the others."""
    counts = {"pendingWorkloads": 2, "reservingWorkloads": 0, "admittedWorkloads": 0}
    hidden = workload("secret")
    hidden["metadata"]["name"] = HiddenName(1)
    lists = KueueLists([workload("train"), hidden], [local("team", **counts), local("other", **counts)], None, None)
    [queue] = read_queues(lists, KEYS)
    assert [(item.name, item.pending, item.reserving, item.admitted) for item in queue.row.local_queues] == [
        ("other", 2, 0, 0),
        ("team", None, None, None),
    ]

"""The jobs of a batch are judged together: each after those before it, and without those that were not created."""

from typing import Any

from gpuctl.apply.plan.batch_fit import BatchFit
from gpuctl.capacity.snapshot_document import Snapshot
from gpuctl.objects.api_resources import Key

GPU = "nvidia.com/gpu"


def job(name: str) -> dict[str, Any]:
    needs = {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x", "resources": needs}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"template": template},
    }


def key(name: str) -> Key:
    return Key("Job", "team-a", name)


class Cluster:
    """A node with two free GPUs, and how often it was read."""

    def __init__(self) -> None:
        self.reads = 0

    def take(self) -> Snapshot:
        self.reads += 1
        node = {"name": "n1", "labels": {}, "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", GPU: "2"}}
        return Snapshot("2026-01-01T00:00:00Z", [node], [])


def verdict(fits: BatchFit, cluster: Cluster, name: str) -> str:
    found = fits.answers({key(name)}, cluster.take)
    assert found is not None
    ((answer),) = found[1]
    return answer.verdict


def test_each_job_is_judged_after_those_before_it_and_the_cluster_is_read_once() -> None:
    cluster = Cluster()
    fits = BatchFit({number: [job(f"job-{number}")] for number in range(3)})
    assert [verdict(fits, cluster, f"job-{number}") for number in range(3)] == [
        "fits",
        "fits",
        "fits-when-empty",
    ]
    assert cluster.reads == 1


def test_an_entry_that_is_not_created_leaves_its_room_to_others() -> None:
    cluster = Cluster()
    fits = BatchFit({number: [job(f"job-{number}")] for number in range(3)})
    fits.leave_out(0)
    assert verdict(fits, cluster, "job-2") == "fits"


def test_a_job_that_is_in_no_entry_is_not_judged() -> None:
    cluster = Cluster()
    fits = BatchFit({0: [job("job-0")], 1: [job("job-0")]})
    assert fits.answers({key("job-1")}, cluster.take) is None
    fits.leave_out(1)
    assert verdict(fits, cluster, "job-0") == "fits"

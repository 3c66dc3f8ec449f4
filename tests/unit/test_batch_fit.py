"""The fit of the jobs of a batch: each job is judged after those before it; entries that are left out do not count."""

from typing import Any

from gpuctl.apply.plan.batch_fit import BatchFit
from gpuctl.capacity.snapshot.snapshot_document import Snapshot
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
    """A node with two free GPUs; `reads` counts its snapshots."""

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


def test_jobs_of_a_batch_are_judged_in_order_on_one_snapshot() -> None:
    cluster = Cluster()
    fits = BatchFit({number: [job(f"job-{number}")] for number in range(3)})
    assert [verdict(fits, cluster, f"job-{number}") for number in range(3)] == [
        "fits",
        "fits",
        "fits-when-empty",
    ]
    assert cluster.reads == 1


def test_left_out_entry_frees_its_capacity_for_later_jobs() -> None:
    cluster = Cluster()
    fits = BatchFit({number: [job(f"job-{number}")] for number in range(3)})
    fits.leave_out(0)
    assert verdict(fits, cluster, "job-2") == "fits"


def test_job_outside_the_batch_has_no_verdict() -> None:
    cluster = Cluster()
    fits = BatchFit({0: [job("job-0")], 1: [job("job-0")]})
    assert fits.answers({key("job-1")}, cluster.take) is None
    fits.leave_out(1)
    assert verdict(fits, cluster, "job-0") == "fits"

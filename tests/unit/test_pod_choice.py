"""The pod that `--pod` selects: by name, index or end of the name, for every kind of controller."""

from __future__ import annotations

import pytest

from gpuctl.kube.api_errors import NotThere
from gpuctl.language.settings import Settings
from gpuctl.objects.api_resources import Object
from gpuctl.objects.label_names import GROUP_INDEX, LEADER_WORKER_SET_NAME, WORKER_INDEX
from gpuctl.objects.ownership_metadata import records
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.pod_selection import NoPodRunning, running_pod, select_pods

JOB_NAME, INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"


def indexed(name: str, job: str, index: str) -> Object:
    """Return a pod as the Job controller labels it."""
    return {"metadata": {"name": name, "namespace": "ml", "labels": {JOB_NAME: job, INDEX: index}}}


def annotated(name: str, job: str, index: str) -> Object:
    """Return a pod indexed by annotation, as before Kubernetes 1.28."""
    return {"metadata": {"name": name, "labels": {JOB_NAME: job}, "annotations": {INDEX: index}}}


JOBSET = [indexed(f"two-node-0-{n}-abcd{n}", "two-node-0", str(n)) for n in range(12)]
INDEXED = [indexed(f"two-{n}-abcd{n}", "two", str(n)) for n in range(12)]
INDEXED_BY_ANNOTATION = [annotated(f"two-{n}-abcd{n}", "two", str(n)) for n in range(12)]
RETRIED = [
    indexed("two-node-0-0-aaaaa", "two-node-0", "0"),
    indexed("two-node-0-1-bbbbb", "two-node-0", "1"),
    indexed("two-node-0-1-ccccc", "two-node-0", "1"),
]


def member(replica: int, rank: int) -> Object:
    """Return a pod as LeaderWorkerSet labels it; its StatefulSet numbers leaders and workers."""
    name, number = (f"two-{replica}", replica) if rank == 0 else (f"two-{replica}-{rank}", rank)
    labels = {LEADER_WORKER_SET_NAME: "two", GROUP_INDEX: str(replica), WORKER_INDEX: str(rank)}
    return {"metadata": {"name": name, "labels": {**labels, "apps.kubernetes.io/pod-index": str(number)}}}


GROUPS = [member(replica, rank) for replica in range(2) for rank in range(3)]
STATEFUL = [{"metadata": {"name": f"two-{n}", "labels": {"apps.kubernetes.io/pod-index": str(n)}}} for n in range(12)]
DEPLOYED: list[Object] = [{"metadata": {"name": f"two-5d8f9c7b6d-{end}"}} for end in ("24567", "x7k2p")]
TWO_JOBS = [indexed("two-head-0-0-aaaaa", "two-head-0", "0"), indexed("two-node-0-0-bbbbb", "two-node-0", "0")]


def of_role(role: str, index: str) -> Object:
    """Return a pod of a training with roles."""
    made = indexed(f"two-{role}-0-{index}-ddddd", f"two-{role}-0", index)
    made["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = role
    env = [{"name": "GPUCTL_ROLE", "value": role}]
    return {**made, "spec": {"containers": [{"name": "main", "env": env}]}}


ROLES = [of_role("head", "0"), of_role("worker", "0"), of_role("worker", "1")]


@pytest.mark.parametrize(
    ("pods", "text", "found"),
    [
        pytest.param(JOBSET, "1", "two-node-0-1-abcd1", id="JobSet"),
        pytest.param(JOBSET, "11", "two-node-0-11-abcd11", id="JobSet, two digits"),
        pytest.param(JOBSET, "0", "two-node-0-0-abcd0", id="JobSet, the first"),
        pytest.param(JOBSET, "node-0-1", "two-node-0-1-abcd1", id="JobSet, without the random part"),
        pytest.param(JOBSET, "node-0-1-abcd1", "two-node-0-1-abcd1", id="JobSet, the prefix of logs"),
        pytest.param(JOBSET, "abcd1", "two-node-0-1-abcd1", id="JobSet, the random part"),
        pytest.param(JOBSET, "pod/two-node-0-1-abcd1", "two-node-0-1-abcd1", id="JobSet, the name"),
        pytest.param(INDEXED, "1", "two-1-abcd1", id="indexed Job"),
        pytest.param(INDEXED, "01", "two-1-abcd1", id="indexed Job, a leading zero"),
        pytest.param(INDEXED_BY_ANNOTATION, "11", "two-11-abcd11", id="indexed Job, annotation only"),
        pytest.param(RETRIED, "1", "two-node-0-1-ccccc", id="retried, the newest"),
        pytest.param(RETRIED, "node-0-1", "two-node-0-1-ccccc", id="retried, by the middle of the name"),
        pytest.param(RETRIED, "bbbbb", "two-node-0-1-bbbbb", id="retried, an older one by its name"),
        pytest.param(ROLES, "head", "two-head-0-0-ddddd", id="role of one node"),
        pytest.param(ROLES, "worker-1", "two-worker-0-1-ddddd", id="role and index"),
        pytest.param(STATEFUL, "11", "two-11", id="StatefulSet"),
        pytest.param(GROUPS, "1", "two-1", id="LeaderWorkerSet, the leader of a replica"),
        pytest.param(GROUPS, "0-2", "two-0-2", id="LeaderWorkerSet, a worker"),
        pytest.param(GROUPS[:3], "1", "two-0-1", id="LeaderWorkerSet of one replica, a worker by its rank"),
        pytest.param(DEPLOYED, "24567", "two-5d8f9c7b6d-24567", id="Deployment, a random part of digits"),
    ],
)
def test_pod_is_selected_by_index_or_name(pods: list[Object], text: str, found: str) -> None:
    job = Job(Identity("ml", "two", "training"), None, pods)
    assert [item["metadata"]["name"] for item in select_pods(job, text)] == [found]


@pytest.mark.parametrize(
    ("pods", "text", "message", "hint"),
    [
        (RETRIED[:2], "7", "training/two has no pod 7", "it has two-node-0-0-aaaaa, two-node-0-1-bbbbb"),
        (TWO_JOBS, "0", "training/two has several pods 0", "write one of two-head-0-0-aaaaa, two-node-0-0-bbbbb"),
        (DEPLOYED, "5d8f9c7b6d", "training/two has several pods 5d8f9c7b6d", "write one of "),
        (ROLES, "worker", "training/two has several pods worker", "write one of two-worker-0-0-ddddd, "),
        ([], "0", "training/two has no pod 0", "it has no pods"),
    ],
    ids=["no such index", "two Jobs of a JobSet", "replicas", "role of several nodes", "no pods"],
)
def test_no_matching_pod_or_several_is_an_error(pods: list[Object], text: str, message: str, hint: str) -> None:
    with pytest.raises(NotThere) as raised:
        select_pods(Job(Identity("ml", "two", "training"), None, pods), text)
    assert raised.value.message == message
    assert (raised.value.hint or "").startswith(hint)


def two_containers(main: Object, sidecar: Object, **metadata: str) -> Job:
    """Return a job whose pod has two containers in these states."""
    states = [{"name": "main", "state": main}, {"name": "shipper", "state": sidecar}]
    pod = {
        "metadata": {"name": "two-0", "namespace": "ml", **metadata},
        "spec": {"containers": [{"name": "main"}, {"name": "shipper"}]},
        "status": {"phase": "Running", "containerStatuses": states},
    }
    return Job(Identity("ml", "two", "training"), None, [pod])


RUNNING, CRASHED = {"running": {}}, {"waiting": {"reason": "CrashLoopBackOff"}}


def test_pod_runs_while_a_sidecar_crashes() -> None:
    """`exec` into the program of the job works, as `kubectl exec` does."""
    job = two_containers(RUNNING, CRASHED)
    assert running_pod(job, None, records(Settings())) == (job.pods[0], 1)


@pytest.mark.parametrize(
    "job",
    [two_containers(CRASHED, RUNNING), two_containers(RUNNING, CRASHED, deletionTimestamp="2026-01-31T08:00:00Z")],
    ids=["its own container crashes", "it is being deleted"],
)
def test_pod_does_not_run(job: Job) -> None:
    with pytest.raises(NoPodRunning, match="pod two-0 of training/two does not run"):
        running_pod(job, None, records(Settings()))

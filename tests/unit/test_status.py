"""Statuses of pods and jobs that the tests' control plane cannot easily produce."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from gpuctl.hints import Surface, set_request_surface
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import records
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.jobs.job_objects import Identity, Job
from gpuctl.reading.jobs.job_rows import job_row, platform_keys
from gpuctl.reading.jobs.status import PHASES, Status, job_status, pod_status, ready_containers
from gpuctl_server.limits.response_cache import ResponseCache
from gpuctl_server.mirror.job_board import ListedJob
from gpuctl_server.routes import job_routes

KEYS = records(Settings())
Object = dict[str, Any]


def pod(phase: str = "Running", *, spec: Object | None = None, deleted: bool = False, **status: Any) -> Object:
    """A pod of one container, unless its status says otherwise."""
    metadata: Object = {
        "name": "p",
        "namespace": "n",
        "uid": "p",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {},
    }
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main"}], "nodeName": "node-1", **(spec or {})},
        "status": {"phase": phase, **status},
    }


def container(name: str = "main", *, ready: bool = False, **state: Any) -> Object:
    """A container's status."""
    return {"name": name, "ready": ready, "state": state}


READY = {"conditions": [{"type": "Ready", "status": "True"}]}
INIT = {"initContainers": [{"name": "fetch"}, {"name": "unpack"}]}
SIDECAR = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("obj", "word", "phase"),
    [
        (pod(), "Running", "running"),
        (pod("Pending"), "Pending", "pending"),
        (pod("Succeeded"), "Succeeded", "succeeded"),
        (pod("Failed"), "Failed", "failed"),
        (pod("Failed", reason="Evicted", message="low on memory"), "Evicted", "failed"),
        (pod("Unknown"), "Unknown", "unknown"),
        (pod("Running", deleted=True), "Terminating", "terminating"),
        (pod("Succeeded", deleted=True), "Succeeded", "succeeded"),
        (pod("Running", deleted=True, reason="NodeLost"), "Unknown", "unknown"),
        (
            pod("Pending", containerStatuses=[container(waiting={"reason": "InvalidImageName"})]),
            "InvalidImageName",
            "pending",
        ),
        (
            pod("Pending", spec=INIT, initContainerStatuses=[container("fetch", running={})]),
            "Init:0/1",
            "pending",
        ),
        (
            pod(
                "Pending",
                spec=INIT,
                initContainerStatuses=[
                    container("fetch", terminated={"exitCode": 0}),
                    container("unpack", waiting={"reason": "CrashLoopBackOff"}),
                ],
            ),
            "Init:CrashLoopBackOff",
            "pending",
        ),
        (
            pod(
                "Failed",
                spec=INIT,
                initContainerStatuses=[container("fetch", terminated={"exitCode": 3, "reason": "Error"})],
            ),
            "Failed",
            "failed",
        ),
        (
            pod(
                spec=SIDECAR,
                initContainerStatuses=[{**container("proxy", running={}), "started": True}],
                containerStatuses=[container(ready=True, running={})],
            ),
            "Running",
            "running",
        ),
        (
            pod(containerStatuses=[container(terminated={"exitCode": 1, "reason": "Error"})]),
            "Error",
            "failed",
        ),
        (
            pod("Pending", conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            "SchedulingGated",
            "pending",
        ),
    ],
)
def test_pod_status(obj: Object, word: str, phase: str) -> None:
    found = pod_status(obj)
    assert (found.word, found.phase) == (word, phase)
    assert found.phase in PHASES


def test_pod_status_reasons() -> None:
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available:\n3 Insufficient nvidia.com/gpu.",
    }
    found = pod_status(pod("Pending", conditions=[unschedulable]))
    assert found.reason == "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    killed = pod("Failed", containerStatuses=[container(terminated={"exitCode": 137, "reason": "OOMKilled"})])
    assert pod_status(killed) == Status("OOMKilled", "failed", "exit code 137")


def test_failed_pod_has_the_exit_code_of_its_program_and_not_of_its_sidecar() -> None:
    stopped = container("proxy", terminated={"exitCode": 143, "reason": "Error"})
    ended = container(terminated={"exitCode": 1, "reason": "Error"})
    failed = pod("Failed", spec=SIDECAR, initContainerStatuses=[stopped], containerStatuses=[ended])
    assert pod_status(failed) == Status("Failed", "failed", "exit code 1")


def test_container_that_failed_is_no_failed_pod() -> None:
    """Another container of `podPatch` keeps the pod running; no controller creates another pod meanwhile."""
    states = [container(terminated={"exitCode": 1, "reason": "Error"}), container("proxy", running={})]
    for phase, reason in (
        ("Running", "a container failed (Error: exit code 1), and its pod has not ended"),
        ("Failed", "a pod failed (Failed: exit code 1); its controller creates another"),
    ):
        assert job_status(workload("Job"), [pod(phase, containerStatuses=states)], KEYS).reason == reason


def test_sidecars_count_as_containers() -> None:
    proxied = pod(
        spec=SIDECAR,
        initContainerStatuses=[container("proxy", ready=True)],
        containerStatuses=[container(ready=True)],
    )
    assert ready_containers(proxied) == "2/2"


def workload(kind: str, spec: Object | None = None, **status: Any) -> Object:
    """A workload of two pods."""
    count = {"parallelism": 2, "completions": 2} if kind == "Job" else {"replicas": 2}
    metadata: Object = {"name": "w", "namespace": "n", "labels": {}, "annotations": {}}
    template = {"spec": {"containers": [{"name": "main"}]}}
    return {
        "kind": kind,
        "metadata": metadata,
        "spec": {**count, "template": template, **(spec or {})},
        "status": status,
    }


def condition(kind: str, **others: str) -> Object:
    """A condition that is true."""
    return {"conditions": [{"type": kind, "status": "True", **others}]}


@pytest.mark.parametrize(
    ("obj", "pods", "word"),
    [
        # With several pods, one that succeeded or failed does not end the job.
        (workload("Job", succeeded=1), [pod("Succeeded"), pod()], "Running"),
        (workload("Job", succeeded=1), [pod("Succeeded"), pod("Pending")], "Partially Running"),
        (workload("Job", failed=1), [pod("Failed"), pod("Pending"), pod("Pending")], "Pending"),
        (workload("Job", **condition("Complete")), [], "Succeeded"),
        (workload("Job", **condition("Failed", reason="BackoffLimitExceeded")), [pod("Failed")], "Failed"),
        (workload("Job", {"suspend": True}), [], "Suspended"),
        (workload("Job", active=2), [pod(), pod()], "Running"),
        (workload("Job", active=2), [], "Pending"),
        (workload("Deployment", {"replicas": 0}), [], "ScaledToZero"),
        (workload("Deployment"), [pod(**READY), pod(**READY)], "Running"),
        (workload("Deployment"), [pod(**READY), pod()], "Partially Running"),
        (workload("Deployment"), [pod(), pod()], "Pending"),
        (workload("StatefulSet"), [pod(**READY), pod(**READY, deleted=True)], "Partially Running"),
    ],
)
def test_job_status(obj: Object, pods: list[Object], word: str) -> None:
    assert job_status(obj, pods, KEYS).word == word


def test_status_of_paused_queued_and_refused_jobs() -> None:
    paused = workload("Deployment", {"replicas": 0})
    paused["metadata"]["annotations"][KEYS.paused] = "2"
    assert job_status(paused, [], KEYS).word == "Paused"
    queued = workload("Job", {"suspend": True})
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    assert job_status(queued, [], KEYS) == Status("Queued", "pending", "waits in Kueue's queue team")
    message = 'pods "w-" is forbidden: exceeded quota: few, requested: requests.nvidia.com/gpu=1'
    assert job_status(workload("Job"), [], KEYS, message).word == "QuotaExceeded"
    assert job_status(workload("Job"), [], KEYS, "no such priority class").word == "FailedCreate"


def test_status_matches_words_and_phases_in_any_case() -> None:
    found = Status("Partially Running", "running")
    assert found.matches("running")
    assert found.matches("PARTIALLYRUNNING")
    assert found.matches("partially running")
    assert not found.matches("run")


def test_crash_loop_reason_is_the_end_of_the_last_run() -> None:
    """`get jobs -o wide` does not show how long the kubelet waits."""
    said = {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container=main pod=x(uid)"}
    for ended, reason in (
        ({"reason": "OOMKilled", "exitCode": 137}, "out of memory (limit 256Gi)"),
        ({"reason": "Error", "exitCode": 3}, "exit code 3"),
        ({"reason": "Error", "exitCode": 1, "message": "no such model"}, "exit code 1: no such model"),
    ):
        state = {"name": "main", "state": {"waiting": said}, "lastState": {"terminated": ended}}
        limits = {"resources": {"limits": {"memory": "256Gi"}}}
        obj: Object = {
            "metadata": {"name": "x"},
            "spec": {"containers": [{"name": "main", **limits}]},
            "status": {"phase": "Running", "containerStatuses": [state]},
        }
        assert pod_status(obj) == Status("CrashLoopBackOff", "pending", reason)
    del state["lastState"]
    assert pod_status(obj).reason.startswith("back-off 10s")


def test_job_whose_pods_are_being_deleted_says_so() -> None:
    """With podReplacementPolicy Failed the controller creates others only when they have ended."""
    assert job_status(workload("Job"), [pod(deleted=True)], KEYS) == Status(
        "Pending", "pending", "1 pod is still being deleted"
    )
    assert job_status(workload("Job"), [], KEYS).reason == "its pods are not created yet"


def test_warning_before_the_end_of_a_notebook_follows_the_clock_of_the_api_server() -> None:
    notebook = {
        "kind": "StatefulSet",
        "metadata": {"name": "n", "namespace": "n", "annotations": {KEYS.max_lifetime: "10h"}},
        "spec": {"replicas": 1, "template": {"spec": {}}},
    }
    started = format_timestamp(time.time())
    job = Job(Identity("n", "n", "notebook"), notebook, [pod(startTime=started, **READY)])
    assert job.status(KEYS) == Status("Running", "running")
    assert "it is paused in " in job.status(KEYS, ahead=9.5 * 3600).reason
    assert "its lifetime has ended" in job.status(KEYS, ahead=11 * 3600).reason


def test_service_warns_before_the_end_of_a_notebook_without_a_change_of_its_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = {
        "kind": "StatefulSet",
        "metadata": {"name": "n", "namespace": "n", "uid": "1", "annotations": {KEYS.max_lifetime: "10h"}},
        "spec": {"replicas": 1, "template": {"spec": {}}},
    }
    started = format_timestamp(time.time())
    job = Job(Identity("n", "n", "notebook"), notebook, [pod(startTime=started, **READY)])
    item = ListedJob("n-1", job, job_row(job, platform_keys(Settings(), KEYS)))
    service: Any = SimpleNamespace(
        keys=KEYS,
        clock_ahead=0.0,
        mirror=SimpleNamespace(changes_of=lambda *kinds: 1),
        response_cache=ResponseCache(),
        prometheus=None,
        reads=None,
    )

    async def found(*_: object) -> ListedJob:
        return item

    def described(*_: object) -> bytes:
        return item.row_for_request(KEYS, service.clock_ahead).state.reason.encode()

    monkeypatch.setattr(job_routes, "check_rights", found)
    monkeypatch.setattr(job_routes, "gpu_type_of", lambda *_: None)
    monkeypatch.setattr(job_routes, "_described", described)
    set_request_surface(Surface.REST)
    caller: Any = None
    try:
        assert asyncio.run(job_routes.description_of_job(service, caller, "n")).body == b""
        service.clock_ahead = 9.5 * 3600
        assert b"it is paused in " in asyncio.run(job_routes.description_of_job(service, caller, "n")).body
    finally:
        set_request_surface(Surface.COMMAND_LINE)


@pytest.mark.parametrize(
    ("reported", "word"),
    [({}, "Pending"), ({"ready": 1}, "Partially Running"), ({"ready": 1, "succeeded": 1}, "Running")],
)
def test_job_that_another_controller_runs_has_the_status_that_it_reports(reported: Object, word: str) -> None:
    """MultiKueue runs it in another cluster: no pod is here."""
    obj = workload("Job")
    obj["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    obj["status"] = reported
    up = sum(reported.values())
    reason = f"kueue.x-k8s.io/multikueue runs it: {up} of 2 pods are ready"
    assert job_status(obj, [], KEYS) == Status(word, "running" if up else "pending", reason)
    obj["spec"]["managedBy"] = "kubernetes.io/job-controller"
    assert job_status(obj, [], KEYS).reason == "its pods are not created yet"

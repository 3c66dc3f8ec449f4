"""``fit`` and the real scheduler for jobs that wait until other pods end or a node becomes ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import Fit, fit
from gpuctl.kube.configuration import open_session
from support.fit_trials import MERGE_PATCH
from support.hasty_scheduler import scheduler_alone

Object = dict[str, Any]

GPU = "nvidia.com/gpu"
PATIENCE = 120.0
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def scheduling_only() -> Iterator[ControlPlane]:
    """A control plane where only the scheduler runs."""
    with scheduler_alone() as plane:
        yield plane


@pytest.fixture(scope="module")
def api(scheduling_only: ControlPlane) -> Api:
    """The API server of that control plane."""
    return Api(scheduling_only)


def _node(api: Api, name: str, pool: str, *, ready: bool = True) -> None:
    amounts = {"cpu": "32", "memory": "64Gi", "pods": "30", GPU: "8"}
    metadata = {"name": name, "labels": {"example.com/pool": pool}}
    status = {"capacity": amounts, "allocatable": amounts}
    api.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status})
    if ready:
        # The API server taints a new node as not ready.
        api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}}, MERGE_PATCH)


def _pod(name: str, pool: str, gpus: int, **spec: Any) -> Object:
    amounts = {GPU: str(gpus)}
    container = {"name": "main", "image": "x", "resources": {"requests": amounts, "limits": amounts}}
    body = {"containers": [container], "nodeSelector": {"example.com/pool": pool}, **spec}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**body, "terminationGracePeriodSeconds": 0},
    }


def _job(pool: str, pods: int, gpus: int) -> Object:
    template = {"metadata": {"labels": {"app": "train"}}, "spec": _pod("train", pool, gpus)["spec"]}
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default"},
        "spec": spec,
    }


def _fit_of(plane: ControlPlane, job: Object) -> Fit:
    session = open_session(kubeconfig=str(plane.kubeconfig()))
    try:
        (found,) = fit(take_snapshot(session), [job])
    finally:
        session.close()
    return found


def _submit(api: Api, pool: str, job: Object) -> None:
    for number in range(job["spec"]["parallelism"]):
        pod = _pod(f"train-{pool}-{number}", pool, 1)
        api.call("POST", PODS, {**pod, "spec": job["spec"]["template"]["spec"]})


def _wait_until(condition: Callable[[], bool], what: str) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < PATIENCE, what
        time.sleep(0.5)


def _bound(api: Api, pool: str) -> list[str]:
    pods = [pod for pod in api.call("GET", PODS)["items"] if pod["metadata"]["name"].startswith(f"train-{pool}-")]
    return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]


def _refused(api: Api, pool: str) -> int:
    pods = [pod for pod in api.call("GET", PODS)["items"] if pod["metadata"]["name"].startswith(f"train-{pool}-")]
    return sum(
        item.get("reason") == "Unschedulable"
        for pod in pods
        for item in (pod.get("status") or {}).get("conditions") or []
    )


@pytest.mark.slow
def test_job_waits_for_a_node_that_is_not_ready(api: Api, scheduling_only: ControlPlane) -> None:
    _node(api, "joining", "joining", ready=False)
    job = _job("joining", 1, 8)
    found = _fit_of(scheduling_only, job)
    assert (found.verdict, found.certain) == ("fits-when-empty", True)
    assert found.reason == "node joining is not ready yet (taint node.kubernetes.io/not-ready)"
    _submit(api, "joining", job)
    _wait_until(lambda: _refused(api, "joining") == 1, "the scheduler reported nothing")
    api.call("PATCH", "/api/v1/nodes/joining", {"spec": {"taints": []}}, MERGE_PATCH)
    _wait_until(lambda: _bound(api, "joining") == ["joining"], "the pod gets no node")


@pytest.mark.slow
def test_started_pods_hold_gpus_until_the_last_pod_fits(api: Api, scheduling_only: ControlPlane) -> None:
    """Three of four pods start; the fourth starts only after the pods on its node have ended."""
    for number in range(4):
        _node(api, f"gang-{number}", "gang")
    running = {"status": {"phase": "Running", "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}}
    for name, seconds in (("soon", 3600), ("later", 7200)):
        pod = _pod(name, "gang", 4, nodeName="gang-3", activeDeadlineSeconds=seconds)
        api.call("POST", PODS, pod)
        api.call("PATCH", f"{PODS}/{name}/status", running, MERGE_PATCH)
    job = _job("gang", 4, 8)
    found = _fit_of(scheduling_only, job)
    assert (found.verdict, found.starts, found.certain, found.held) == ("fits-when-empty", 3, True, {GPU: 24})
    assert found.opening is not None
    assert [item.job for item in found.opening.after] == ["Pod/soon", "Pod/later"]
    start = time.strptime(running["status"]["startTime"], "%Y-%m-%dT%H:%M:%SZ")
    end = time.strptime(found.opening.at, "%Y-%m-%dT%H:%M:%SZ")
    assert time.mktime(end) - time.mktime(start) == 7200
    _submit(api, "gang", job)
    _wait_until(lambda: len(_bound(api, "gang")) == 3 and _refused(api, "gang") == 1, "three pods do not start")
    api.call("DELETE", f"{PODS}/soon")
    api.call("DELETE", f"{PODS}/later")
    _wait_until(lambda: len(_bound(api, "gang")) == 4, "the last pod gets no node")

"""A quota that an eviction may free: ``fit`` reports the refusal as uncertain, and the job does start."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit.job_fit import fit
from gpuctl.kube.configuration import open_session
from support.cluster_tools import GPU, Object, Place, nodes_in_no_pool

_numbers = itertools.count(1)
RANK = "quota-race-urgent"


def job(name: str, namespace: str, gpus: int, node: str, **spec: str) -> Object:
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/hostname": node},
        "containers": [{"name": "main", "image": "registry.example.com/x:v1", "resources": resources}],
        **spec,
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}


@pytest.fixture
def nodes(plane: ControlPlane) -> Iterator[list[str]]:
    """Two nodes without a pool."""
    names = [f"quota-race-{next(_numbers)}" for _ in range(2)]
    with nodes_in_no_pool(plane, names, cpu="64", memory="256Gi"):
        yield names


@pytest.mark.slow
def test_quota_freed_by_an_eviction_makes_a_refusal_uncertain(
    place: Place, api: Api, plane: ControlPlane, away: str, nodes: list[str]
) -> None:
    full, free = nodes
    rank = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": RANK}, "value": 100}
    api.request("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", rank)
    place.limit(**{f"requests.{GPU}": "8"})
    old = job("old", place.namespace, 8, full)["spec"]["template"]["spec"]
    # No controller recreates the pod, so its quota becomes free for the other job.
    place.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "old"}, "spec": old})
    place.until(lambda: "Running" in str(place.get("Pod", "old")["status"].get("phase")), "old to run")
    urgent = job("urgent", away, 8, full, priorityClassName=RANK)
    late = job("late", place.namespace, 1, free)
    session = open_session(kubeconfig=str(plane.kubeconfig()))
    found = {item.demand.name: item for item in fit(take_snapshot(session), [urgent, late])}
    session.close()
    assert (found["urgent"].verdict, [item.pod.name for item in found["urgent"].victims]) == ("preempts", ["old"])
    assert (found["late"].verdict, found["late"].certain) == ("fits-when-empty", False)
    assert "evictions in its namespace may free the quota" in found["late"].reason
    for obj in (urgent, late):
        path = f"/apis/batch/v1/namespaces/{obj['metadata']['namespace']}/jobs"
        api.call("POST", path, obj)
    place.running("late")

"""`fit` on a cluster whose Kueue serves only ``v1beta1``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.world import Api
from support.cluster_tools import GPU, Object, Place, namespace_for, places
from support.queue_worlds import queue_job
from support.real_parts import control_plane_binaries

pytestmark = pytest.mark.slow

OLD = "kueue.x-k8s.io/v1beta1"


@pytest.fixture
def old_place(
    tmp_path: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Place]:
    """A place with the kinds of an old Kueue, without its controller."""
    binaries = control_plane_binaries(queues=True)
    with ControlPlane(binaries) as plane:
        plane.add_node("gpu-1", labels={"card": "a100"}, gpus=8)
        for path in sorted((binaries / "kueue-manifests").glob("kueue*.yaml")):
            kind = yaml.load(path.read_bytes(), yaml.CSafeLoader)
            [version] = [item for item in kind["spec"]["versions"] if item["name"] == "v1beta1"]
            version["storage"] = True
            plane.create({**kind, "spec": {**kind["spec"], "versions": [version]}})
        plane.wait_for(lambda: plane.requests.request("GET", f"/apis/{OLD}/workloads")[0] == 200, "Kueue's kinds")
        yield from places(plane, Api(plane), tmp_path, capsys, monkeypatch, namespace_for(request))


def cluster_queue(name: str, gpus: int) -> Object:
    flavors = [{"name": "a100", "resources": [{"name": GPU, "nominalQuota": gpus}]}]
    groups = [{"coveredResources": [GPU], "flavors": flavors}]
    spec = {"cohort": "lab", "namespaceSelector": {}, "resourceGroups": groups}
    return {"apiVersion": OLD, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def test_fit_reads_queues_of_v1beta1(old_place: Place) -> None:
    place = old_place
    space = place.namespace
    flavor = {"apiVersion": OLD, "kind": "ResourceFlavor", "metadata": {"name": "a100"}}
    local = {"apiVersion": OLD, "kind": "LocalQueue", "metadata": {"name": "team", "namespace": space}}
    place.plane.create(
        {**flavor, "spec": {"nodeLabels": {"card": "a100"}}},
        cluster_queue("own", 2),
        cluster_queue("lender", 2),
        {**local, "spec": {"clusterQueue": "own"}},
    )
    job = queue_job("train", space, "team", 5)
    del job["metadata"]["labels"]["kueue.x-k8s.io/priority-class"]
    job["spec"]["suspend"] = True
    place.create(job)
    made = place.get("Job", "train")
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": "train",
        "controller": True,
        "uid": made["metadata"]["uid"],
    }
    sets = [{"name": "main", "count": 1, "template": job["spec"]["template"]}]
    place.plane.create(
        {
            "apiVersion": OLD,
            "kind": "Workload",
            "metadata": {"name": "job-train", "namespace": space, "ownerReferences": [owner]},
            "spec": {"queueName": "team", "podSets": sets, "priority": 0},
        }
    )
    [answer] = place.gpuctl("fit", "-o", "json", code=None).value["jobs"]
    assert answer["verdict"] == "never"
    assert "it asks for 5 nvidia.com/gpu in all, and 4 is the most, with what cohort lab lends" in answer["reason"]

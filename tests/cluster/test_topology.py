"""Trainings whose pods run close to each other: placed by Kueue's real controller, or by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from control_plane import ControlPlane
from support.cluster_tools import Document, Place, training
from support.queues import Queues

RACK = "example.com/rack"
NODES = {"rack-a-1": "a", "rack-a-2": "a", "rack-b-1": "b", "rack-b-2": "b"}
ROOM = {"gpus": 1, "cpu": "8", "memory": "64Gi"}


@pytest.fixture
def racks(queue_plane: ControlPlane) -> Iterator[None]:
    """Two racks of two nodes, in no pool, each with one GPU; removed after the test."""
    queue_plane.add_nodes({name: {"labels": {RACK: rack, "racks": "yes"}, **ROOM} for name, rack in NODES.items()})
    queue_plane.wait_for_nodes()
    yield
    for name in NODES:
        queue_plane.requests.call("DELETE", f"/api/v1/nodes/{name}")


def pair(name: str, **resources: object) -> Document:
    """Return a training of two nodes with one GPU each."""
    wanted = {"pool": "default", "nodes": 2, "gpu": 1, "cpu": 1, "memory": "1Gi", **resources}
    return {**training(name), "resources": wanted}


def racks_of(place: Place, name: str) -> set[str]:
    """Return the racks of a running job's pods."""
    pods = place.running(name, pods=2)
    return {NODES[place.get("Pod", pod)["spec"]["nodeName"]] for pod in pods}


def test_pods_share_a_rack(queue_place: Place, queues: Queues, racks: None) -> None:
    place = queue_place
    place.platform(f"topology: {{levels: [{{name: rack, label: {RACK}}}]}}")
    levels = {"levels": [{"nodeLabel": RACK}, {"nodeLabel": "kubernetes.io/hostname"}]}
    topology = queues.cluster_object("topologies", "Topology", "racks", levels)
    flavor = queues.flavor("racks", {"racks": "yes"}, topologyName=topology)
    queues.local_queue("team", queues.cluster_queue("team", 4, flavor=flavor))
    queued = pair("queued", queue="team", topology="rack")
    [answer] = place.gpuctl("fit", "-f", place.file(queued), "-o", "json", code=None).value["jobs"]
    assert (answer["verdict"], "TopologyAwareScheduling" in answer["reason"]) == ("unknown", True)
    place.apply(queued)
    assert len(racks_of(place, "queued")) == 1
    assert place.plan(queued).actions["Job/queued"] == "unchanged"
    place.apply(pair("free", topology={"required": "rack"}))
    assert len(racks_of(place, "free")) == 1
    assert racks_of(place, "free") != racks_of(place, "queued")
    waiting = pair("waiting", queue="team", topology="rack")
    place.apply(waiting)
    place.until(lambda: "topology" in place.gpuctl("why", "waiting").out, "Kueue to judge it")
    assert place.gpuctl("why", "waiting", "-o", "json").value["cause"] == "queued"
    assert "topology: rack" in place.gpuctl("describe", "job", "queued").out

"""``gpuctl snapshot`` and ``gpuctl fit`` before a real kube-scheduler.

``unit/test_recorded_fit.py`` compares ``fit`` with recorded outcomes of the scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from control_plane import ControlPlane
from gpuctl.apply.state.cluster_snapshot import take_snapshot
from gpuctl.capacity.fit import job_fit as fit_module
from gpuctl.capacity.snapshot.snapshot_loading import load
from gpuctl.cli.main import cli
from gpuctl.cli.options.connection_options import ClusterFailure
from gpuctl.kube.configuration import open_session
from support.fit_trials import MERGE_PATCH
from support.hasty_scheduler import scheduler_alone

DOCUMENT = """\
kind: training
version: v0.1
job: {name: train}
environment: {image: "busybox:1", command: ["true"]}
resources: {pool: no-such-pool, gpu: 1, cpu: 1, memory: 1Gi}
"""


@pytest.fixture(scope="module")
def scheduling_plane() -> Iterator[ControlPlane]:
    """A control plane where only the scheduler runs. Other controllers would change statuses, taints and quotas."""
    with scheduler_alone() as plane:
        yield plane


def _command(plane: ControlPlane, name: str, user: str, *arguments: str) -> Result:
    options = ["--kubeconfig", str(plane.kubeconfig(user)), *arguments]
    # Invoke the group instead of the command: click would cache the command's help without the group's `-h`.
    return CliRunner().invoke(cli, [name, *options], standalone_mode=False)


def test_snapshot_and_fit_commands_read_the_cluster(scheduling_plane: ControlPlane, tmp_path: Path) -> None:
    """A snapshot has the nodes, and the pods that hold room: ``fit`` would count finished ones otherwise."""
    plane = scheduling_plane
    plane.add_nodes({"taken-1": {"gpus": 8}, "taken-2": {"gpus": 8}})
    for name in ("taken-1", "taken-2"):
        plane.requests.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": []}}, MERGE_PATCH)
    container = {"name": "main", "image": "x"}
    for name, phase in (("here", "Running"), ("done", "Succeeded"), ("broken", "Failed")):
        spec = {"nodeName": "taken-1", "containers": [container]}
        plane.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        )
        path = f"/api/v1/namespaces/default/pods/{name}/status"
        plane.requests.call("PATCH", path, {"status": {"phase": phase}}, MERGE_PATCH)
    taken = _command(plane, "snapshot", "deployer")
    assert taken.return_value == 0
    assert "note: runtimeClasses may not be read and are omitted" in taken.stderr
    snapshot = load(taken.stdout)
    assert {node["name"] for node in snapshot.nodes} >= {"taken-1", "taken-2"}
    assert [pod["name"] for pod in snapshot.pods if pod["namespace"] == "default"] == ["here"]
    document = tmp_path / "job.yaml"
    document.write_text(DOCUMENT)
    found = _command(plane, "fit", "admin", "-f", str(document), "--json")
    (answer,) = json.loads(found.stdout)["jobs"]
    assert (found.return_value, answer["verdict"], answer["namespace"]) == (1, "never", "default"), answer["reason"]


def test_snapshot_needs_the_right_to_list_nodes(scheduling_plane: ControlPlane) -> None:
    refused = _command(scheduling_plane, "snapshot", "alice")
    assert isinstance(refused.exception, ClusterFailure)
    assert "user alice may not list nodes in the whole cluster" in refused.exception.message
    assert refused.stdout == ""


def _volume(name: str, node: str) -> list[dict[str, Any]]:
    """Return a claim and its volume, which is local to one node."""
    here = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": "local"}
    claim_ref = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "volumes", "name": name}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
        "claimRef": claim_ref,
    }
    claim = {**common, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    metadata = {"name": name, "namespace": "volumes", "annotations": bound}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": claim},
    ]


def test_job_with_a_local_volume_fits_only_on_its_node(scheduling_plane: ControlPlane) -> None:
    """Jobs with a claim run on the volume's node or not at all; for a missing claim the answer is unknown."""
    plane = scheduling_plane
    plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volumes"}})
    for name, cpu in (("volumes-a", "8"), ("volumes-b", "2")):
        plane.add_node(name, labels={"example.com/world": "volumes"}, cpu=cpu)
        plane.kubectl("patch", "node", name, "--type=merge", "-p", '{"spec":{"taints":[]}}')
    plane.create(*_volume("on-a", "volumes-a"), *_volume("on-b", "volumes-b"))
    bound = '{"status":{"phase":"Bound"}}'
    jobs = []
    for claim in ("on-a", "on-b", "nowhere"):
        plane.kubectl("patch", "pvc", claim, "-n", "volumes", "--subresource=status", "-p", bound, check=False)
        spec = {
            "nodeSelector": {"example.com/world": "volumes"},
            "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "4"}}}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": claim, "namespace": "volumes"}, "spec": spec}
        jobs.append(pod)
    session = open_session(kubeconfig=str(plane.kubeconfig()))
    have = take_snapshot(session)
    session.close()
    verdicts = {item.demand.name: item.verdict for pod in jobs for item in fit_module.fit(have, [pod])}
    assert verdicts == {"on-a": "fits", "on-b": "never", "nowhere": "unknown"}
    plane.create(*jobs)

    def told() -> dict[str, str] | None:
        pods = plane.get("pods", "-n", "volumes")["items"]
        conditions = [item for pod in pods for item in pod["status"].get("conditions", [])]
        if [item["type"] for item in conditions].count("PodScheduled") < len(jobs):
            return None
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in pods}

    assert plane.wait_for(told, "the scheduler to report on all pods") == {
        "on-a": "volumes-a",
        "on-b": "",
        "nowhere": "",
    }

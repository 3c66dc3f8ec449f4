"""``gpuctl fit`` without files: verdicts for the jobs of pods that wait in a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from gpuctl.capacity.fit.waiting_fit import fit_waiting
from gpuctl.capacity.snapshot.device_entries import resource_claim_template_entry
from gpuctl.capacity.snapshot.snapshot_document import Snapshot, render
from gpuctl.capacity.snapshot.snapshot_loading import load
from gpuctl.cli.main import cli
from support.fit_objects import claim_template, device_class, exactly, resource_slice

Object = dict[str, Any]

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int, **labels: str) -> Object:
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110", GPU: str(gpus)}
    return {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}, "allocatable": allocatable}


def pod(name: str, gpus: int, of: str = "", kind: str = "Job", namespace: str = "team", **more: Any) -> Object:
    """A pod of priority 10; it waits unless it has a ``node``."""
    own = {"namespace": namespace, "name": name, "priority": 10, "priorityClass": "low", "requests": {GPU: str(gpus)}}
    owner = {"owner": {"group": "batch" if kind == "Job" else "apps", "kind": kind, "name": of}} if of else {}
    started = {"startTime": "2026-01-01T00:00:00Z"} if "node" in more else {}
    return {**own, **owner, **started, "labels": {"app": of or name}, **more}


def cluster(nodes: list[Object], pods: list[Object], **more: Any) -> Snapshot:
    """Return a snapshot that was rendered to JSON and loaded again."""
    classes = more.pop("priority_classes", [{"name": "low", "value": 10}])
    return load(render(Snapshot("2026-01-01T00:00:00Z", nodes, pods, priority_classes=classes, **more)))


def verdicts(snapshot: Snapshot, namespace: str | None = None) -> dict[str, tuple[str, int, int]]:
    """Return ``kind/name`` -> verdict, number of pods, number of pods that would start."""
    found = fit_waiting(snapshot, namespace)
    return {f"{item.demand.kind}/{item.demand.name}": (item.verdict, item.demand.pods, item.starts) for item in found}


def test_waiting_pods_of_a_job_get_one_verdict() -> None:
    """One of three pods runs on a node that the others would need: it keeps the node."""
    pods = [pod("train-0", 8, "train", node="a"), pod("train-1", 8, "train"), pod("train-2", 8, "train")]
    have = cluster([node("a", 8), node("b", 8)], pods)
    assert verdicts(have) == {"Job/train": ("fits-when-empty", 2, 1)}
    assert verdicts(cluster([node("a", 8), node("b", 8), node("c", 8)], pods)) == {"Job/train": ("fits", 2, 2)}


def test_snapshot_without_owner_groups_is_read() -> None:
    pods = [pod("train-0", 8, "train", node="a"), pod("train-1", 8, "train")]
    for item in pods:
        del item["owner"]["group"]
    assert verdicts(cluster([node("a", 8)], pods)) == {"Job/train": ("fits-when-empty", 1, 0)}


def test_waiting_pods_of_a_replica_get_one_verdict() -> None:
    labels = {"leaderworkerset.sigs.k8s.io/name": "chat", "leaderworkerset.sigs.k8s.io/group-index": "0"}
    pods = [
        pod("chat-0", 8, "chat", "StatefulSet", labels=labels),
        pod("chat-0-1", 8, "chat-0", "StatefulSet", labels=labels),
    ]
    assert verdicts(cluster([node("a", 8)], pods)) == {"LeaderWorkerSet/chat": ("never", 2, 1)}
    assert verdicts(cluster([node("a", 8), node("b", 8)], pods)) == {"LeaderWorkerSet/chat": ("fits", 2, 2)}


def test_waiting_pods_with_different_device_claims_are_judged_apart() -> None:
    """Two roles of a JobSet that differ in their claims only: one asks for more devices than any node has."""
    labels = {"jobset.sigs.k8s.io/jobset-name": "both"}
    pods = [
        pod(f"both-{name}-0-0", 0, f"both-{name}-0", labels=labels, deviceClaims=[claim_of(name)])
        for name in ("small", "large")
    ]
    have = cluster(
        [node("a", 0)],
        pods,
        device_classes=[device_class()],
        resource_slices=[resource_slice("a", 4)],
        resource_claim_templates=[
            resource_claim_template_entry(claim_template(exactly(count), name=name))
            for name, count in {"small": 2, "large": 5}.items()
        ],
    )
    assert sorted(item.verdict for item in fit_waiting(have)) == ["fits", "never"]


def claim_of(template: str) -> Object:
    return {"name": "gpus", "resourceClaimTemplateName": template}


def test_verdicts_are_named_by_workload() -> None:
    labels = {"jobset.sigs.k8s.io/jobset-name": "both", "app": "both"}
    pods = [
        pod("both-node-0-0", 1, "both-node-0", labels=labels),
        pod("both-node-0-1", 1, "both-node-0", labels=labels),
        pod("chat-x", 1, "chat", "Deployment"),
        pod("note-0", 1, "note", "StatefulSet"),
        pod("ray-0", 1, "ray", "RayCluster"),
        pod("alone", 1),
    ]
    names = {"JobSet/both", "Deployment/chat", "StatefulSet/note", "Pod/ray-0", "Pod/alone"}
    found = verdicts(cluster([node("a", 8)], pods))
    assert found.keys() == names
    assert found["JobSet/both"] == ("fits", 2, 2)


def test_admission_is_not_checked_for_existing_pods() -> None:
    quota = {
        "kind": "ResourceQuota",
        "metadata": {"namespace": "team", "name": "full"},
        "spec": {"hard": {f"requests.{GPU}": "1"}},
        "status": {"hard": {f"requests.{GPU}": "1"}, "used": {f"requests.{GPU}": "1"}},
    }
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    limits = {"namespace": "team", "name": "small", "limits": [{"type": "Container", "max": {"cpu": "1"}}]}
    waiting = pod("t", 1, "train")
    waiting["requests"]["cpu"] = "2"
    have = cluster(
        [node("a", 8)],
        [waiting],
        quotas=[quota],
        namespaces=[{"name": "team", "labels": labels, "deleting": True}],
        limit_ranges=[limits],
    )
    assert verdicts(have) == {"Job/train": ("fits", 1, 1)}


def test_priority_is_that_of_the_pod_not_of_its_class() -> None:
    mine = pod("t", 8, "train", priority=100, priorityClass="gone")
    polite = pod("p", 8, "polite", priority=100, priorityClass="polite")
    nodes, others = [node("a", 8)], pod("x", 8, "x", node="a")
    assert verdicts(cluster(nodes, [others, mine], priority_classes=[])) == {"Job/train": ("preempts", 1, 1)}
    classes = [{"name": "polite", "value": 5, "preemptionPolicy": "Never"}]
    found = verdicts(cluster(nodes, [others, polite], priority_classes=classes))
    assert found == {"Job/polite": ("fits-when-empty", 1, 0)}


def test_node_selector_of_waiting_pods_counts() -> None:
    wants = {"nodeSelector": {"zone": "b"}}
    have = cluster([node("a", 8, zone="a"), node("b", 4, zone="b")], [pod("t", 8, "train", wants=wants)])
    assert verdicts(have) == {"Job/train": ("never", 1, 0)}


def test_namespace_filters_the_result_but_not_the_queue() -> None:
    first = pod("f", 8, "first", namespace="other", priority=50, priorityClass="high")
    have = cluster([node("a", 8)], [first, pod("t", 8, "train")])
    assert verdicts(have, "team") == {"Job/train": ("fits-when-empty", 1, 0)}
    assert verdicts(have, "nobody") == {}


def run(directory: Path, have: Snapshot, *arguments: str) -> Result:
    """Run ``gpuctl fit`` with only a snapshot."""
    (directory / "cluster.json").write_text(render(have))
    everything = ["fit", "--snapshot", str(directory / "cluster.json"), *arguments]
    return CliRunner().invoke(cli, everything, standalone_mode=False)


def test_fit_command_without_files(tmp_path: Path) -> None:
    have = cluster([node("a", 8)], [pod("x", 6, "x", node="a"), pod("t", 4, "train")])
    shown = run(tmp_path, have)
    assert shown.return_value == 1
    assert shown.stdout.startswith("job.batch/train -n team: does not fit now, but may later (1 pod of 4")
    value = json.loads(run(tmp_path, have, "-o", "json").stdout)
    assert [(item["kind"], item["name"], item["verdict"]) for item in value["jobs"]] == [
        ("Job", "train", "fits-when-empty")
    ]
    nothing = run(tmp_path, have, "-n", "other")
    assert (nothing.return_value, nothing.stdout) == (0, "")
    assert nothing.stderr == "No pod waits for a node.\n"

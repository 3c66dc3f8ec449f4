"""``gpuctl why`` on a real control plane: each test creates a cause and checks the message, numbers and fix."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from control_plane import ControlPlane
from gpuctl.kube.session import Session
from support.cluster_tools import POOL, Document, Place, compute, inference, merged, notebook, outcome, training
from support.why_records import record

Object = dict[str, Any]
Answer = dict[str, Any]

FULL, CLOSED, DIRTY, SMALL, LONELY = "why-full", "why-closed", "why-dirty", "why-small", "why-lonely"
"""Pools: two nodes with 8 GPUs each, a cordoned node, a tainted node, a node for one pod, and nodes that are lost."""
TAINT = {"key": "example.com/dedicated", "value": "vision", "effect": "NoSchedule"}


@pytest.fixture(scope="module")
def pools(plane: ControlPlane) -> Iterator[None]:
    """Create the pools' nodes; delete them afterwards, because other tests count all nodes."""

    def labels(pool: str, gpu_type: str = "a100") -> dict[str, str]:
        return {"runwhere.ai/pool": pool, "runwhere.ai/gpu-type": gpu_type}

    full = {"labels": labels(FULL), "gpus": 8, "cpu": "64", "memory": "256Gi"}
    others: dict[str, dict[str, Any]] = {
        f"{CLOSED}-1": {"labels": labels(CLOSED), "gpus": 8},
        f"{DIRTY}-1": {"labels": labels(DIRTY, "l40s"), "gpus": 8, "taints": [TAINT]},
        f"{SMALL}-1": {"labels": labels(SMALL), "gpus": 8},
    }
    plane.add_nodes({**{f"{FULL}-{number}": full for number in (1, 2)}, **others})
    plane.kubectl("cordon", f"{CLOSED}-1")
    few = {"status": {"capacity": {"pods": "1"}, "allocatable": {"pods": "1"}}}
    plane.kubectl("patch", "node", f"{SMALL}-1", "--subresource=status", "--type=merge", "-p", json.dumps(few))
    plane.wait_for_nodes()
    yield
    names = [f"{FULL}-1", f"{FULL}-2", f"{CLOSED}-1", f"{DIRTY}-1", f"{SMALL}-1"]
    plane.kubectl("delete", "node", *names)


def create_unchecked(place: Place, document: Document, **pod: Any) -> None:
    """Create a document's objects without the checks of ``apply``, as another tool would; ``pod`` extends the pod spec."""
    rendered = place.gpuctl("render", "-f", place.file(document), "-o", "json").value
    for obj in rendered.get("items", [rendered]):
        if obj["kind"] == "Namespace":
            continue
        if obj["kind"] == "PriorityClass":
            place.kubectl("create", "-f", "-", input=json.dumps(obj), check=False)
            continue
        template = (obj.get("spec") or {}).get("template")
        if template is not None:
            obj["spec"]["template"]["spec"] = merged(template["spec"], pod)
        place.create(obj)


COMMAND = re.compile(r"`((?:gpuctl|kubectl) [^`]+)`")
"""Commands in a fix, ready to be copied."""
_DRY = frozenset({"create", "patch", "scale", "taint", "cordon", "uncordon", "delete"})
_CHANGING = frozenset({"resume", "rerun", "delete", "label", "rollout"})
_pending_advice: dict[str, None] = {}


@pytest.fixture(autouse=True)
def advice(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the suggested commands that change something and have no dry-run, after the test."""
    _pending_advice.clear()
    place: Place | None = request.getfixturevalue("place") if "place" in request.fixturenames else None
    yield
    for command in _pending_advice:
        assert place is not None
        run_advice(place, command)


def follow_advice(place: Place, answer: Answer) -> None:
    """Run the commands of a fix as printed, in the state for which they were printed.

    Commands of kubectl that change something run as a dry-run; those of gpuctl run after the test.
    """
    for fix in (answer["fix"], *(item["fix"] for item in answer["also"])):
        for command in COMMAND.findall(fix or ""):
            program, verb, *rest = shlex.split(command)
            if program == "kubectl" and verb in _DRY:
                place.plane.kubectl(verb, *rest, "--dry-run=server")
            elif verb in _CHANGING:
                _pending_advice[command] = None
            else:
                run_advice(place, command)


def run_advice(place: Place, command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "kubectl":
        place.plane.kubectl(*arguments)
    else:
        place.anywhere(*arguments)
    if arguments[:2] == ["label", "node"]:
        place.anywhere(*arguments[:-1], f"{arguments[-1].partition('=')[0]}-")


def drop_advice(name: str) -> None:
    """Drop pending commands for a job whose state the test has changed."""
    for command in [item for item in _pending_advice if name in shlex.split(item)]:
        del _pending_advice[command]


def why(place: Place, name: str, *causes: str, when: Callable[[Answer], bool] = lambda _: True) -> Answer:
    """Wait until the answer has one of the causes, and return it; also run the text output and the suggested commands.

    Controllers act one after another: ``when`` waits for the final form of an answer.
    """

    def told() -> tuple[Answer, str] | None:
        found: Answer = place.gpuctl("why", name, "-o", "json").value
        seen.append(found)
        if found["cause"] not in causes or not when(found):
            return None
        text = place.gpuctl("why", name).out
        return (found, text) if found["cause"] in text.splitlines()[0] else None

    seen: list[Answer] = []
    try:
        found, text = place.until(told, f"{causes} of {name}")
    except TimeoutError:
        raise AssertionError(f"not {causes}, but {json.dumps(seen[-1], indent=1)}") from None
    record(place.namespace, name, found["cause"])
    assert found["fix"] is None or found["fix"].split()[0] in text
    follow_advice(place, found)
    return found


def is_pulling(answer: Answer) -> bool:
    """Return True if the kubelet has reported that it pulls the image."""
    return "has been pulling" in answer["message"]


def has_restarted(answer: Answer) -> bool:
    """Return True if the container has restarted at least once."""
    return bool(answer["numbers"].get("restarts", 0) >= 1)


def gpu_holder(name: str = "fill", gpus: int = 5, **job: Any) -> Document:
    """Return a job that holds GPUs of a node in the two-node pool."""
    return training(name, job=job, resources={"pool": FULL, "gpu": gpus, "cpu": 1, "memory": "1Gi"})


def large(name: str = "large", **resources: Any) -> Document:
    """Return a training that requests a whole node of the two-node pool."""
    block = {"pool": FULL, "gpu": 8, "gpu-type": "a100", "cpu": 8, "memory": "16Gi"}
    return training(name, resources={**block, **resources})


def test_running_and_finished_jobs_have_no_problem(place: Place) -> None:
    place.apply(training("train"), inference("serve"), training("done", job=outcome("complete")))
    place.running("train", "serve")
    answer = why(place, "train", "running")
    assert answer["numbers"] == {"pods": 1, "readyPods": 1}
    assert answer["message"] == "nothing is wrong: 1 pod runs"
    assert answer["fix"] is None
    assert answer["also"] == []
    assert why(place, "serve", "running")["kind"] == "inference"
    assert why(place, "done", "succeeded")["numbers"]["succeededPods"] == 1
    missing = place.gpuctl("why", "tran", code=1)
    assert "there is no job or pod tran" in missing.err
    assert "did you mean `train`?" in missing.err
    assert "error" in place.gpuctl("why", "tran", "-o", "json", code=1).value


@pytest.mark.slow
def test_paused_suspended_and_scaled_to_zero(place: Place) -> None:
    place.apply(training("train"), inference("serve"), training("held"), training("queue"))
    place.running("train", "serve", "held", "queue")
    place.gpuctl("pause", "train")
    place.gpuctl("pause", "serve")
    answer = why(place, "train", "paused")
    assert answer["fix"] == f"`gpuctl resume train -n {place.namespace}`"
    assert why(place, "serve", "paused")["numbers"] == {"replicas": 1}
    place.patch("Job", "held", {"spec": {"suspend": True}})
    assert why(place, "held", "suspended")["message"] == "spec.suspend is set, and not by gpuctl pause"
    queue = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}, "spec": {"suspend": True}}
    place.patch("Job", "queue", queue)
    answer = why(place, "queue", "suspended")
    assert answer["numbers"] == {"queue": "team"}
    assert answer["message"] == "it is suspended and names Kueue's queue team, but Kueue is not installed"
    place.gpuctl("resume", "serve")
    drop_advice("serve")
    place.running("serve")
    place.kubectl("scale", "deployment/serve", "--replicas=0")
    answer = why(place, "serve", "suspended")
    assert answer["message"] == "spec.replicas is 0, and not by gpuctl pause"


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "team"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "6"}},
}


def test_exceeded_quota(place: Place) -> None:
    place.create(QUOTA)
    place.until(lambda: place.get("ResourceQuota", "team").get("status", {}).get("hard"), "the quota")
    place.apply(training("other", resources={"gpu": 4}))
    place.running("other")
    create_unchecked(place, training("train", resources={"gpu": 4}))
    create_unchecked(place, inference("serve", resources={"gpu": 4}))
    # A Job's controller writes an event; a Deployment's ReplicaSet has a condition.
    for name, source in (("train", "event"), ("serve", "condition")):
        answer = why(place, name, "quota-exceeded")
        assert answer["numbers"]["quota"] == "team"
        assert answer["numbers"]["resources"] == [
            {"resource": "requests.nvidia.com/gpu", "requested": "4", "used": "4", "limited": "6"}
        ]
        assert answer["numbers"]["heldBy"] == [{"job": "training/other", "amount": "4"}]
        assert answer["message"] == (
            "quota team has no room: a pod needs 4 requests.nvidia.com/gpu, 2 left (4 of 6 used)"
        )
        assert answer["fix"].startswith("wait until training/other has ended, ask for less in `resources.gpu`")
        assert "delete" not in answer["fix"]
        assert "raise quota team: requests.nvidia.com/gpu to 8" in answer["fix"]
        assert answer["evidence"][0]["source"] == source
        assert "exceeded quota: team" in answer["evidence"][0]["text"]


@pytest.mark.slow
def test_quota_too_small_or_request_missing(place: Place) -> None:
    hard = {"requests.nvidia.com/gpu": "6", "limits.cpu": "100"}
    place.create(merged(QUOTA, {"spec": {"hard": hard}}))
    place.until(lambda: place.get("ResourceQuota", "team").get("status", {}).get("hard"), "the quota")
    create_unchecked(place, training("train", resources={"gpu": 8}))
    answer = why(place, "train", "quota-exceeded")
    assert "a pod needs 8 requests.nvidia.com/gpu, and the limit is 6" in answer["message"]
    assert answer["fix"].startswith("ask for at most `resources.gpu: 6`")
    create_unchecked(place, training("open", resources={"cpu": None}))
    answer = why(place, "open", "quota-unspecified")
    assert answer["numbers"]["resources"] == ["limits.cpu"]
    assert answer["fix"] == "set `resources.cpu`"


@pytest.mark.slow
def test_limit_range_violation(place: Place) -> None:
    limits = [{"type": "Container", "max": {"cpu": "4", "memory": "8Gi"}}]
    place.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "small"}, "spec": {"limits": limits}})
    create_unchecked(place, training("train", resources={"cpu": 16, "memory": "4Gi"}))
    answer = why(place, "train", "limit-range")
    assert answer["message"] == "a LimitRange refuses its pods: a container asks for 16 cpu, allowed is at most 4"
    assert answer["numbers"]["limits"] == [{"resource": "cpu", "maximum": "4", "requested": "16"}]
    assert answer["fix"].startswith("`resources.cpu: 4`")


@pytest.mark.slow
def test_pods_refused_by_admission(place: Place) -> None:
    create_unchecked(place, training("classless"), priorityClassName="team-rush")
    answer = why(place, "classless", "priority-class-missing")
    assert answer["message"] == "there is no PriorityClass team-rush"
    create_unchecked(place, training("runtime"), runtimeClassName="kata")
    answer = why(place, "runtime", "admission-refused")
    assert answer["message"] == 'its pods are refused: pod rejected: RuntimeClass "kata" not found'
    place.plane.kubectl(
        "label", "namespace", place.namespace, "pod-security.kubernetes.io/enforce=baseline", "--overwrite"
    )
    create_unchecked(place, inference("serve", storage={"workdirs": [{"path": "/models"}]}))
    answer = why(place, "serve", "pod-security")
    assert answer["numbers"]["level"] == "baseline:latest"
    assert "hostPath volumes" in answer["message"]
    assert "use `pvc` or `nfs`" in answer["fix"]


@pytest.mark.slow
def test_unreachable_admission_webhook(place: Place) -> None:
    url = "https://127.0.0.1:1/check"
    hook = {
        "name": "pods.why.example.com",
        "clientConfig": {"url": url},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    name = f"why-{place.namespace}"[:60]
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [hook],
    }
    place.plane.create(configuration)
    try:
        create_unchecked(place, training())
        answer = why(place, "train", "admission-refused")
        assert 'failed calling webhook "pods.why.example.com"' in answer["message"]
    finally:
        place.plane.kubectl("delete", "validatingwebhookconfiguration", name)


def test_resource_shortage_on_all_nodes(place: Place, pools: None) -> None:
    place.apply(gpu_holder("one"), gpu_holder("two"))
    place.running("one", "two")
    card = {"containers": [{"name": "main", "resources": {"limits": {"example.com/card": "1"}}}]}
    place.apply(
        large(),
        large("cpus", gpu=1, cpu=100),
        large("bytes", gpu=1, memory="256Gi"),
        large("cpu-beside", gpu=3, cpu=64),
        large("huge", gpu=16),
        merged(large("card", gpu=0, **{"gpu-type": None}), {"podPatch": card}),
    )
    answer = why(place, "card", "resource-shortage")
    assert (
        answer["message"] == f"needs 1 example.com/card on one node of {FULL}; no node there has any example.com/card"
    )
    answer = why(place, "large", "gpu-shortage")
    assert answer["message"] == f"needs 8 a100 on one node of {FULL}; the best node has 3 free"
    numbers = answer["numbers"]
    assert (numbers["needPerPod"], numbers["free"], numbers["largestCapacity"]) == (
        {"nvidia.com/gpu": 8},
        {"nvidia.com/gpu": 6},
        {"nvidia.com/gpu": 8},
    )
    assert numbers["largestNode"]["nvidia.com/gpu"] == 3
    assert {(item["job"], item["nvidia.com/gpu"]) for item in numbers["heldBy"]} == {("Job/one", 5), ("Job/two", 5)}
    assert answer["fix"].startswith("free 5 nvidia.com/gpu on why-full-")
    assert f"pool: {FULL} has 2 nodes" in answer["ruledOut"]
    assert "GPU type: 2 nodes with a100" in answer["ruledOut"]
    assert "cordons and taints: 2 nodes open to it" in answer["ruledOut"]
    assert answer["evidence"][0]["text"].startswith("PodScheduled=False: Unschedulable: 0/")
    answer = why(place, "cpus", "cpu-shortage")
    assert answer["message"] == f"needs 100 cpu on one node of {FULL}; the largest has 64 in all, so it never fits"
    answer = why(place, "bytes", "memory-shortage")
    assert answer["message"].startswith(f"needs 256Gi memory on one node of {FULL}; the best node has 255Gi free")
    answer = why(place, "huge", "gpu-shortage")
    assert answer["message"] == f"needs 16 a100 on one node of {FULL}; the largest has 8 in all, so it never fits"
    assert answer["fix"] == "spread it over more nodes: `resources.nodes: 2` with `resources.gpu: 8`"
    assert why(place, "cpu-beside", "cpu-shortage")["numbers"]["largestNode"]["cpuCores"] == 63


@pytest.mark.slow
def test_one_of_several_pods_waits(place: Place, pools: None) -> None:
    place.apply(gpu_holder(gpus=4))
    place.running("fill")
    place.apply(inference("serve", service={"replicas": 2}, resources={"pool": FULL, "gpu": 8, "cpu": 1}))
    answer = why(place, "serve", "gpu-shortage")
    assert answer["message"] == f"1 pod of 2 waits: needs 8 GPUs on one node of {FULL}; the best node has 4 free"
    assert answer["pod"].startswith("serve-")
    assert place.get("Pod", answer["pod"])["spec"].get("nodeName") is None


@pytest.mark.slow
def test_no_node_matches_pool_type_or_taint(place: Place, pools: None) -> None:
    disk = {"key": "example.com/disk", "operator": "In", "values": ["ssd", "nvme"]}
    near = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [disk]}]}}
    create_unchecked(place, training("disk", resources={"pool": FULL}), affinity={"nodeAffinity": near})
    answer = why(place, "disk", "node-selector")
    assert answer["message"].endswith("has what its node affinity asks for (example.com/disk In ssd, nvme)")
    for document in (
        training("poolless", resources={"pool": "vision"}),
        large("typed", **{"gpu-type": "h100"}),
        large("closed", pool=CLOSED),
        training("dirty", resources={"pool": DIRTY}),
    ):
        create_unchecked(place, document)
    create_unchecked(place, training("misspelt", resources={"pool": "why-fulll"}))
    answer = why(place, "misspelt", "unknown-pool")
    assert answer["fix"] == f"did you mean `resources.pool: {FULL}`?"
    answer = why(place, "poolless", "unknown-pool")
    assert answer["message"].startswith("no node is in vision; there are drill (4 nodes)")
    assert answer["numbers"]["pools"][FULL] == 2
    answer = why(place, "typed", "node-selector")
    assert answer["message"] == f"no node of {FULL} has the GPU type h100; it has a100 (2 nodes)"
    assert answer["numbers"]["gpuTypes"] == {"a100": 2}
    assert "`resources.gpu-type: a100`" in answer["fix"]
    answer = why(place, "closed", "cordoned")
    assert answer["message"] == f"the only node of {CLOSED} with a100 is cordoned ({CLOSED}-1)"
    assert answer["fix"] == f"`kubectl uncordon {CLOSED}-1`"
    answer = why(place, "dirty", "taint")
    assert answer["numbers"]["taint"] == "example.com/dedicated=vision:NoSchedule"
    assert f"`kubectl taint node {DIRTY}-1 example.com/dedicated=vision:NoSchedule-`" in answer["fix"]


@pytest.mark.slow
def test_pod_limit_of_a_node(place: Place, pools: None) -> None:
    place.apply(training("first", resources={"pool": SMALL}))
    place.running("first")
    place.apply(training("second", resources={"pool": SMALL}))
    answer = why(place, "second", "too-many-pods")
    assert answer["message"] == "the only node that it may use runs as many pods as kubelet allows (1)"
    assert answer["numbers"]["heldBy"][0]["job"] == "Job/first"


@pytest.mark.slow
def test_affinity_host_port_and_topology_spread(place: Place, pools: None) -> None:
    def near(kind: str, app: str, replicas: int) -> Document:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
        patch = {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        return compute(app if kind == "podAntiAffinity" else "near", service={"replicas": replicas}, podPatch=patch)

    apart = merged(near("podAntiAffinity", "apart", 3), {"resources": {"pool": FULL}})
    lonely = merged(near("podAffinity", "nobody", 1), {"resources": {"pool": FULL}})
    port = {"containers": [{"name": "main", "ports": [{"containerPort": 9000, "hostPort": 9000, "protocol": "TCP"}]}]}
    ports = compute("ports", service={"replicas": 3}, podPatch=port, resources={"pool": FULL})
    even = {"maxSkew": 1, "topologyKey": "example.com/rack", "whenUnsatisfiable": "DoNotSchedule"}
    spread = {"topologySpreadConstraints": [{**even, "labelSelector": {"matchLabels": {"app": "racks"}}}]}
    place.apply(apart, lonely, ports, compute("racks", podPatch=spread, resources={"pool": FULL}))
    answer = why(place, "apart", "affinity")
    assert answer["message"] == (
        f"1 pod of 3 waits: 2 nodes of {FULL} have room, but pods that its anti-affinity excludes are there"
    )
    assert "none is near a pod that its affinity asks for" in why(place, "near", "affinity")["message"]
    answer = why(place, "ports", "host-port")
    assert answer["message"].endswith("the host ports that it uses are taken: 9000")
    assert "maxSkew" in why(place, "racks", "topology-spread")["fix"]


@pytest.mark.slow
def test_missing_and_unbound_claims(place: Place) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "models"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        },
    }
    place.create(claim)
    create_unchecked(
        place, training("unbound", storage={"workdirs": [{"path": "/models", "pvc": {"claim": "models"}}]})
    )
    create_unchecked(place, training("claimless", storage={"workdirs": [{"path": "/data", "pvc": {"claim": "data"}}]}))
    answer = why(place, "claimless", "claim-missing")
    assert answer["message"] == f"there is no PersistentVolumeClaim data in {place.namespace}"
    answer = why(place, "unbound", "claim-unbound")
    assert answer["numbers"]["claim"] == "models"
    place.until(
        lambda: "storageclass.storage.k8s.io" in why(place, "unbound", "claim-unbound")["message"],
        "the volume controller's event",
    )
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{place.namespace}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "elsewhere",
            "claimRef": {"namespace": place.namespace, "name": "far"},
            "hostPath": {"path": "/volume"},
            "nodeAffinity": {
                "required": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["mars"]}]}
                    ]
                }
            },
        },
    }
    place.plane.create(volume)
    place.create(merged(claim, {"metadata": {"name": "far"}, "spec": {"storageClassName": "elsewhere"}}))
    place.until(lambda: place.get("PersistentVolumeClaim", "far")["status"].get("phase") == "Bound", "the claim")
    create_unchecked(place, training("far", storage={"workdirs": [{"path": "/far", "pvc": {"claim": "far"}}]}))
    assert why(place, "far", "volume-node")["message"].startswith("the volume of the PersistentVolumeClaim far cannot")
    place.plane.kubectl("delete", "pv", f"volume-{place.namespace}", "--wait=false")


IMAGES = {
    "image-not-found": (
        "the registry registry.example.com has no image registry.example.com/training:v1",
        "environment.image",
    ),
    "image-unauthorised": (
        "denies access to registry.example.com/training:v1 without a pull secret (or has no such image: ",
        "environment.imagePullSecret",
    ),
    "image-platform": ("registry.example.com/training:v1 is not built for the platform of drill-", "linux/amd64"),
    "image-unreachable": (
        "registry.example.com/training:v1 cannot be pulled from the registry registry.example.com: ",
        "proxy",
    ),
    "image-name-invalid": ("`registry.example.com/training:v1` is not a valid image name", "environment.image"),
}


@pytest.mark.slow
def test_image_pull_errors(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.apply(*(training(name, job=outcome(name)) for name in (*IMAGES, "image-slow")))
    for name, (message, fix) in IMAGES.items():
        answer = why(place, name, name)
        assert message in answer["message"]
        assert fix in answer["fix"]
        assert answer["numbers"]["image"] == "registry.example.com/training:v1"
        assert any(item.startswith("scheduling: 1 pod on drill-") for item in answer["ruledOut"])
    assert "no such host" in why(place, "image-unreachable", "image-unreachable")["message"]
    answer = why(place, "image-slow", "starting", when=is_pulling)
    assert "has been pulling registry.example.com/training:v1 on drill-" in answer["message"]
    advance_clock(monkeypatch, minutes=7)
    answer = why(place, "image-slow", "image-slow")
    assert "has been pulling registry.example.com/training:v1 for 7m; nothing has failed" in answer["message"]


def advance_clock(monkeypatch: pytest.MonkeyPatch, minutes: int) -> None:
    """Advance the API server's clock for the command."""
    true = Session.server_time
    monkeypatch.setattr(Session, "server_time", lambda session: true(session) + minutes * 60)


@pytest.mark.slow
def test_container_configuration_and_mount_errors(place: Place) -> None:
    env = {"env": [{"name": "HF_TOKEN", "secret": "hf-token", "key": "token"}]}
    workdirs = {"workdirs": [{"path": "/data/set.json"}]}
    place.apply(
        training("secret", job=outcome("missing-secret"), environment=env),
        training("key", job=outcome("missing-key"), environment=env),
        training("root", job=outcome("root-refused")),
        training("mount", job=outcome("missing-mount"), storage=workdirs),
        training("network", job=outcome("no-sandbox")),
    )
    answer = why(place, "secret", "config-missing")
    assert answer["message"] == f"there is no Secret hf-token in {place.namespace}, which HF_TOKEN uses"
    create = f"kubectl create secret generic hf-token -n {place.namespace} --from-literal=token=..."
    assert answer["fix"].startswith(f"`{create}` with its value instead of `...`")
    answer = why(place, "key", "config-missing")
    assert answer["message"] == "the Secret hf-token has no key token, which a variable uses"
    answer = why(place, "root", "config-invalid")
    assert "container has runAsNonRoot and image will run as root" in answer["message"]
    answer = why(place, "mount", "mount-failed")
    assert answer["numbers"]["path"] == "/data/set.json"
    assert "/data/set.json on drill-" in answer["message"]
    assert "`storage.workdirs`" in answer["fix"]
    answer = why(place, "network", "sandbox-failed")
    assert 'plugin type="calico" failed (add)' in answer["message"]


CUDA = """\
step 41 loss 2.13
Traceback (most recent call last):
  File "/app/train.py", line 88, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of \
which 1.19 GiB is free. Process 17 has 77.95 GiB memory in use.
E0612 10:01:22.000 torch/distributed/elastic/multiprocessing/api.py:881] failed (exitcode: 1) local_rank: 0
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
"""
DNS = """\
Traceback (most recent call last):
  File "/app/train.py", line 3, in <module>
socket.gaierror: [Errno -3] Temporary failure in name resolution
requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): token=hf_abcdefghijklmnop
"""


def write_job_log(place: Place, name: str, text: str, *, previous: bool = False) -> None:
    """Write the log of a job's pods."""
    for pod in place.pods(name):
        place.plane.write_log(place.namespace, pod, text, previous=previous)


@pytest.mark.slow
def test_causes_of_crashed_trainings(place: Place) -> None:
    def ends(name: str, code: int, **others: Any) -> Document:
        return training(name, job=outcome("fail", exit_code=str(code)), **others)

    place.apply(
        training("oom", job=outcome("oom"), resources={"memory": "64Gi"}),
        ends("cuda", 1),
        ends("bus", 135, resources={"shm": "2Gi"}),
        ends("dns", 1),
        ends("handled", 3),
        ends("segv", 139),
        ends("found", 127),
        ends("kill", 137),
        ends("term", 143),
        training("start", job=outcome("command-not-found"), environment={"command": ["torchrun"]}),
    )
    names = ("oom", "cuda", "bus", "dns", "handled", "segv", "found", "kill", "term", "start")
    for name in names:
        place.until(lambda name=name: place.get("Job", name).get("status", {}).get("failed"), f"the end of {name}")
    write_job_log(place, "cuda", CUDA)
    write_job_log(place, "dns", DNS)
    write_job_log(place, "handled", CUDA + "retry with a smaller batch\nValueError: no\u2028samples left\n")
    answer = why(place, "oom", "out-of-memory")
    assert "used more than its limit of 64Gi memory, and was killed" in answer["message"]
    assert answer["numbers"]["limitBytes"] == 64 << 30
    assert answer["fix"].startswith("raise `resources.memory` above 64Gi")
    answer = why(place, "cuda", "cuda-out-of-memory")
    assert "it tried to allocate 2.00 GiB, 1.19 GiB of 79.15 GiB were free" in answer["message"]
    assert any(item["source"] == "log" and "CUDA out of memory" in item["text"] for item in answer["evidence"])
    answer = why(place, "bus", "shm-exhausted")
    assert answer["numbers"]["shm"] == "2Gi"
    assert answer["fix"].startswith("raise `resources.shm` above 2Gi")
    answer = why(place, "dns", "hub-unreachable")
    assert answer["message"].startswith("huggingface.co cannot be reached: requests.exceptions.ConnectionError")
    assert "exit code 1" in answer["message"]
    assert "hf_abcdefghijklmnop" not in json.dumps(answer)
    assert "ValueError: no\\u2028samples left" in why(place, "handled", "application-error")["message"]
    assert why(place, "segv", "segmentation-fault")["numbers"]["signal"] == "SIGSEGV"
    assert "exit code 127" in why(place, "found", "command-not-found")["message"]
    assert "SIGKILL" in why(place, "kill", "killed")["message"]
    assert "SIGTERM" in why(place, "term", "terminated")["message"]
    assert why(place, "start", "command-not-found")["message"] == "the command `torchrun` is not in the image"


@pytest.mark.slow
def test_causes_of_crashing_services(place: Place) -> None:
    place.apply(
        inference("loops", job=outcome("crash", exit_code="1")),
        inference("sick", job=outcome("probe-killed"), service={"health_check": "/health"}),
        inference("dumb", job=outcome("never-ready"), service={"health_check": "/health"}),
        inference("ends", job=outcome("complete")),
        notebook("note", job=outcome("oom")),
    )
    place.until(lambda: place.pods("loops"), "a pod")
    answer = why(place, "loops", "application-error", when=has_restarted)
    assert answer["fix"] == f"`gpuctl logs loops -n {place.namespace} --previous` shows what it wrote"
    write_job_log(place, "loops", "ImportError: libcudnn.so.9: cannot open shared object file\n", previous=True)
    assert "the library libcudnn.so.9 is not in the image" in why(place, "loops", "module-missing")["message"]
    answer = why(place, "sick", "probe-failed")
    assert answer["numbers"]["probe"] == "startup"
    assert "HTTP probe failed with statuscode: 503" in answer["message"]
    answer = why(place, "dumb", "probe-failed")
    assert answer["numbers"]["probe"] == "readiness"
    assert why(place, "note", "out-of-memory")["kind"] == "notebook"
    assert "exits without an error" in why(place, "ends", "application-error")["message"]


@pytest.mark.slow
def test_evicted_rejected_and_overdue_pods(place: Place) -> None:
    place.apply(
        training("out", job={**outcome("evicted"), "retries": 0}),
        training("rejected", job={**outcome("gpu-unavailable"), "retries": 0}),
        training("late", job={**outcome("overdue"), "max_runtime": "1h", "retries": 0}),
    )
    answer = why(place, "out", "evicted")
    assert answer["numbers"]["resource"] == "memory"
    assert "The node was low on resource: memory" in answer["message"]
    answer = why(place, "rejected", "node-refused")
    assert "requested number of devices unavailable for nvidia.com/gpu. Requested: 1, Available: 0" in answer["message"]
    answer = why(place, "late", "deadline-exceeded")
    assert "ran for longer than its max_runtime of 1h" in answer["message"]
    assert "`job.max_runtime`" in answer["fix"]


@pytest.mark.slow
def test_deadline_and_backoff_limit(place: Place) -> None:
    create_unchecked(place, training("hopeless", job={**outcome("fail", exit_code="9"), "retries": 1}))
    place.patch("Job", "hopeless", {"spec": {"activeDeadlineSeconds": 600}})
    place.apply(training("overdue"))
    place.running("overdue")
    place.patch("Job", "overdue", {"spec": {"activeDeadlineSeconds": 1}})
    answer = why(place, "overdue", "deadline-exceeded")
    assert answer["numbers"] == {"deadlineSeconds": 1}
    assert answer["also"] == []
    answer = why(place, "hopeless", "application-error")
    place.until(
        lambda: any(c["type"] == "Failed" for c in place.get("Job", "hopeless")["status"].get("conditions", [])),
        "its end",
    )
    answer = why(place, "hopeless", "application-error")
    assert any(item["source"] == "condition" and "BackoffLimitExceeded" in item["text"] for item in answer["evidence"])
    drop_advice("hopeless")
    place.kubectl("delete", "pods", "-l", "app=hopeless", "--wait=true")
    answer = why(place, "hopeless", "backoff-limit")
    assert answer["numbers"] == {"failedPods": 2, "backoffLimit": 1}
    assert answer["fix"] == f"`gpuctl rerun hopeless -n {place.namespace}`"


@pytest.mark.slow
def test_rollout_deadlock(place: Place, pools: None) -> None:
    create_unchecked(place, inference("serve", resources={"pool": FULL, "gpu": 8, "cpu": 1}, service={"replicas": 2}))
    place.running("serve", pods=2)
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    containers = [{"name": "main", "image": "registry.example.com/inference:v2"}]
    patch = json.dumps({"spec": {"strategy": rolling, "template": {"spec": {"containers": containers}}}})
    place.kubectl("patch", "deployment", "serve", "-p", patch)
    answer = why(place, "serve", "rollout-deadlock")
    assert "its new pods wait for 8 GPUs that its own old pods hold" in answer["message"]
    assert (answer["numbers"]["maxSurge"], answer["numbers"]["maxUnavailable"]) == (1, 0)
    place.kubectl("patch", "deployment", "serve", "-p", shlex.split(answer["fix"].strip("`"))[-1])
    place.until(lambda: place.gpuctl("why", "serve", "-o", "json").value["cause"] == "running", "the rollout")


@pytest.mark.slow
def test_lost_node(place: Place) -> None:
    labels = {"runwhere.ai/pool": LONELY}
    for name in ("gone", "mute"):
        place.plane.add_node(f"{LONELY}-{name}", labels={**labels, "runwhere.ai/gpu-type": name}, gpus=8)
    place.plane.wait_for_nodes()
    try:
        for name in ("gone", "mute"):
            place.apply(training(name, resources={"pool": LONELY, "gpu-type": name}))
        place.running("gone", "mute")
        place.plane.kubectl("annotate", "node", f"{LONELY}-mute", "gpuctl.test/ready=false")
        answer = why(place, "mute", "node-lost")
        assert "is not ready" in answer["message"]
        assert answer["numbers"] == {"node": f"{LONELY}-mute", "pods": 1}
        place.plane.kubectl("delete", "node", f"{LONELY}-gone", "--wait=true")
        answer = why(place, "gone", "node-lost")
        assert answer["message"].startswith(f"the node {LONELY}-gone of its pod gone-")
        place.apply(training("new", resources={"pool": LONELY, "gpu-type": "mute"}))
        answer = why(place, "new", "nodes-not-ready")
        assert f"{LONELY}-mute" in answer["message"]
    finally:
        place.plane.kubectl("delete", "node", f"{LONELY}-mute")


@pytest.mark.slow
def test_preemption(place: Place, pools: None) -> None:
    place.apply(gpu_holder("slow-a", 8, priority="low"), gpu_holder("slow-b", 8, priority="low"))
    running = place.running("slow-a", "slow-b")
    for pod in running:
        place.plane.annotate(place.namespace, pod, termination="slow")
    place.apply(gpu_holder("urgent", 8, priority="high"), flags=("--yes",))
    answer = why(place, "urgent", "preempting")
    assert answer["numbers"]["leavingPods"] == 1
    assert "evicted pods to end, of Job/slow-" in answer["message"]
    place.running("urgent")
    victim = "slow-a" if why(place, "slow-a", "running", "gpu-shortage")["cause"] == "gpu-shortage" else "slow-b"
    answer = why(place, victim, "gpu-shortage")
    by = f"Preempted: by training/urgent in {place.namespace}, on node {FULL}-"
    assert any(item["text"].startswith(by) for item in answer["evidence"])
    # Slowly terminating pods would occupy GPUs of the next test.
    place.kubectl("delete", "jobs", "--all", "--wait=false")
    place.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")


@pytest.mark.slow
def test_gated_foreign_and_unmanaged_pods(place: Place) -> None:
    create_unchecked(place, training("gated"), schedulingGates=[{"name": "example.com/licence"}])
    create_unchecked(place, training("foreign"), schedulerName="volcano")
    create_unchecked(place, training("elsewhere"))
    place.kubectl("delete", "job", "elsewhere", "--wait=true")
    managed = json.loads(place.gpuctl("render", "-f", place.file(training("managed")), "--no-shared", "-o", "json").out)
    job = managed.get("items", [managed])[0]
    place.create({**job, "spec": {**job["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}})
    answer = why(place, "gated", "scheduling-gated")
    assert answer["numbers"]["gates"] == ["example.com/licence"]
    answer = why(place, "foreign", "unknown")
    assert "waits for the scheduler volcano, which has reported nothing for " in answer["message"]
    answer = why(place, "managed", "unknown")
    assert "the controller kueue.x-k8s.io/multikueue has to create its pods" in answer["message"]
    orphan = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "orphan-worker-0",
            "labels": {"app": "orphan", "runwhere.ai/job-type": "training"},
            "annotations": {"gpuctl.test/outcome": "image-not-found"},
            "ownerReferences": [
                {
                    "apiVersion": "kubeflow.org/v1",
                    "kind": "PyTorchJob",
                    "name": "orphan",
                    "uid": "1",
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "main", "image": "busybox:9"}], "nodeName": f"{POOL}-0"},
    }
    place.create(orphan)
    answer = why(place, "orphan", "image-not-found")
    assert "docker.io has no image busybox:9" in answer["message"]


@pytest.mark.slow
def test_finalizer_blocks_deletion(place: Place) -> None:
    place.apply(training("held"))
    place.running("held")
    place.patch("Job", "held", {"metadata": {"finalizers": ["example.com/archive"]}})
    place.kubectl("delete", "job", "held", "--wait=false")
    answer = why(place, "held", "terminating")
    assert answer["message"] == "it is being deleted, and the finalizer example.com/archive holds it"
    assert answer["numbers"]["finalizers"] == ["example.com/archive"]
    place.patch("Job", "held", {"metadata": {"finalizers": None}})


@pytest.mark.slow
def test_several_causes_at_once(place: Place, pools: None) -> None:
    """The cause to fix first is the main cause; the following ones are in `also`."""
    place.create(merged(QUOTA, {"spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}))
    place.until(lambda: place.get("ResourceQuota", "team").get("status", {}).get("hard"), "the quota")
    create_unchecked(
        place, inference("serve", job=outcome("image-not-found"), resources={"gpu": 2}, service={"replicas": 3})
    )

    def settled(answer: Answer) -> bool:
        """Return True when the two pods that the quota allows exist and their image pull has failed."""
        return answer["numbers"]["missingPods"] == 1 and [item["cause"] for item in answer["also"]] == [
            "image-not-found"
        ]

    answer = why(place, "serve", "quota-exceeded", when=settled)
    assert answer["message"].endswith("(1 of 3 pods are missing)")


def as_tenant(place: Place, monkeypatch: pytest.MonkeyPatch, rules: list[dict[str, list[str]]] | str) -> None:
    """Run commands as a user with these rights in the namespace and none elsewhere."""
    place.grant("nobody", rules)
    monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("nobody")))


@pytest.mark.slow
def test_why_with_rights_in_one_namespace(place: Place, pools: None, monkeypatch: pytest.MonkeyPatch) -> None:
    place.apply(
        gpu_holder("one"), gpu_holder("two"), training("fine"), training("broken", job=outcome("image-not-found"))
    )
    place.running("one", "two", "fine")
    place.apply(large())
    place.until(lambda: "FailedScheduling" in place.kubectl("get", "events"), "the scheduler")
    as_tenant(place, monkeypatch, "view")
    answer = why(place, "large", "gpu-shortage")
    assert answer["message"].startswith(f"needs 8 a100 on one node of {FULL}; ")
    assert answer["numbers"]["needPerPod"] == {"nvidia.com/gpu": 8}
    assert any("nodes and pods of all namespaces may not be read" in note for note in answer["notes"])
    assert "heldBy" not in answer["numbers"]
    assert why(place, "fine", "running")["notes"]
    assert why(place, "broken", "image-not-found")["numbers"]["image"] == "registry.example.com/training:v1"
    described = place.gpuctl("describe", "job", "large", "-o", "json").value
    assert described["why"]["cause"] == "gpu-shortage"


@pytest.mark.slow
def test_why_without_rights_to_events_logs_and_quotas(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create(QUOTA)
    place.until(lambda: place.get("ResourceQuota", "team").get("status", {}).get("hard"), "the quota")
    create_unchecked(place, training("over", resources={"gpu": 8}))
    create_unchecked(place, training("broken", job=outcome("image-not-found")))
    create_unchecked(place, training("cuda", job={**outcome("fail", exit_code="1"), "retries": 0}))
    why(place, "over", "quota-exceeded")
    place.until(lambda: place.get("Job", "cuda").get("status", {}).get("failed"), "its end")
    write_job_log(place, "cuda", CUDA)
    read = ["get", "list"]
    as_tenant(
        place,
        monkeypatch,
        [
            {"apiGroups": [""], "resources": ["pods", "services"], "verbs": read},
            {"apiGroups": ["batch", "apps"], "resources": ["jobs", "deployments", "statefulsets"], "verbs": read},
            {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": read},
        ],
    )
    answer = why(place, "over", "unknown", "starting")
    assert any("events may not be read" in note for note in answer["notes"])
    assert why(place, "broken", "image-not-found")["pod"].startswith("broken-")
    answer = why(place, "cuda", "application-error")
    assert "exit code 1" in answer["message"]
    assert any("logs may not be read" in note for note in answer["notes"])
    assert answer["fix"] == "ask a user who may read logs for its output"
    assert place.gpuctl("describe", "job", "broken").code == 0


@pytest.mark.slow
def test_why_names_the_pod_that_restarted(place: Place) -> None:
    place.apply(inference("serve", service={"replicas": 3}))
    pods = sorted(place.running("serve", pods=3))
    place.plane.annotate(place.namespace, pods[1], outcome="oom")
    answer = why(place, "serve", "out-of-memory", when=has_restarted)
    assert answer["pod"] == pods[1]
    assert f"of pod {pods[1]} used more than its limit of 4Gi memory" in answer["message"]


@pytest.mark.slow
def test_apply_wait_suggests_why(place: Place) -> None:
    slow = training("slow", job=outcome("image-not-found"))
    late = place.apply(slow, flags=("--wait", "--timeout", "1s"), code=1)
    assert f"`gpuctl why slow -n {place.namespace}` shows what it waits for" in late.err
    failing = training("fails", job={**outcome("fail"), "retries": 0})
    failed = place.apply(failing, flags=("--wait", "--timeout", "120s"), code=1)
    assert f"`gpuctl why fails -n {place.namespace}` shows why" in failed.err


def event_about(place: Place, pod: str, reason: str, message: str, *, minutes: int = 0, **others: Any) -> None:
    """Create an event about a pod, as any user with the right to create events can; ``minutes`` ago."""
    time = (datetime.now(timezone.utc) - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": place.namespace, "name": pod, "uid": place.uid("Pod", pod)}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{pod}.", "namespace": place.namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": "kubelet"},
        "firstTimestamp": time,
        "lastTimestamp": time,
    }
    place.create(merged(event, others))


@pytest.mark.slow
def test_outdated_events_are_ignored(place: Place) -> None:
    """The earlier problem is solved: the sandbox exists, and an image is being pulled."""
    place.apply(training("train", job=outcome("image-slow")), training("stuck", job=outcome("no-sandbox")))
    why(place, "train", "starting", when=is_pulling)
    (pod,) = place.pods("train")
    event_about(place, pod, "FailedMount", 'MountVolume.SetUp failed for volume "x" : timed out', minutes=5)
    event_about(place, pod, "FailedCreatePodSandBox", "Failed to create pod sandbox: no network", minutes=4)
    assert "has been pulling" in why(place, "train", "starting")["message"]
    why(place, "stuck", "sandbox-failed")
    (pod,) = place.pods("stuck")
    event_about(place, pod, "FailedMount", 'MountVolume.SetUp failed for volume "x" : timed out', minutes=5)
    assert [item["cause"] for item in why(place, "stuck", "sandbox-failed")["also"]] == []


@pytest.mark.slow
def test_forged_events_are_ignored_or_escaped(place: Place) -> None:
    place.apply(training("train", job=outcome("image-slow")))
    why(place, "train", "starting", when=is_pulling)
    (pod,) = place.pods("train")
    told = {"reason": "FailedCreatePodSandBox", "message": "it is all lost"}
    later = (datetime.now(timezone.utc) + timedelta(seconds=90)).strftime("%Y-%m-%dT%H:%M:%SZ")
    event_about(place, pod, **told, source={"component": "somebody"}, lastTimestamp=later)
    event_about(place, pod, **told, involvedObject={"uid": "0"}, lastTimestamp=later)
    event_about(place, pod, **told, involvedObject={"uid": None}, lastTimestamp=later)
    assert why(place, "train", "starting")["also"] == []
    odd = "no \x1b]0;title\x07\u202enetwork " + "x" * 100_000
    event_about(place, pod, "FailedCreatePodSandBox", odd, lastTimestamp=later)
    answer = why(place, "train", "sandbox-failed")
    assert "no \\x1b]0;title\\x07\\u202enetwork" in answer["message"]
    assert len(answer["message"]) < 5000
    assert "\x1b" not in place.gpuctl("why", "train").out


@pytest.mark.slow
def test_claim_waiting_for_provisioning(place: Place) -> None:
    name = f"slow-{place.namespace}"[:60]
    place.plane.create(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            "provisioner": "example.com/disks",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": name,
        },
    }
    try:
        place.create(claim)
        mounts = {"workdirs": [{"path": "/data", "pvc": {"claim": "data"}}]}
        create_unchecked(place, training("large", storage=mounts, resources={"gpu": 65}))
        assert why(place, "large", "gpu-shortage")["also"] == []
        create_unchecked(place, training("train", storage=mounts))
        answer = why(place, "train", "claim-unbound")
        assert answer["message"].startswith(f"the scheduler has chosen {POOL}-")
        assert answer["message"].endswith(
            "and the PersistentVolumeClaim data waits for the volume that example.com/disks has to provision"
        )
        assert answer["numbers"]["selectedNode"].startswith(f"{POOL}-")
        about = {"kind": "PersistentVolumeClaim", "name": "data", "uid": place.uid("PersistentVolumeClaim", "data")}
        (pod,) = place.pods("train")
        refused = "failed to provision volume: quota of disks is used up"
        event_about(
            place, pod, "ProvisioningFailed", refused, involvedObject=about, source={"component": "example.com/disks_1"}
        )
        assert why(place, "train", "claim-unbound")["message"].endswith(refused)
    finally:
        place.plane.kubectl("delete", "storageclass", name)


@pytest.mark.slow
def test_service_without_endpoints(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = inference("serve")
    place.apply(serve)
    place.running("serve")
    why(place, "serve", "running")
    place.patch("Service", "svc-serve", {"spec": {"selector": {"app": "other"}}})
    answer = why(place, "serve", "service-empty")
    assert answer["message"].startswith(
        "its 1 pod is ready, but the Service svc-serve selects none of them (app=other, "
    )
    place.patch("Service", "svc-serve", {"spec": {"selector": {"app": "serve"}}})
    port = {"name": "main", "port": 8000, "targetPort": "http"}
    place.patch("Service", "svc-serve", {"spec": {"ports": [port]}})
    answer = why(place, "serve", "service-empty")
    assert "leads to a port `http` that none of their containers has" in answer["message"]
    place.kubectl("delete", "service", "svc-serve")
    answer = why(place, "serve", "service-missing")
    assert f"there is no Service svc-serve in {place.namespace}" in answer["message"]
    place.apply(serve)
    why(place, "serve", "running")
    place.plane.stop_program("kube-controller-manager", kill=True)
    try:
        place.kubectl("delete", "endpointslices", "-l", "kubernetes.io/service-name=svc-serve")
        why(place, "serve", "running")
        advance_clock(monkeypatch, minutes=2)
        assert "the Service svc-serve has no endpoints" in why(place, "serve", "service-empty")["message"]
    finally:
        place.plane.start_program("kube-controller-manager")


@pytest.mark.slow
def test_missing_service_of_training_ranks(place: Place) -> None:
    place.apply(training("ranks", resources={"nodes": 2}), notebook("note"), compute("comp"))
    place.running("ranks", pods=2)
    place.running("note", "comp")
    for name in ("ranks", "note", "comp"):
        why(place, name, "running")
    name = place.get("Job", "ranks")["spec"]["template"]["spec"]["subdomain"]
    place.kubectl("delete", "service", name)
    answer = why(place, "ranks", "service-missing")
    assert answer["message"].startswith(f"there is no Service {name} in {place.namespace}")


@pytest.mark.slow
def test_autoscaler_without_metric(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.apply(inference("serve"))
    place.running("serve")
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric]}
    place.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "keda-serve"},
            "spec": spec,
        }
    )

    def has_scaling_condition() -> bool:
        found = place.get("HorizontalPodAutoscaler", "keda-serve").get("status") or {}
        return any(item["type"] == "ScalingActive" for item in found.get("conditions") or [])

    place.until(has_scaling_condition, "the autoscaler's controller")
    why(place, "serve", "running")
    advance_clock(monkeypatch, minutes=2)
    answer = why(place, "serve", "autoscaler-failing")
    assert answer["message"].startswith(
        "its autoscaler keda-serve does not scale it, 1 pod stays: FailedGetResourceMetric"
    )


@pytest.mark.slow
def test_paused_rollout(place: Place) -> None:
    place.apply(inference("serve"))
    place.running("serve")
    place.kubectl("rollout", "pause", "deployment/serve")
    answer = why(place, "serve", "running")
    assert "its rollout is paused (spec.paused), so changes of its pods wait until it is resumed" in answer["message"]
    place.kubectl("set", "image", "deployment/serve", "main=registry.example.com/inference:v2")
    answer = why(place, "serve", "rollout-paused", when=lambda found: found["numbers"]["updatedPods"] == 0)
    assert answer["numbers"] == {"pods": 1, "updatedPods": 0}
    assert answer["fix"] == f"`kubectl rollout resume deployment/serve -n {place.namespace}`"


@pytest.mark.slow
def test_pods_of_a_node_that_shut_down(place: Place) -> None:
    place.apply(compute("serve"), training("train", job={"retries": 0}), training("again", job={"retries": 2}))
    place.running("serve", "train", "again")
    pods = {name: next(iter(place.pods(name))) for name in ("serve", "train", "again")}
    for pod in pods.values():
        place.plane.annotate(place.namespace, pod, outcome="shutdown")
    place.until(lambda: len(place.pods("serve")) > 1, "another pod")
    place.running("serve")
    answer = why(place, "serve", "running")
    told = [item for item in answer["evidence"] if item["object"] == f"pod/{pods['serve']}"]
    assert told == []
    (evicted,) = [item for item in answer["also"] if item["cause"] == "evicted"]
    assert evicted["fix"] == "its controller replaces the pod"
    place.until(lambda: "Failed" in str(place.get("Job", "train")["status"].get("conditions")), "its end")
    answer = why(place, "train", "evicted")
    assert "was shut down, and with it the pod train-" in answer["message"]
    assert answer["fix"] == f"`gpuctl rerun train -n {place.namespace}`"
    assert all("rerun" not in item["fix"] for item in why(place, "again", "running", "evicted")["also"])


@pytest.mark.slow
def test_shared_memory_limit_exceeded(place: Place) -> None:
    place.apply(training("shm", job={**outcome("volume-full"), "retries": 0}, resources={"shm": "2Gi"}))
    answer = why(place, "shm", "evicted")
    assert 'exceeds the limit "2Gi"' in answer["message"]
    assert answer["fix"] == "raise `resources.shm` above 2Gi, or use fewer data loader workers"


@pytest.mark.slow
def test_failed_init_container(place: Place) -> None:
    first = {"initContainers": [{"name": "fetch", "image": "busybox:1", "command": ["fetch"]}]}
    place.apply(inference("serve", job=outcome("init-fails"), service={"replicas": 2}, podPatch=first))
    answer = why(place, "serve", "application-error")
    assert "in init container fetch of pod serve-" in answer["message"]
    flags = f"--pod {answer['pod']} -c fetch --previous"
    assert answer["fix"] == f"`gpuctl logs serve -n {place.namespace} {flags}` shows what it wrote"


GPU_ERRORS = {
    "nccl-error": "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:268, unhandled system error",
    "gpu-hardware-error": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
    "gpu-driver-error": "RuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
}


@pytest.mark.slow
def test_gpu_errors_in_logs(place: Place) -> None:
    job = {**outcome("fail", exit_code="1"), "retries": 0}
    place.apply(*(training(cause, job=job) for cause in GPU_ERRORS))
    for cause, line in GPU_ERRORS.items():
        place.until(lambda cause=cause: place.get("Job", cause).get("status", {}).get("failed"), f"the end of {cause}")
        write_job_log(place, cause, f"step 41 loss 2.13\n{line}\n")
        answer = why(place, cause, cause)
        assert line in answer["message"]
        assert answer["numbers"]["node"].startswith(f"{POOL}-")


PROGRAM_ERRORS = {
    "gpu-not-requested": "RuntimeError: No CUDA GPUs are available",
    "gpu-unsupported": "RuntimeError: CUDA error: no kernel image is available for execution on the device",
    "kv-cache-too-small": "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that "
    "can be stored in KV cache (12345).",
    "disk-full": "OSError: [Errno 28] No space left on device: '/output/step-9'",
    "permission-denied": "PermissionError: [Errno 13] Permission denied: '/output/run'",
    "file-missing": "python: can't open file '/workspace/train.py': [Errno 2] No such file or directory",
    "module-missing": "ModuleNotFoundError: No module named 'flash_attn'",
    "address-in-use": "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
    "address. port: 29500, code: -98, name: EADDRINUSE, message: address already in use",
    "rendezvous-failed": "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 joined.",
}


@pytest.mark.slow
def test_program_errors_in_logs(place: Place) -> None:
    job = {**outcome("fail", exit_code="1"), "retries": 0}
    storage = {"workdirs": [{"path": "/output"}]}
    gpus = {cause: int(cause != "gpu-not-requested") for cause in PROGRAM_ERRORS}
    place.apply(*(training(cause, job=job, resources={"gpu": gpus[cause]}, storage=storage) for cause in gpus))
    fixes = {}
    for cause, line in PROGRAM_ERRORS.items():
        place.until(lambda cause=cause: place.get("Job", cause).get("status", {}).get("failed"), f"the end of {cause}")
        write_job_log(place, cause, f"step 41\nTraceback (most recent call last):\n[rank0]: \x1b[31m{line}\x1b[0m\n")
        answer = why(place, cause, cause)
        assert line in answer["message"]
        fixes[cause] = answer["fix"]
    assert fixes["gpu-not-requested"] == "set `resources.gpu`, for instance `resources: {gpu: 1}`"
    assert fixes["kv-cache-too-small"].startswith("`--max-model-len 12345`")
    assert f"on {POOL}-" in fixes["permission-denied"]
    assert "let the user of the image own /output" in fixes["permission-denied"]
    assert "use a claim (`pvc`)" in fixes["disk-full"]


@pytest.mark.slow
def test_sidecar_that_outlives_the_program(place: Place) -> None:
    shipper = {"containers": [{"name": "shipper", "image": "busybox:1", "command": ["ship"]}]}
    place.apply(training("side", resources={"gpu": 2}, podPatch=shipper))
    place.running("side")
    (pod,) = place.pods("side")
    status = place.get("Pod", pod)["status"]
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": status["startTime"], "finishedAt": status["startTime"]}
    for item in status["containerStatuses"]:
        if item["name"] == "main":
            item.update(state={"terminated": ended}, ready=False, started=False)
    change = json.dumps({"status": {"containerStatuses": status["containerStatuses"]}})
    place.kubectl("patch", "pod", pod, "--subresource=status", "--type=merge", "-p", change)
    answer = why(place, "side", "sidecar-running")
    assert "container shipper still runs, so the pod keeps running, and holds 2 GPUs" in answer["message"]
    assert answer["numbers"]["runningContainers"] == ["shipper"]
    assert "`podPatch.initContainers`" in answer["fix"]


@pytest.mark.slow
def test_no_execute_taint(place: Place) -> None:
    pool, node = "why-upkeep", "why-upkeep-1"
    place.plane.add_node(node, labels={"runwhere.ai/pool": pool}, gpus=8)
    place.plane.wait_for_nodes()
    try:
        place.apply(training("train", resources={"pool": pool}))
        place.running("train")
        place.plane.kubectl("taint", "node", node, "example.com/maintenance=disks:NoExecute")
        answer = why(place, "train", "taint")
        assert "toler" not in answer["fix"]
        assert f"`kubectl taint node {node} example.com/maintenance=disks:NoExecute-`" in answer["fix"]
        assert any(item["text"].startswith("TaintManagerEviction") for item in answer["evidence"])
    finally:
        with contextlib.suppress(RuntimeError):
            place.plane.kubectl("delete", "node", node)

"""Compiler output on a real API server and scheduler: accepted under strict validation, bound to nodes, reachable."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

import gpuctl
from control_plane import ControlPlane
from golden import cases
from gpuctl.backend.emitter import emit_stream
from support.cluster_tools import fresh_namespaces

EXAMPLES = {name: [cases.ROOT / "examples" / name] for name in ("team-repo", "tour")}
"""The examples that need neither controllers nor devices of their own; ``test_examples.py`` applies the others."""
PRODUCT_DOCUMENTS = {
    name: [case / "input" for case in sorted(cases.GOLDEN.glob(f"seed-{name}-*")) if not (case / "exit").exists()]
    for name in ("architecture", "pools", "prd", "readme")
}
"""The examples of the product's documents, those of one document together."""
DOMAIN = "runwhere.ai"


@pytest.fixture(scope="module")
def no_priorities(plane: ControlPlane) -> None:
    """Delete the priority classes of other tests: a class's value is immutable, and golden platforms use other values."""
    plane.kubectl(
        "delete", "priorityclass", *(f"gpuctl-{level}" for level in ("high", "medium", "low")), "--ignore-not-found"
    )


def _ensure_namespaces(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    wanted = {obj["metadata"].get("namespace", "default") for obj in objects}
    there = plane.requests.call("GET", "/api/v1/namespaces")["items"]
    present = {item["metadata"]["name"] for item in there}
    # A namespace of another test may still be terminating.
    going = {item["metadata"]["name"] for item in there if item["metadata"].get("deletionTimestamp")}
    fresh_namespaces(plane, *sorted(wanted - present | wanted & going))


def _rendered() -> list[str]:
    names = []
    for name in cases.case_names():
        args = cases.arguments(name)
        # Node manifests are for server-side apply by gpuctl itself; this dry-run would create the Node.
        if args[0] == "render" and not (cases.GOLDEN / name / "exit").exists() and not {"json", "--nodes"} & set(args):
            names.append(name)
    return names


@pytest.mark.parametrize("name", _rendered())
def test_api_server_accepts_every_golden_output(
    plane: ControlPlane, jobset: None, no_priorities: None, name: str
) -> None:
    objects = list(yaml.load_all(cases.expected(name).stdout, yaml.CSafeLoader))
    _ensure_namespaces(plane, objects)
    assert plane.dry_run(yaml.safe_dump_all(filter(_is_served, objects), sort_keys=False)) == []


def _is_served(obj: dict[str, Any]) -> bool:
    """Return False for kinds of Kueue, which is not installed here, and for a minimum of 0 pods, whose feature gate
    HPAScaleToZero is off.
    """
    return not obj["apiVersion"].startswith("kueue.") and obj.get("spec", {}).get("minReplicas") != 0


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [*EXAMPLES, *PRODUCT_DOCUMENTS])
def test_pods_bind_to_the_intended_nodes(plane: ControlPlane, jobset: None, prefix: str, tmp_path: Path) -> None:
    """Apply a whole example on nodes that match its pools; every pod binds to a node of its pool and GPU type.

    Multi-node trainings are indexed Jobs here. ``test_jobsets.py`` tests JobSets with a running controller.
    """
    namespace = f"example-{prefix}"
    documents = tmp_path / prefix
    for directory in (EXAMPLES | PRODUCT_DOCUMENTS)[prefix]:
        shutil.copytree(directory, documents, dirs_exist_ok=True)
    for path in documents.rglob("platform.yaml"):
        path.write_text(re.sub(r"(?m)^  backend: jobset.*\n", "", path.read_text(encoding="utf-8")), encoding="utf-8")
    result = gpuctl.compile(documents, namespace=namespace, shared=True, nodes=True)
    assert result.ok
    workloads = [doc for doc in result.documents if doc.kind in ("training", "inference", "notebook", "compute")]
    types = {(doc.model.resources.pool, doc.gpu_type or "") for doc in workloads}
    size = {"gpus": 64, "cpu": "1024", "memory": "8Ti"}
    nodes = {f"{prefix}-other": {**size, "labels": {f"{DOMAIN}/pool": "somebody-elses"}}}
    for number, (pool, gpu_type) in enumerate(sorted(types)):
        labels = {} if pool == "default" else {f"{DOMAIN}/pool": pool}
        if gpu_type:
            labels[f"{DOMAIN}/gpu-type"] = gpu_type
        nodes |= {f"{prefix}-{number}-{copy}": {**size, "labels": labels} for copy in range(6)}
    plane.add_nodes(nodes)
    try:
        objects = [obj for obj in result.objects if obj["kind"] != "Node"]
        _ensure_namespaces(plane, objects)
        kinds = "jobs,deployments,statefulsets,services,hpa,resourcequotas"
        for used in sorted({document.namespace for document in workloads}):
            # Wait until leftovers of an earlier run are deleted, not just terminating.
            plane.kubectl("delete", kinds, "--all", "-n", used)
        _bind_claims(plane, objects)
        plane.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", input=emit_stream(objects))
        for document in workloads:
            _check_pods(plane, document, prefix)
            _check_endpoints(plane, document)
    finally:
        # Two examples may share a namespace, where the quota of one would count the pods of the other.
        for used in sorted({document.namespace for document in workloads}):
            plane.kubectl("delete", kinds, "--all", "-n", used, "--wait=false")
        names = plane.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}").split()
        plane.kubectl("delete", "node", *[name for name in names if name.startswith(f"{prefix}-")])


def _bind_claims(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    """Create volumes for the claims that pods mount: a pod with a missing or unbound claim stays pending."""
    for obj in objects:
        pod = obj.get("spec", {}).get("template", {}).get("spec", {})
        for volume in pod.get("volumes", []):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName")
            if claim is None:
                continue
            namespace = obj["metadata"]["namespace"]
            storage = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
            size = {"storage": "1Gi"}
            reference = {"namespace": namespace, "name": claim}
            items = [
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": f"{namespace}-{claim}"},
                    "spec": {**storage, "capacity": size, "hostPath": {"path": "/tmp"}, "claimRef": reference},
                },
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": reference,
                    "spec": {**storage, "resources": {"requests": size}, "volumeName": f"{namespace}-{claim}"},
                },
            ]
            for item in items:
                plane.kubectl("apply", "-f", "-", input=json.dumps(item))


def _check_pods(plane: ControlPlane, document: Any, prefix: str) -> None:
    name, namespace = document.model.job.name, document.namespace
    selector = quote(f"app={name},{DOMAIN}/job-type={document.kind}")
    path = f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}"

    def running() -> list[dict[str, Any]]:
        pods = plane.requests.call("GET", path)["items"]
        return pods if pods and all(pod["status"].get("phase") == "Running" for pod in pods) else []

    there = plane.requests.call("GET", "/api/v1/nodes")["items"]
    nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in there}
    for pod in plane.wait_for(running, f"the pods of {name}"):
        node = pod["spec"]["nodeName"]
        assert node.startswith(f"{prefix}-"), node
        assert nodes[node].get(f"{DOMAIN}/pool", "default") == document.model.resources.pool
        if document.gpu_type:
            assert nodes[node][f"{DOMAIN}/gpu-type"] == document.gpu_type


def _check_endpoints(plane: ControlPlane, document: Any) -> None:
    if document.kind == "training":
        return
    service = f"svc-{document.model.job.name}"

    def ready() -> list[Any]:
        slices = _slices(plane, document.namespace, service)
        found = [endpoint for item in slices for endpoint in item.get("endpoints") or []]
        return found if all(endpoint["conditions"]["ready"] for endpoint in found) else []

    plane.wait_for(ready, f"endpoints of {service} that are ready")


def _slices(plane: ControlPlane, namespace: str, service: str) -> list[dict[str, Any]]:
    """Return the EndpointSlices of a Service."""
    selector = quote(f"kubernetes.io/service-name={service}")
    path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={selector}"
    found: list[dict[str, Any]] = plane.requests.call("GET", path)["items"]
    return found


@pytest.fixture
def twins(plane: ControlPlane) -> Iterator[None]:
    """Add a node, and delete the namespace of an earlier attempt."""
    plane.kubectl("delete", "namespace", "twins", "--ignore-not-found")
    plane.add_node("selectors", cpu="64", memory="256Gi")
    yield
    plane.kubectl("delete", "namespace", "twins", "--wait=false")
    plane.kubectl("delete", "node", "selectors")


def test_service_excludes_pods_of_another_kind_with_its_name(plane: ControlPlane, twins: None) -> None:
    """A selector with only ``app`` would put a training's pods behind an inference's Service."""
    common = "environment: {image: 'a:1'}\nresources: {cpu: 1, memory: 1Gi}\n"
    kinds = ("training", "inference")
    objects = []
    for kind in kinds:
        text = f"kind: {kind}\nversion: v0.1\njob: {{name: twin, namespace: twins}}\n{common}"
        result = gpuctl.compile(gpuctl.Source(f"{kind}.yaml", text))
        assert result.ok
        objects += result.objects
    _ensure_namespaces(plane, [obj for obj in objects if obj["kind"] != "Namespace"])
    plane.kubectl("apply", "--server-side", "-f", "-", input=emit_stream(objects))
    plane.wait_for(
        lambda: plane.kubectl("get", "pods", "-n", "twins", "--no-headers").count("Running") == 2, "both pods"
    )

    def behind() -> list[str]:
        slices = _slices(plane, "twins", "svc-twin")
        return [endpoint["targetRef"]["name"] for item in slices for endpoint in item["endpoints"] or ()]

    plane.wait_for(behind, "a pod behind the Service")
    time.sleep(1)
    assert [name.rpartition("-")[0].rpartition("-")[0] for name in behind()] == ["twin"]

"""The manifests in deploy/ as kustomize builds them, and their validation by an API server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from control_plane import ControlPlane

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def kustomized(plane: ControlPlane, directory: str) -> list[dict[str, Any]]:
    """The objects of a directory of deploy/."""
    return list(yaml.load_all(plane.kubectl("kustomize", str(DEPLOY / directory)), yaml.CSafeLoader))


def accept(plane: ControlPlane, objects: list[dict[str, Any]]) -> None:
    """See that the API server takes every object, by its strict validation; pods by the strictest Pod Security standard.

    The roles and the namespace of deploy/rbac have to be there.
    """
    plane.kubectl("label", "namespace", "gpuctl-system", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    for obj in objects:
        made = _made(plane, obj)
        assert made["metadata"].get("namespace") == obj["metadata"].get("namespace")
        spec = obj["spec"]["jobTemplate"]["spec"] if obj["kind"] == "CronJob" else obj.get("spec", {})
        if obj["kind"] in {"CronJob", "Deployment"}:
            metadata = {"name": "pod", "namespace": "gpuctl-system"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec["template"]["spec"]}
            _made(plane, pod)


def _made(plane: ControlPlane, obj: dict[str, Any]) -> dict[str, Any]:
    status, value = plane.requests.try_out(obj)
    assert status < 300, f"{obj['kind']} {obj['metadata']['name']}: {status} {value.get('message')}"
    return value

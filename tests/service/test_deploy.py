"""What deploy/service puts into a cluster: accepted as it is, and enough for the service, with nothing to spare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from gpuctl_server.settings import ServerSettings

ROOT = Path(__file__).resolve().parents[2] / "deploy"
FLAVOURS = ("base", "tokens")


@pytest.fixture(scope="module")
def roles(plane: ControlPlane) -> None:
    """The roles that the service's are made of."""
    plane.kubectl("apply", "-k", str(ROOT / "rbac"))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_the_api_server_accepts_it(plane: ControlPlane, roles: None, flavour: str) -> None:
    """Every object, by its strict validation; its pods by the strictest Pod Security standard."""
    plane.kubectl("label", "namespace", "gpuctl-system", "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    objects = yaml.safe_load_all(plane.kubectl("kustomize", str(ROOT / "service" / flavour)))
    for obj in objects:
        flags = ("--dry-run=server", "--validate=strict", "-o", "json")
        made = json.loads(plane.kubectl("create", *flags, "-f", "-", input=json.dumps(obj)))
        assert made["metadata"].get("namespace") == obj["metadata"].get("namespace")
        if obj["kind"] == "Deployment":
            metadata = {"name": "pod", "namespace": "gpuctl-system"}
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": obj["spec"]["template"]["spec"]}
            plane.kubectl("create", *flags, "-f", "-", input=json.dumps(pod))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_its_settings_are_settings(plane: ControlPlane, flavour: str) -> None:
    for obj in yaml.safe_load_all(plane.kubectl("kustomize", str(ROOT / "service" / flavour))):
        if obj["kind"] == "ConfigMap":
            found = ServerSettings.made(yaml.safe_load(obj["data"]["server.yaml"]))
            assert found.auth == {"base": "kubernetes", "tokens": "tokens"}[flavour]
            return
    pytest.fail("there are no settings")


def test_its_pod_is_confined(plane: ControlPlane) -> None:
    """Another user than root, a file system that is only read, no rights of the kernel's."""
    (deployment,) = (obj for obj in _objects(plane, "base") if obj["kind"] == "Deployment")
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    own = container["securityContext"]
    assert own == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["terminationGracePeriodSeconds"] > ServerSettings.made({}).shutdown_timeout


def _objects(plane: ControlPlane, flavour: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(ROOT / "service" / flavour))))

"""The manifests of deploy/service: the API server accepts them, and the service gets all it needs and no more."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from control_plane import ControlPlane
from gpuctl_server.server_settings import ServerSettings
from support.deployments import DEPLOY, accept, kustomized
from support.prometheus_server import prometheus_programs, running_prometheus
from support.served import Served

FLAVOURS = ("base", "tokens", "example")


@pytest.fixture(scope="module")
def roles(plane: ControlPlane) -> None:
    """The ClusterRoles that are aggregated into those of the service."""
    plane.kubectl("apply", "-k", str(DEPLOY / "rbac"))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_api_server_accepts_every_manifest(plane: ControlPlane, roles: None, flavour: str) -> None:
    """Strict validation of every object; the pods comply with the restricted Pod Security Standard."""
    accept(plane, _objects(plane, flavour))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_config_map_holds_valid_settings(plane: ControlPlane, flavour: str) -> None:
    for obj in _objects(plane, flavour):
        if obj["kind"] == "ConfigMap" and "data" in obj:
            found = ServerSettings.made(yaml.safe_load(obj["data"]["server.yaml"]))
            assert found.auth == ("tokens" if flavour == "tokens" else "kubernetes")
            # Jobs without a namespace must not be created in the namespace of the service.
            assert found.namespace == "default"
            return
    pytest.fail("no ConfigMap with settings")


def test_pod_security_context_is_restricted(plane: ControlPlane) -> None:
    """A non-root user, a read-only root file system, no capabilities."""
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


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_probes_ports_and_selectors_match(plane: ControlPlane, served: Served, flavour: str) -> None:
    """Probes use paths that need no token, ports are those the service listens on, selectors match the pods."""
    found = {obj["kind"]: obj for obj in _objects(plane, flavour)}
    spec = found["Deployment"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    (port,) = container["ports"]
    exposed = re.search(r"^EXPOSE (\d+)$", (DEPLOY / "service" / "Dockerfile").read_text(), re.MULTILINE)
    assert exposed is not None
    assert (port["name"], port["containerPort"]) == ("http", int(exposed[1]))
    assert port["containerPort"] == ServerSettings.model_fields["port"].default
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["name"]
        assert httpx.get(f"{served.url}{asked['path']}").status_code == 200
    # An unavailable API server must not cause restarts of the service, also while it starts.
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert [(item["name"], item["targetPort"]) for item in found["Service"]["spec"]["ports"]] == [("http", "http")]
    policy = found["NetworkPolicy"]["spec"]
    assert {item["port"] for rule in policy["ingress"] for item in rule["ports"]} == {"http"}
    out = {item["port"] for rule in policy["egress"] for item in rule["ports"]}
    settings = ServerSettings.made(yaml.safe_load(found["ConfigMap"]["data"]["server.yaml"]))
    asked_port = urlsplit(settings.prometheus).port if settings.prometheus else 9090
    assert {53, 443, 6443, asked_port} == out
    budget = found["PodDisruptionBudget"]["spec"]
    assert budget["minAvailable"] < spec["replicas"]
    for selector in (
        found["Service"]["spec"]["selector"],
        policy["podSelector"]["matchLabels"],
        budget["selector"]["matchLabels"],
        spec["selector"]["matchLabels"],
    ):
        assert selector
        assert selector.items() <= labels.items()


def test_shipped_scrape_config_scrapes_the_service(served: Served, tmp_path: Path) -> None:
    """A real Prometheus with the configuration of deploy/service/monitoring, except the address and the token path."""
    (shipped,) = yaml.safe_load((DEPLOY / "service" / "monitoring" / "prometheus.yaml").read_text())["scrape_configs"]
    token = tmp_path / "token"
    token.write_text(served.tokens["prometheus"])
    how = {
        "metrics_path": shipped["metrics_path"],
        "authorization": {**shipped["authorization"], "credentials_file": str(token)},
    }
    target = urlsplit(served.url).netloc
    for name, right in (("right", how), ("wrong", {"metrics_path": how["metrics_path"]})):
        directory = tmp_path / name
        directory.mkdir()
        with running_prometheus(directory, targets=[target], how=right) as address:
            assert scraped_up(address) == ("1" if name == "right" else "0")
            if name == "right":
                query = {"query": "gpuctl_server_mirror_ready"}
                (found,) = httpx.get(f"{address}/api/v1/query", params=query).json()["data"]["result"]
                assert float(found["value"][1]) == 1


def scraped_up(address: str) -> str:
    """Return the `scraped_up` metric of the only target ("1" or "0") after the first scrape."""
    end = time.monotonic() + 60
    while not (found := httpx.get(f"{address}/api/v1/query", params={"query": "up"}).json()["data"]["result"]):
        assert time.monotonic() < end
        time.sleep(0.1)
    return str(found[0]["value"][1])


def test_shipped_discovery_names_the_service(plane: ControlPlane, tmp_path: Path) -> None:
    """The shipped files are valid Prometheus configuration, and name the Service, its port and its labels."""
    (scrape,) = yaml.safe_load((DEPLOY / "service" / "monitoring" / "prometheus.yaml").read_text())["scrape_configs"]
    # Debian's Prometheus is built without Kubernetes service discovery.
    checkable = {key: value for key, value in scrape.items() if key != "kubernetes_sd_configs"}
    path = tmp_path / "prometheus.yaml"
    path.write_text(yaml.safe_dump({"scrape_configs": [checkable]}))
    command = [prometheus_programs() / "promtool", "check", "config", "--syntax-only", path]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (service,) = (obj for obj in _objects(plane, "base") if obj["kind"] == "Service")
    (port,) = service["spec"]["ports"]
    assert scrape["relabel_configs"][0]["regex"] == f"{service['metadata']['name']};{port['name']}"
    assert scrape["kubernetes_sd_configs"][0]["namespaces"]["names"] == [service["metadata"]["namespace"]]
    monitor = yaml.safe_load((DEPLOY / "service" / "monitoring" / "service-monitor.yaml").read_text())
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"]) == (port["name"], scrape["metrics_path"])


def _objects(plane: ControlPlane, flavour: str) -> list[dict[str, Any]]:
    return kustomized(plane, f"service/{flavour}")

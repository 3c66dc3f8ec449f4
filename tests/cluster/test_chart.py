"""The Helm chart of ``deploy/chart``: the same objects as those of the Kustomize directories, accepted by a real API
server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from gpuctl.release import __version__
from gpuctl_server.server_settings import ServerSettings
from gpuctl_usage.usage_settings import UsageSettings
from support.deployments import DEPLOY, accept, kustomized
from support.missing_parts import missing

CHART = DEPLOY / "chart"
BUILD = Path(__file__).resolve().parents[1] / "binaries" / "build"
PROMETHEUS = "http://prometheus-operated.monitoring:9090"
COLLECTOR = {"usage": {"enabled": True}, "prometheus": PROMETHEUS}
ONLY_COLLECTOR = {**COLLECTOR, "service": {"enabled": False}}
TOKENS = {"service": {"auth": "tokens", "writeNamespaces": ["team-a"]}}
FLAVOURS: dict[str, dict[str, Any]] = {
    "service/base": {},
    "service/tokens": TOKENS,
    "usage/base": ONLY_COLLECTOR,
    "usage/postgresql": {**ONLY_COLLECTOR, "usage": {"enabled": True, "databaseSecret": "gpuctl-usage-database"}},
    "usage/with-service": {
        "usage": {"enabled": True, "withService": True},
        "prometheus": PROMETHEUS,
        "service": {"resources": {"limits": {"memory": "2Gi"}}},
    },
}
"""The values that make what a directory of deploy/ makes."""
LABELS_OF_ALL = ("app.kubernetes.io/part-of", "app.kubernetes.io/managed-by", "helm.sh/chart")


@pytest.fixture(scope="session")
def helm() -> Path:
    """The helm of tests/binaries, which is built if it is missing; without Go the test is skipped, in CI it fails."""
    found = subprocess.run([str(BUILD), "helm"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        missing(f"helm cannot be built: {found.stderr.strip().splitlines()[-1]}")
    return Path(found.stdout.strip()) / "helm"


def run_helm(helm: Path, *arguments: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """Run helm as for the namespace gpuctl-system of a Kubernetes 1.36."""
    command = [str(helm), *arguments, "--namespace", "gpuctl-system", "--kube-version", "1.36.3", "--values", "-"]
    return subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, check=False)


def charted(helm: Path, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Return the objects that the chart makes of values."""
    done = run_helm(helm, "template", "gpuctl", str(CHART), values=values)
    assert done.returncode == 0, done.stderr
    return [obj for obj in yaml.load_all(done.stdout, yaml.CSafeLoader) if obj]


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}


def comparable(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without what only one of the two tools writes, its settings parsed."""
    obj = json.loads(json.dumps(obj))
    labels = obj["metadata"].pop("labels", {})
    obj["labels"] = {name: value for name, value in labels.items() if name not in LABELS_OF_ALL}
    if obj["kind"] == "PersistentVolumeClaim":
        obj["metadata"].pop("annotations", None)
    if obj["kind"] == "ConfigMap" and "data" in obj:
        obj["data"] = {name: yaml.safe_load(text) for name, text in obj["data"].items()}
        # The overlay for PostgreSQL keeps the file of its base; the variable takes precedence.
        obj["data"]["server.yaml"].pop("usage_database", None)
    if obj["kind"] == "Deployment":
        template = obj["spec"]["template"]
        template["metadata"].pop("annotations", None)
        pod = template["spec"]
        for container in pod["containers"]:
            # The default of an image with a tag.
            assert container.pop("imagePullPolicy", "IfNotPresent") == "IfNotPresent"
            container["volumeMounts"].sort(key=lambda mount: str(mount["name"]))
        pod["volumes"].sort(key=lambda volume: str(volume["name"]))
    if obj["kind"] == "NetworkPolicy":
        for rule in obj["spec"]["egress"]:
            rule["ports"].sort(key=json.dumps)
    return dict(obj)


@pytest.mark.parametrize("values", [*FLAVOURS.values(), {**TOKENS, **COLLECTOR}], ids=[*FLAVOURS, "both"])
def test_lint_accepts_the_chart(helm: Path, values: dict[str, Any]) -> None:
    done = run_helm(helm, "lint", "--strict", str(CHART), values=values)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_chart_makes_the_objects_of_kustomize(plane: ControlPlane, helm: Path, flavour: str) -> None:
    charts = by_name(charted(helm, FLAVOURS[flavour]))
    assert all(set(LABELS_OF_ALL) <= obj["metadata"]["labels"].keys() for obj in charts.values())
    made = {key: comparable(obj) for key, obj in charts.items()}
    wanted = {key: comparable(obj) for key, obj in by_name(kustomized(plane, flavour)).items()}
    assert made.keys() == wanted.keys()
    for key, obj in wanted.items():
        assert made[key] == obj, key


def test_chart_grants_the_start_of_jobs_on_request(helm: Path) -> None:
    started = by_name(charted(helm, {"service": {"startJobs": True}}))
    granted = {key: comparable(obj) for key, obj in started.items() if key[1] == "gpuctl-server-starter"}
    file = yaml.safe_load_all((DEPLOY / "service" / "starting.yaml").read_text())
    wanted = by_name(list(file))
    assert granted == {key: comparable(obj) for key, obj in wanted.items()}
    assert started.keys() - granted.keys() == by_name(charted(helm)).keys()


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_api_server_accepts_the_chart(plane: ControlPlane, helm: Path, flavour: str) -> None:
    plane.kubectl("apply", "-k", str(DEPLOY / "rbac"))
    objects = [obj for obj in charted(helm, FLAVOURS[flavour]) if obj["metadata"].get("namespace") != "team-a"]
    accept(plane, objects)


def test_api_server_accepts_all_options_of_the_chart(plane: ControlPlane, helm: Path) -> None:
    plane.kubectl("apply", "-k", str(DEPLOY / "rbac"))
    host = {"enabled": True, "host": "gpuctl.example.com", "tlsSecret": "tls", "className": "nginx"}
    host["annotations"] = {"nginx.ingress.kubernetes.io/proxy-read-timeout": "3600"}
    ingress_controller = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}
    values = {
        "image": {"repository": "registry.example.com/ours", "tag": "v7", "pullSecrets": ["pull"]},
        "prometheus": "http://vm:8481",
        "service": {"replicas": 1, "ingress": host, "settings": {"namespace": "other"}},
        "usage": {"enabled": True, "databaseSecret": "url", "settings": {"usage_scrape_interval": 30}},
        "networkPolicy": {"clients": [ingress_controller], "egressPorts": [6443, 8481]},
    }
    objects = charted(helm, values)
    accept(plane, objects)
    found = by_name(objects)
    # A disruption budget would block every drain of a single replica.
    assert ("PodDisruptionBudget", "gpuctl-server") not in found
    pods = [found["Deployment", name]["spec"]["template"]["spec"] for name in ("gpuctl-server", "gpuctl-usage")]
    assert {pod["containers"][0]["image"] for pod in pods} == {"registry.example.com/ours:v7"}
    assert all(pod["imagePullSecrets"] == [{"name": "pull"}] for pod in pods)
    assert all(pod["containers"][0]["env"][0]["name"] == "GPUCTL_SERVER_USAGE_DATABASE" for pod in pods)
    service = ServerSettings.made(yaml.safe_load(found["ConfigMap", "gpuctl-server"]["data"]["server.yaml"]))
    assert (service.namespace, service.prometheus) == ("other", "http://vm:8481")
    usage = UsageSettings.made(yaml.safe_load(found["ConfigMap", "gpuctl-usage"]["data"]["server.yaml"]))
    assert usage.usage_scrape_interval == 30
    policy = found["NetworkPolicy", "gpuctl-server"]["spec"]
    assert policy["ingress"] == [{"from": [ingress_controller], "ports": [{"port": "http"}]}]
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53, 6443, 8481, 5432}


def test_releases_keep_the_volume_of_the_usage(plane: ControlPlane, helm: Path) -> None:
    """Whether they are upgraded to PostgreSQL and back, rolled back, uninstalled or installed again."""
    plane.kubectl("apply", "-k", str(DEPLOY / "rbac"))
    connected = ["--kubeconfig", str(plane.kubeconfig()), "--namespace", "gpuctl-system"]

    def changed(*arguments: str, flavour: str = "usage/base") -> Any:
        files = [] if arguments[0] in ("rollback", "uninstall") else [str(CHART), "--values", "-"]
        command = [str(helm), *arguments, *files, *connected]
        given = json.dumps(FLAVOURS[flavour])
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        metadata = plane.get("persistentvolumeclaim", "gpuctl-usage", "-n", "gpuctl-system")["metadata"]
        return metadata["uid"], metadata.get("deletionTimestamp")

    claim = changed("install", "gpuctl")
    assert claim[1] is None
    assert changed("upgrade", "gpuctl", flavour="usage/postgresql") == claim
    assert changed("upgrade", "gpuctl") == claim
    assert changed("rollback", "gpuctl", "1") == claim
    assert changed("uninstall", "gpuctl") == claim
    assert changed("install", "gpuctl") == claim
    assert changed("uninstall", "gpuctl") == claim


def test_no_egress_ports_allow_only_dns(helm: Path) -> None:
    """A rule without ports would allow all of them."""
    found = by_name(charted(helm, {"networkPolicy": {"egressPorts": []}}))
    egress = found["NetworkPolicy", "gpuctl-server"]["spec"]["egress"]
    assert [[port["port"] for port in rule["ports"]] for rule in egress] == [[53, 53]]


def test_new_settings_replace_the_pods(helm: Path) -> None:
    def template(values: dict[str, Any]) -> Any:
        return by_name(charted(helm, values))["Deployment", "gpuctl-server"]["spec"]["template"]

    assert template({}) == template({"service": {"replicas": 3}})
    assert template({}) != template({"platform": "kind: platform\nversion: v0.1\nlabels: {domain: example.com}\n"})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"service": {"replica": 3}}, "replica"),
        ({"service": {"auth": "none"}}, "auth"),
        ({"usage": {"enabled": True}}, "usage.enabled needs prometheus"),
        ({**ONLY_COLLECTOR, "usage": {"enabled": True, "withService": True}}, "needs service.enabled"),
        (
            {"usage": {"enabled": True, "withService": True, "databaseSecret": "x"}, "prometheus": PROMETHEUS},
            "leave usage.databaseSecret out",
        ),
        ({"service": {"ingress": {"enabled": True, "host": "a.example.com"}}}, "service.ingress.tlsSecret"),
    ],
)
def test_chart_rejects_invalid_values(helm: Path, values: dict[str, Any], message: str) -> None:
    done = run_helm(helm, "template", "gpuctl", str(CHART), values=values)
    assert done.returncode != 0
    assert message in done.stderr


def test_chart_rejects_another_namespace(helm: Path) -> None:
    command = [str(helm), "template", "gpuctl", str(CHART), "--kube-version", "1.36.3", "--namespace", "default"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "add `--namespace gpuctl-system --create-namespace`" in done.stderr


def test_schema_describes_every_value(helm: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def undescribed(values: Any, part: dict[str, Any], path: str) -> list[str]:
        if "properties" not in part:
            return []
        missing = [f"{path}.{name}" for name in values if name not in part["properties"]]
        inner = (undescribed(values[name], part["properties"][name], f"{path}.{name}") for name in values)
        return missing + [name for names in inner if not missing for name in names]

    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert undescribed(values, schema, "") == []
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__

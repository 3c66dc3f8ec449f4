"""deploy/usage: the API server accepts its objects, and the collector works with its permissions and uses all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import yaml

from control_plane import ControlPlane
from control_plane.audit_log import Asked
from fault_tools.proxy import Action, Proxy, Request, Upstream, meanwhile, write_kubeconfig
from fault_tools.world import Api
from gpuctl_server.server_settings import ServerSettings
from gpuctl_usage.facts import WorkloadKey
from gpuctl_usage.usage_settings import UsageSettings
from support.cluster_tools import GPU, MERGE_PATCH, Place, inference, notebook, pool_node, training
from support.collecting import Collecting, collecting
from support.deployments import DEPLOY, accept, kustomized
from support.granted_rights import grants_of, unused
from support.small_usage import Worker, small_world

FLAVOURS = ("base", "postgresql", "with-service")
ACCOUNT = ("gpuctl-system", "gpuctl-usage")
NODE = "deployed-usage-0"
_DEVICE_KINDS = ("deviceclasses", "resourceslices", "resourceclaims", "resourceclaimtemplates")
_ONE = {GPU: "1"}
SPEC = {"containers": [{"name": "main", "image": "x", "resources": {"limits": _ONE, "requests": _ONE}}]}


@pytest.fixture(scope="module", autouse=True)
def roles(plane: ControlPlane) -> Iterator[None]:
    """Create the namespaces, accounts and roles, and a node."""
    plane.kubectl("apply", "-k", str(DEPLOY / "rbac"))
    plane.kubectl("apply", "-k", str(DEPLOY / "usage" / "rights"))
    for file in ("service-account.yaml", "rbac.yaml"):
        plane.kubectl("apply", "-f", str(DEPLOY / "usage" / "base" / file))
    for file in ("service-account.yaml", "rbac.yaml"):
        plane.kubectl("apply", "-f", str(DEPLOY / "usage" / "idle" / file))
    plane.install_job_kinds()
    with pool_node(plane, NODE):
        yield


def found_in(plane: ControlPlane, flavour: str) -> dict[str, dict[str, Any]]:
    """Return kind -> the last object of that kind in a flavour."""
    return {obj["kind"]: obj for obj in kustomized(plane, f"usage/{flavour}")}


@pytest.mark.parametrize("flavour", [*FLAVOURS, "idle"])
def test_api_server_accepts_the_objects(plane: ControlPlane, flavour: str) -> None:
    accept(plane, kustomized(plane, f"usage/{flavour}"))


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_objects_fit_each_other(plane: ControlPlane, flavour: str) -> None:
    """One replica writes to the database's volume, and ports and selectors match the pods."""
    found = found_in(plane, flavour)
    spec = found["Deployment"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    (container,) = pod["containers"]
    mounts = {item["mountPath"] for item in container["volumeMounts"]}
    volumes = {item["name"]: item for item in pod["volumes"]}
    assert {item["name"] for item in container["volumeMounts"]} == set(volumes)
    values = yaml.safe_load(found["ConfigMap"]["data"]["server.yaml"])
    assert ServerSettings.made(values).usage == (flavour == "with-service")
    settings = UsageSettings.made(values)
    assert settings.usage_cluster == "default"
    directory = str(Path(settings.usage_database or "").parent)
    if flavour == "postgresql":
        assert "PersistentVolumeClaim" not in found
        assert directory not in mounts
        (variable,) = container["env"]
        assert variable["name"] == "GPUCTL_SERVER_USAGE_DATABASE"
        assert variable["valueFrom"]["secretKeyRef"] == {"name": "gpuctl-usage-database", "key": "url"}
        written = (DEPLOY / "usage" / flavour / "kustomization.yaml").read_text()
        assert "secret generic gpuctl-usage-database -n gpuctl-system" in written
    else:
        claim = found["PersistentVolumeClaim"]
        assert volumes["database"]["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
        assert claim["spec"]["accessModes"] == ["ReadWriteOncePod"]
        assert directory in mounts
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    policy = found["NetworkPolicy"]["spec"]
    assert urlsplit(settings.prometheus or "").port in {
        item["port"] for rule in policy["egress"] for item in rule["ports"]
    }
    for selector in (found["Service"]["spec"]["selector"], policy["podSelector"]["matchLabels"]):
        assert selector
        assert selector.items() <= labels.items()
    if flavour == "with-service":
        assert "PodDisruptionBudget" not in found, "it would block the eviction of the only replica"
        return
    (port,) = container["ports"]
    assert settings.usage_metrics == f":{port['containerPort']}"
    assert {container[name]["httpGet"]["port"] for name in container if name.endswith("Probe")} == {port["name"]}
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"port": port["name"]}]
    assert rule["from"], "only some pods may read the metrics"


def test_scrape_configurations_match_the_service(plane: ControlPlane) -> None:
    """The scrape configurations name the Service, its port and its labels, and keep the pods' labels."""
    service = found_in(plane, "base")["Service"]
    (port,) = service["spec"]["ports"]
    (scrape,) = yaml.safe_load((DEPLOY / "usage" / "monitoring" / "prometheus.yaml").read_text())["scrape_configs"]
    assert scrape["relabel_configs"][0]["regex"] == f"{service['metadata']['name']};{port['name']}"
    assert scrape["kubernetes_sd_configs"][0]["namespaces"]["names"] == [service["metadata"]["namespace"]]
    monitor = yaml.safe_load((DEPLOY / "usage" / "monitoring" / "service-monitor.yaml").read_text())
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] == port["name"]
    assert endpoint["honorLabels"] is scrape["honor_labels"] is True


@pytest.fixture(scope="module")
def deployed(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    """A collector run as in its pod: with the deployed settings and a token of its service account."""
    directory = tmp_path_factory.mktemp("deployed")
    namespace, name = ACCOUNT
    token = plane.kubectl("create", "token", name, "-n", namespace, "--duration=2h").strip()
    authority = str(plane.directory / "certificates" / "apiserver.crt")
    cluster = {"server": f"https://127.0.0.1:{plane.port}", "certificate-authority": authority}
    found = found_in(plane, "base")
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["gpuctl", "usage", "collect"]
    assert container["args"] == ["--config", "/etc/gpuctl/server.yaml"]
    for file, text in found["ConfigMap"]["data"].items():
        (directory / file).write_text(text.replace("/etc/gpuctl", str(directory)))
    # No Prometheus is running, and the metrics port may be in use.
    settings = {
        "config": str(directory / "server.yaml"),
        "prometheus": "http://127.0.0.1:9",
        "usage_metrics": "127.0.0.1:0",
    }
    with collecting(directory, write_kubeconfig(directory / "kubeconfig", cluster, token), **settings) as running:
        yield running


def test_probes_succeed(plane: ControlPlane, deployed: Collecting) -> None:
    [port] = [line["port"] for line in deployed.log if line["message"] == "serving metrics"]
    (container,) = found_in(plane, "base")["Deployment"]["spec"]["template"]["spec"]["containers"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        url = f"http://127.0.0.1:{port}{container[probe]['httpGet']['path']}"
        deployed.until(lambda asked=url: httpx.get(asked).status_code == 200, probe)
    # An unavailable database or API server must not restart the collector.
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    assert re.search(r'^gpuctl_usage_node_gpus\{cluster="default",.*node="deployed-usage-0"', text, re.MULTILINE)


def owned_pod(name: str, owner: dict[str, Any]) -> dict[str, Any]:
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {"name": name, "ownerReferences": [reference]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": SPEC}


def test_collector_uses_exactly_its_permissions(
    plane: ControlPlane, api: Api, place: Place, deployed: Collecting
) -> None:
    """It collects pods of every kind of owner without a denied request, and every granted permission is used."""
    place.apply(training(resources={"gpu": 1}), inference(resources={"gpu": 1}), notebook(resources={"gpu": 1}))
    place.apply(training("nightly", schedule="0 2 29 2 *", resources={"gpu": 1}))
    place.gpuctl("run", "nightly")
    labels = {"app": "each"}
    template = {"metadata": {"labels": labels}, "spec": SPEC}
    made = {
        "daemonsets": ("apps/v1", "DaemonSet", {"selector": {"matchLabels": labels}, "template": template}),
        "jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": []}),
    }
    for plural, (version, kind, spec) in made.items():
        obj = {"apiVersion": version, "kind": kind, "metadata": {"name": "each"}, "spec": spec}
        owner = api.call("POST", f"/apis/{version}/namespaces/{place.namespace}/{plural}", obj)
        if kind == "JobSet":
            place.create(owned_pod("of-a-jobset", owner))

    # Claims are read of pods that have a node.
    bare = {"nodeName": NODE, "containers": [{"name": "main", "image": "x"}]}
    claims = {**bare, "resourceClaims": [{"name": "gpu", "resourceClaimName": "each"}]}
    place.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "claims"}, "spec": claims})

    def kinds() -> set[str]:
        return {item.workload.kind for item in deployed.holdings(place.namespace)}

    every = {"Job", "CronJob", "Deployment", "StatefulSet", "DaemonSet", "JobSet"}
    deployed.until(lambda: kinds() == every, f"workloads of each kind: {every}")
    asked: list[Asked] = list(plane.audit.asked(f"system:serviceaccount:{':'.join(ACCOUNT)}")) if plane.audit else []
    grants = grants_of(plane, *ACCOUNT)
    assert not [f"{item.verb} {item.resource}" for item in asked if item.status == 403]
    # No LeaderWorkerSet exists here, and no quota is a Kueue queue.
    known = {f"{ACCOUNT[1]}: get leaderworkersets.leaderworkerset.x-k8s.io"} | {
        f"{ACCOUNT[1]}: {verb} clusterqueues.kueue.x-k8s.io" for verb in ("list", "watch")
    }
    assert set(map(str, unused(grants, asked))) <= known
    assert not any("*" in (item.group, item.resource, item.verb) for item in grants)
    assert {item.verb for item in grants} == {"get", "list", "watch"}


def test_idle_cronjob_pauses_jobs_with_its_permissions(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """The CronJob's command with a token of its account pauses a job of each kind. A controller changes each job
    between the read and the pause. The permissions that remain unused are those on
    Kueue's Workloads, on kinds without a job here, on autoscalers that scale to 0, and on notebooks with limits, whose
    GPUs a driver may offer.
    """
    namespace, name = ACCOUNT[0], "gpuctl-usage-idle"
    found = found_in(plane, "idle")
    spec = found["CronJob"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["serviceAccountName"] == name
    assert container["command"] == ["gpuctl", "usage", "idle"]
    files = found["ConfigMap"]["data"]
    assert UsageSettings.made(yaml.safe_load(files["server.yaml"])).usage_database
    (tmp_path / "idle.yaml").write_text(files["platform.yaml"].replace("then: warn", "then: pause"))
    jobs = {"Job": training("one"), "JobSet": training("two", resources={"nodes": 2}), "StatefulSet": notebook("three")}
    jobs["Deployment"] = inference("four")
    place.apply(*(job for kind, job in jobs.items() if kind != "JobSet"))
    place.platform("training: {backend: jobset}")
    place.apply(jobs["JobSet"])
    now = time.time()
    start = int(now // 3600 - 6) * 3600
    workers = [
        Worker(WorkloadKey(place.namespace, kind, job["job"]["name"], place.uid(kind, job["job"]["name"])), "n1", 1,
               (0.0,), start)
        for kind, job in jobs.items()
    ]  # fmt: skip
    uid = plane.get("namespace", "kube-system")["metadata"]["uid"]
    small_world(start, workers).collected(tmp_path / "usage.db", start, now, uid=uid).close()
    token = plane.kubectl("create", "token", name, "-n", namespace, "--duration=2h").strip()
    changed: set[str] = set()

    def changing(request: Request) -> Action | None:
        """Change each job before its first patch."""
        if request.method != "PATCH" or request.path in changed:
            return None
        changed.add(request.path)
        marked = {"metadata": {"annotations": {"example.com/changed": "meanwhile"}}}
        return meanwhile(lambda: place.api.call("PATCH", request.path, marked, MERGE_PATCH))

    options = ("--platform", str(tmp_path / "idle.yaml"), "--database", str(tmp_path / "usage.db"))
    upstream = Upstream(plane.port, plane.directory / "certificates" / "apiserver.crt")
    with Proxy(plane, upstream, changing) as proxy:
        kubeconfig = proxy.kubeconfig(tmp_path / "kubeconfig", token=token)
        done = place.anywhere("usage", "idle", "--yes", "-o", "json", *options, "--kubeconfig", str(kubeconfig))
    upstream.close()
    assert changed == {place.path(kind, job["job"]["name"]) for kind, job in jobs.items()}
    actions = {item["name"]: item["action"] for item in done.value["items"] if item["namespace"] == place.namespace}
    assert actions == dict.fromkeys(("one", "two", "three", "four"), "paused")
    asked: list[Asked] = list(plane.audit.asked(f"system:serviceaccount:{namespace}:{name}")) if plane.audit else []
    assert not [f"{item.verb} {item.resource}" for item in asked if item.status == 403]
    left = [str(item) for item in unused(grants_of(plane, namespace, name), asked)]
    used_elsewhere = {
        *(f"{name}: {verb} workloads.kueue.x-k8s.io" for verb in ("list", "patch")),
        *(f"{name}: {verb} leaderworkersets.leaderworkerset.x-k8s.io" for verb in ("get", "list", "patch")),
        *(f"{name}: {verb} cronjobs.batch" for verb in ("get", "list", "patch")),
        f"{name}: list pods",
        *(f"{name}: list {kind}.resource.k8s.io" for kind in _DEVICE_KINDS),
        *(f"{name}: patch {kind}" for kind in ("horizontalpodautoscalers.autoscaling", "scaledobjects.keda.sh")),
    }
    assert set(left) <= used_elsewhere

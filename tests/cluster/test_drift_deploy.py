"""The manifests of deploy/drift: the API server accepts them, and the CronJob's command needs exactly the rights of its
account, which are all read-only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from control_plane.audit_log import Asked
from fault_tools.proxy import write_kubeconfig
from fault_tools.world import Api
from support.cluster_tools import Place, add_drill_nodes, inference, notebook, places, training
from support.deployments import DEPLOY, accept, kustomized
from support.granted_rights import grants_of, unused
from support.real_parts import control_plane_binaries

NAMESPACE, ACCOUNT = "gpuctl-system", "gpuctl-drift"
UNUSED_RIGHTS = {
    # A missing object is read again to see whether it exists without gpuctl's labels; here only the autoscaler is
    # missing.
    *(
        f"{ACCOUNT}: get {kind}"
        for kind in ("services", "configmaps", "resourcequotas", "limitranges", "deployments.apps")
    ),
    *(f"{ACCOUNT}: get {kind}" for kind in ("statefulsets.apps", "jobs.batch", "jobsets.jobset.x-k8s.io")),
    *(f"{ACCOUNT}: get {kind}" for kind in ("cronjobs.batch", "leaderworkersets.leaderworkerset.x-k8s.io")),
    *(f"{ACCOUNT}: get {kind}" for kind in ("ingresses.networking.k8s.io", "httproutes.gateway.networking.k8s.io")),
    *(f"{ACCOUNT}: get {kind}" for kind in ("poddisruptionbudgets.policy", "scaledobjects.keda.sh")),
    *(
        f"{ACCOUNT}: get {kind}.kueue.x-k8s.io"
        for kind in ("workloadpriorityclasses", "clusterqueues", "localqueues", "resourceflavors")
    ),
    f"{ACCOUNT}: get resourceclaimtemplates.resource.k8s.io",
}
"""Granted rights that this test does not use."""


@pytest.fixture(scope="module")
def audited() -> Iterator[ControlPlane]:
    """A control plane with an audit log."""
    with ControlPlane(control_plane_binaries(), audit=True) as running:
        running.install_job_kinds()
        add_drill_nodes(running)
        running.add_node("deployed-0")
        running.kubectl("apply", "-k", str(DEPLOY / "rbac"))
        for file in ("service-account.yaml", "rbac.yaml"):
            running.kubectl("apply", "-f", str(DEPLOY / "drift" / "base" / file))
        yield running


@pytest.fixture
def here(
    audited: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Place]:
    """A namespace of the audited control plane."""
    yield from places(audited, Api(audited), tmp_path, capsys, monkeypatch, "drift-deployed")


def cron_job_pod(plane: ControlPlane, flavour: str) -> dict[str, Any]:
    """Return the pod spec of the CronJob."""
    (found,) = [obj for obj in kustomized(plane, flavour) if obj["kind"] == "CronJob"]
    return dict(found["spec"]["jobTemplate"]["spec"]["template"]["spec"])


@pytest.mark.slow
@pytest.mark.parametrize("flavour", ["drift/base", "drift/git"])
def test_api_server_accepts_the_manifests(audited: ControlPlane, flavour: str) -> None:
    accept(audited, kustomized(audited, flavour))
    pod = cron_job_pod(audited, flavour)
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert {"configMap", "emptyDir"} & set(pod["volumes"][0]) == {"emptyDir" if "git" in flavour else "configMap"}


def test_account_has_no_unused_and_no_missing_rights(audited: ControlPlane, here: Place, tmp_path: Path) -> None:
    """Documents of every kind, mounted as a ConfigMap, with the account's token: drift is reported, no request is
    rejected.
    """
    quota = {"kind": "quota", "version": "v0.1", "quota": {"name": "team"}, "users": {here.namespace: {"cpu": "64"}}}
    pool = {"kind": "pool", "version": "v0.1", "pool": {"name": "drifted"}, "nodes": {"deployed-0": {"gpu-type": ""}}}
    documents = [training(), notebook(), inference(autoscaling={"enabled": True, "maxReplicas": 3}), quota]
    for document in documents[:3]:
        document["job"]["namespace"] = here.namespace
    # The kubelet mounts a ConfigMap as links into a hidden directory.
    mounted = tmp_path / "documents"
    data = mounted / "..2026_01_01"
    data.mkdir(parents=True)
    (mounted / "..data").symlink_to(data.name)
    files = {f"{number}.yaml": json.dumps(document) for number, document in enumerate([*documents, pool])}
    (config,) = [obj for obj in kustomized(audited, "drift/base") if obj["kind"] == "ConfigMap"]
    for name, text in {**files, **config["data"]}.items():
        (data / name).write_text(text)
        (mounted / name).symlink_to(Path("..data") / name)

    here.gpuctl("apply", str(mounted), "--set", "all")
    audited.kubectl("delete", "hpa", "serve", "-n", here.namespace)

    (container,) = cron_job_pod(audited, "drift/base")["containers"]
    assert container["command"] == ["gpuctl", "drift"]
    arguments = [text.replace("/documents", str(mounted)) for text in container["args"]]
    token = audited.kubectl("create", "token", ACCOUNT, "-n", NAMESPACE, "--duration=2h").strip()
    authority = str(audited.directory / "certificates" / "apiserver.crt")
    cluster = {"server": f"https://127.0.0.1:{audited.port}", "certificate-authority": authority}
    kubeconfig = str(write_kubeconfig(tmp_path / "kubeconfig", cluster, token))
    uid = audited.get("namespace", "kube-system")["metadata"]["uid"]
    for options in ((), ("--cluster", "here")):
        told = here.anywhere("drift", *arguments, "-o", "json", "--kubeconfig", kubeconfig, *options, code=1)
        assert told.value["problems"] == [], told.err
        assert [f"{one['what']} {one['kind']}" for one in told.value["objects"]] == ["gone HorizontalPodAutoscaler"]
        named = {"kind": "platform", "version": "v0.1", "clusters": {"here": {"uid": uid}}}
        (data / "platform.yaml").write_text(yaml.safe_dump(named))
    asked: list[Asked] = list(audited.audit.asked(f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"))  # type: ignore[union-attr]
    assert not [f"{item.verb} {item.resource}" for item in asked if item.status == 403]
    grants = grants_of(audited, NAMESPACE, ACCOUNT)
    assert {str(item) for item in unused(grants, asked)} == UNUSED_RIGHTS
    assert {item.verb for item in grants} == {"get", "list"}
    assert not any("*" in (item.group, item.resource) or item.resource == "secrets" for item in grants)

"""Pods with hostNetwork: the DNS policy, and the rendezvous port of a training."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import gpuctl

PLATFORM = "kind: platform\nversion: v0.1\n"
JOBSET = "training: {backend: jobset}\n"


def compiled(kind: str, rest: str, platform: str = PLATFORM) -> list[dict[str, Any]]:
    text = f"kind: {kind}\nversion: v0.1\nenvironment: {{image: 'app:1'}}\n{rest}"
    if "job:" not in rest:
        text += "job: {name: demo}\n"
    source = gpuctl.Source("demo.yaml", text)
    result = gpuctl.compile(source, platform=gpuctl.Source("platform.yaml", platform))
    assert result.ok, result.diagnostics
    return result.objects


def pod_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    main = next(obj for obj in objects if obj["kind"] in ("Job", "JobSet", "Deployment", "StatefulSet"))
    spec = main["spec"]
    if main["kind"] == "JobSet":
        spec = spec["replicatedJobs"][0]["template"]["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


@pytest.mark.parametrize("kind", ["training", "inference", "notebook", "compute"])
def test_host_network_sets_cluster_first_dns_policy(kind: str) -> None:
    objects = compiled(kind, "podPatch: {hostNetwork: true}\n")
    assert pod_of(objects)["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert gpuctl.lift(objects)[0]["resources"]["network"] == {"hostNetwork": True}
    assert "dnsPolicy" not in pod_of(compiled(kind, "podPatch: {hostPID: true}\n"))
    assert "dnsPolicy" not in pod_of(compiled(kind, "podPatch: {hostNetwork: false}\n"))


def test_explicit_dns_policy_is_kept() -> None:
    for policy in ("ClusterFirst", "Default"):
        objects = compiled("training", f"podPatch: {{hostNetwork: true, dnsPolicy: {policy}}}\n")
        assert pod_of(objects)["dnsPolicy"] == policy
        assert gpuctl.lift(objects)[0]["podPatch"] == {"hostNetwork": True, "dnsPolicy": policy}


def test_platform_default_pod_patch_sets_dns_policy() -> None:
    platform = f"{PLATFORM}defaults: {{training: {{podPatch: {{hostNetwork: true}}}}}}\n"
    assert pod_of(compiled("training", "", platform))["dnsPolicy"] == "ClusterFirstWithHostNet"
    stated = compiled("training", "podPatch: {dnsPolicy: Default}\n", platform)
    assert pod_of(stated)["dnsPolicy"] == "Default"


def test_object_without_dns_policy_is_lifted_as_cluster_first() -> None:
    objects = copy.deepcopy(compiled("training", "podPatch: {hostNetwork: true}\n"))
    del pod_of(objects)["dnsPolicy"]
    patch = gpuctl.lift(objects)[0]["podPatch"]
    assert patch == {"hostNetwork": True, "dnsPolicy": "ClusterFirst"}, "the default of the API server"


@pytest.mark.parametrize("platform", [PLATFORM, PLATFORM + JOBSET])
@pytest.mark.parametrize("nodes", [1, 2])
def test_master_port_sets_variables_ports_and_service(platform: str, nodes: int) -> None:
    rest = f"job: {{name: demo, master_port: 29511}}\nresources: {{nodes: {nodes}}}\n"
    objects = compiled("training", rest, platform)
    (main,) = pod_of(objects)["containers"]
    env = {item["name"]: item.get("value") for item in main["env"]}
    assert (env["MASTER_PORT"], env["PET_MASTER_PORT"]) == ("29511", "29511")
    assert [port["containerPort"] for port in main.get("ports", [])] == [29511] * (nodes - 1)
    for service in objects:
        if service["kind"] == "Service":
            assert service["spec"]["ports"][0]["port"] == 29511
    (document,) = gpuctl.lift(objects)
    assert document["job"]["master_port"] == 29511
    (document,) = gpuctl.lift(compiled("training", f"resources: {{nodes: {nodes}}}\n", platform))
    assert "master_port" not in document["job"]


def test_master_port_variable_is_rejected_with_a_hint() -> None:
    text = (
        "kind: training\nversion: v0.1\njob: {name: demo}\nenvironment: {image: 'app:1', env: {MASTER_PORT: '29511'}}\n"
    )
    (found,) = gpuctl.compile(gpuctl.Source("demo.yaml", text)).diagnostics
    assert (found.code, found.hint) == ("GPU214", "remove it, and set `job.master_port: 29511`")

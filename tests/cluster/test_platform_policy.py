"""The platform's policy: the compiler and the exported ValidatingAdmissionPolicy refuse the same pods."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import gpuctl
from control_plane import ControlPlane
from gpuctl.backend.pod_merge import merge_spec
from support.cluster_tools import Place

Object = dict[str, Any]
STRICT: Object = {
    "hostPaths": ["/data/", "/models"],
    "privileged": "deny",
    "hostNetwork": "deny",
    "hostPID": "deny",
    "hostIPC": "deny",
    "capabilities": ["IPC_LOCK"],
    "require": {"runAsNonRoot": True, "limits": ["cpu", "memory"]},
}
PLATFORMS: dict[str, Object] = {
    "strict": {"policy": STRICT},
    "no paths": {"policy": {"hostPaths": [], "hostIPC": "deny"}},
    "capabilities": {"policy": {"capabilities": ["IPC_LOCK"], "hostIPC": "deny"}},
    "paths by default": {
        "policy": {"hostIPC": "deny"},
        "defaults": {"training": {"podPatch": {"volumes": [{"name": "own", "hostPath": {"path": "/run/own"}}]}}},
    },
}
AMOUNTS = {"cpu": "1", "memory": "1Gi"}


def container(name: str = "main", **fields: Any) -> Object:
    """Return a container of a patch that satisfies the strict policy, with further fields."""
    added = {} if name == "main" else {"image": "b:1", "resources": {"requests": AMOUNTS, "limits": AMOUNTS}}
    return {"name": name, **added, **fields}


def context(field: str = "containers", name: str = "main", **fields: Any) -> Object:
    return {field: [container(name, securityContext=fields)]}


def mounts(path: str) -> Object:
    return {"volumes": [{"name": "extra", "hostPath": {"path": path}}]}


PATCHES: dict[str, Object] = {
    "nothing": {"terminationGracePeriodSeconds": 5},
    **{name: {name: True} for name in ("hostNetwork", "hostPID", "hostIPC")},
    "hostPID: false": {"hostPID": False},
    **{
        path: mounts(path)
        for path in (
            *("/data", "/data/", "/data/a", "/database", "/models/../etc", "//data//x", "/data/./x", "/", "/etc"),
            *("/etc/hosts", "/var", "/run/own", "/run/own/a", "/run/owner", "/dev/shm/x", "/srv/x.sock", "/srv"),
        )
    },
    "projected": {"volumes": [{"name": "extra", "projected": {"sources": [{"configMap": {"name": "etc"}}]}}]},
    "privileged": context(privileged=True),
    "not privileged": context(privileged=False),
    "privileged init container": context("initContainers", "early", privileged=True),
    "privileged sidecar": {
        "initContainers": [container("side", restartPolicy="Always", securityContext={"privileged": True})]
    },
    "allowed capability": context(capabilities={"add": ["IPC_LOCK"]}),
    "capability": context(capabilities={"add": ["IPC_LOCK", "SYS_ADMIN"], "drop": ["ALL"]}),
    "capability of an init container": context("initContainers", "early", capabilities={"add": ["NET_ADMIN"]}),
    "port": {"containers": [container(ports=[{"containerPort": 22}])]},
    "port of the node": {"containers": [container(ports=[{"containerPort": 22, "hostPort": 2222}])]},
    "port of the node of a sidecar": {
        "initContainers": [container("side", restartPolicy="Always", ports=[{"containerPort": 9, "hostPort": 9}])]
    },
    "root": context(runAsUser=0),
    "other user": context(runAsUser=7),
    "root that the kubelet checks": context(runAsUser=0, runAsNonRoot=True),
    "init container as root": context("initContainers", "early", runAsUser=0),
    "root by default": {"securityContext": {"runAsUser": 0}},
    "init container without limits": {"initContainers": [{"name": "early", "image": "b:1"}]},
    "container without a limit of memory": {
        "containers": [{"name": "beside", "image": "b:1", "resources": {"limits": {"cpu": "1"}}}]
    },
    "container with limits": {"containers": [container("beside")]},
    **{
        f"limit of {amount}": {
            "containers": [{"name": "beside", "image": "b:1", "resources": {"limits": {**AMOUNTS, "cpu": amount}}}]
        }
        for amount in ("0", "1m")
    },
}
FIELDS: dict[str, Object] = {
    "user": {},
    "no user": {"security": None},
    "root": {"security": {"user": 0}},
    "capability": {"security": {"user": 7, "capabilities": ["SYS_PTRACE"]}},
    "no memory": {"resources": {"cpu": 1}},
    "helper without limits": {"init": [{"name": "early", "resources": {"cpu": 1}}]},
    "helper": {"init": [{"name": "early", "resources": {"cpu": 1, "memory": "1Gi"}}]},
    "code": {"code": {"git": "https://git.example.com/a.git", "ref": "a" * 40}},
    "directory of the node": {"storage": {"workdirs": [{"path": "/srv/data"}]}},
    "allowed directory of the node": {"storage": {"workdirs": [{"path": "/data/x"}]}},
}
BASE: Object = {
    "kind": "training",
    "version": "v0.1",
    "job": {"name": "demo"},
    "environment": {"image": "app:1"},
    "resources": {"cpu": 1, "memory": "1Gi"},
    "security": {"user": 1000},
}


def compiled(document: Object, platform: Object) -> tuple[Object | None, list[str]]:
    """Return the pod's spec, and the errors."""
    sources = [gpuctl.Source("job.yaml", json.dumps({key: value for key, value in document.items() if value}))]
    text = json.dumps({"kind": "platform", "version": "v0.1", **platform})
    result = gpuctl.compile(sources, platform=gpuctl.Source("platform.yaml", text), shared=False)
    errors = [f"{item.code} {item.message}" for item in result.diagnostics if item.severity.value == "error"]
    return (result.objects[0]["spec"]["template"]["spec"] if result.ok else None), errors


@pytest.fixture(params=PLATFORMS)
def enforced(request: pytest.FixtureRequest, plane: ControlPlane, place: Place, tmp_path: Path) -> Iterator[Object]:
    """A platform whose policy is in force in the test's namespace."""
    platform = PLATFORMS[request.param]
    file = tmp_path / "platform.yaml"
    file.write_text(json.dumps({"kind": "platform", "version": "v0.1", **platform}))
    printed = place.anywhere("render", str(file), "--policy")
    assert printed.code == 0, printed.err
    objects = list(yaml.safe_load_all(printed.out))
    plane.kubectl("apply", "-f", "-", input=printed.out)
    plane.kubectl("label", "namespace", place.namespace, "runwhere.ai/policy=enforce")
    try:
        place.until(lambda: refused(place, {"hostIPC": True}) is not None, "the policy")
        yield platform
    finally:
        policy, binding = objects
        plane.kubectl("delete", policy["kind"], policy["metadata"]["name"])
        # The API server enforces a deleted policy for a moment; the next test's has the same name.
        place.until(lambda: "hostIPC" not in (refused(place, {"hostIPC": True}) or ""), "the end of the policy")
        plane.kubectl("delete", binding["kind"], binding["metadata"]["name"])
        plane.kubectl("label", "namespace", place.namespace, "runwhere.ai/policy-")


CONTROLLERS: dict[str, Object] = {
    "job": {},
    "cronjob": {"schedule": "@yearly"},
    "jobset": {"roles": [{"name": "head"}, {"name": "worker"}]},
    "deployment": {"kind": "compute"},
    "statefulset": {"kind": "notebook"},
    "leaderworkerset": {"kind": "inference", "resources": {"cpu": 1, "memory": "1Gi", "nodes": 2}},
}


def test_api_server_refuses_the_pods_of_every_controller(
    queue_plane: ControlPlane, queue_place: Place, tmp_path: Path
) -> None:
    place, said = queue_place, "the platform denies privileged containers"
    backends = {"training": {"backend": "jobset"}, "inference": {"backend": "lws"}}
    policy = tmp_path / "policy" / "platform.yaml"
    policy.parent.mkdir()
    policy.write_text(json.dumps({"kind": "platform", "version": "v0.1", "policy": {"privileged": "deny"}}))
    place.platform("\n".join(f"{field}: {json.dumps(value)}" for field, value in backends.items()))
    patch = {"containers": [{"name": "main", "securityContext": {"privileged": True}}]}
    documents = [
        {**BASE, "podPatch": patch, **fields, "job": {"name": f"on-{name}"}} for name, fields in CONTROLLERS.items()
    ]
    rendered = place.gpuctl("render", "-f", place.file(*documents)).out
    queue_plane.kubectl("apply", "-f", "-", input=place.anywhere("render", str(policy), "--policy").out)
    queue_plane.kubectl("label", "namespace", place.namespace, "runwhere.ai/policy=enforce")
    try:
        place.until(lambda: said in (refused(place, patch) or ""), "the policy")
        queue_plane.kubectl("apply", "-f", "-", input=rendered)
        place.kubectl("create", "job", "on-cronjob-now", "--from=cronjob/on-cronjob")

        def refusals() -> set[str]:
            events = place.api.call("GET", f"/api/v1/namespaces/{place.namespace}/events")["items"]
            owners = [item["involvedObject"]["name"] for item in events if said in (item.get("message") or "")]
            return {name for name in CONTROLLERS for owner in owners if owner.startswith(f"on-{name}")}

        place.until(lambda: refusals() == CONTROLLERS.keys(), "the refusals of all pods")
        assert place.api.list_objects("Pod", place.namespace) == []
    finally:
        queue_plane.kubectl("delete", "-f", "-", input=rendered)
        for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding"):
            queue_plane.kubectl("delete", kind, "gpuctl-pods")


def refused(place: Place, patch: Object, fields: Object | None = None) -> str | None:
    """Return the API server's error for a pod with a patch, as gpuctl makes it on a platform without a policy."""
    pod, errors = compiled({**BASE, **(fields or {})}, {})
    assert pod is not None, errors
    pod = copy.deepcopy(pod)
    merge_spec(pod, patch)
    for defaulted in ("priorityClassName", "affinity"):
        pod.pop(defaulted, None)
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo"}, "spec": pod}
    status, answer = place.api.request("POST", f"/api/v1/namespaces/{place.namespace}/pods?dryRun=All", obj)
    return None if status < 300 else str(answer.get("message"))


def test_compiler_and_api_server_refuse_the_same_pods(enforced: Object, place: Place) -> None:
    counts = {True: 0, False: 0}
    for name, patch in PATCHES.items():
        _, errors = compiled({**BASE, "podPatch": patch}, enforced)
        assert bool(errors) == (refused(place, patch) is not None), (name, errors, refused(place, patch))
        counts[bool(errors)] += 1
    for name, fields in FIELDS.items():
        _, errors = compiled({**BASE, **fields}, enforced)
        assert bool(errors) == (refused(place, {}, fields) is not None), (name, errors)
        counts[bool(errors)] += 1
    assert min(counts.values()) > 5


def test_ephemeral_containers_are_checked(plane: ControlPlane, place: Place, enforced: Object) -> None:
    if enforced["policy"] is not STRICT:
        return
    pod, _ = compiled(BASE, enforced)
    assert pod is not None
    spec = {key: value for key, value in pod.items() if key not in ("priorityClassName", "affinity")}
    plane.create(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "demo", "namespace": place.namespace}, "spec": spec}
    )
    path = f"/api/v1/namespaces/{place.namespace}/pods/demo/ephemeralcontainers"
    debugger = {"name": "debug", "image": "c:1", "securityContext": {"privileged": True}}
    for privileged, code in ((True, 422), (False, 200)):
        debugger["securityContext"] = {"privileged": privileged}
        body = {"spec": {"ephemeralContainers": [debugger]}}
        status, _ = place.api.request("PATCH", path, body, "application/strategic-merge-patch+json")
        assert status == code

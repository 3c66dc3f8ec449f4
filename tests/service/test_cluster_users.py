"""Nodes, labels and quotas for users of the cluster: their Kubernetes rights decide what they read and write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from control_plane import ControlPlane
from support.cluster_tools import Place, training
from support.documents_sent import sent
from support.node_world import labels_of
from support.repositories import gpuctl
from support.seed_world import hidden_words
from support.served import Served, serving

USERS = ("admin", "alice", "bob", "onlooker", "nobody")
AMOUNTS = {"cpu": 1000, "memory": "1Ti"}
QUOTA = {
    "kind": "quota",
    "version": "v0.1",
    "metadata": {"name": "of-teams"},
    "users": {"team-a": AMOUNTS, "team-b": AMOUNTS},
}
ROLES = {
    # Name of the ClusterRole -> verbs, resources, user, namespace ("" for all).
    "looks-at-nodes": ("get,list", "nodes", "bob", ""),
    "looks-at-pods-alone": ("list", "pods", "onlooker", "team-b"),
}


@pytest.fixture(scope="module")
def extra_rights(seed_world: ControlPlane) -> Iterator[None]:
    """Rights that no role of the control plane includes, removed afterwards."""
    for name, (verbs, resources, user, namespace) in ROLES.items():
        seed_world.kubectl("create", "clusterrole", name, f"--verb={verbs}", f"--resource={resources}")
        kind, where = ("rolebinding", ("-n", namespace)) if namespace else ("clusterrolebinding", ())
        seed_world.kubectl("create", kind, name, f"--clusterrole={name}", f"--user={user}", *where)
    yield
    seed_world.kubectl("delete", "clusterrole", *ROLES)
    seed_world.kubectl("delete", "clusterrolebinding", "looks-at-nodes")
    seed_world.kubectl("delete", "rolebinding", "looks-at-pods-alone", "-n", "team-b")


@pytest.fixture(scope="module")
def kubernetes_auth_service(
    extra_rights: None, seed_world: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    """A service that accepts the cluster's tokens, while two teams have quotas."""
    plane, directory = seed_world, tmp_path_factory.mktemp("cluster-users")
    (directory / "quota.yaml").write_text(json.dumps(QUOTA))
    assert gpuctl(directory, "apply", "-f", "quota.yaml", "--kubeconfig", str(plane.kubeconfig())).code == 0
    with serving(directory, plane.kubeconfig(), {}, auth="kubernetes") as running:
        running.tokens = {name: plane.tokens[name] for name in (*USERS, "member")}
        running.until("/quotas", lambda value: {item["namespace"] for item in value["items"]} == {"team-a", "team-b"})
        yield running
    plane.kubectl("delete", "resourcequota,limitrange", "--all", "-n", "team-a")
    plane.kubectl("delete", "resourcequota,limitrange", "--all", "-n", "team-b")


def test_nodes_and_pools_follow_kubernetes_rights(kubernetes_auth_service: Served) -> None:
    for user in ("alice", "onlooker", "nobody"):
        for path in ("/nodes", "/nodes/node-1", "/pools", "/nodes/labels/all", "/nodes/node-1/labels/a"):
            assert kubernetes_auth_service.client(user).get(path).status_code == 403, (user, path)
    # Pods of other tests may still be terminating.
    kubernetes_auth_service.until(
        "/nodes", lambda value: value == kubernetes_auth_service.get("/nodes", pageSize=1000), "bob", pageSize=1000
    )
    assert [job["name"] for job in kubernetes_auth_service.get("/nodes/node-1", "bob")["runningJobs"]] == []
    assert {job["name"] for job in kubernetes_auth_service.get("/nodes/node-6", "bob")["runningJobs"]} == {
        "wide",
        "stranger",
    }
    assert "qwen2" not in kubernetes_auth_service.client("bob").get("/pools/training-pool").text
    assert (
        kubernetes_auth_service.get("/nodes/node-1/labels/nvidia.com/gpu-type", "bob")["label"]["value"] == "a100-80g"
    )


def test_bindings_of_the_operations_guide_let_a_group_run_jobs(
    kubernetes_auth_service: Served, seed_place: Place
) -> None:
    """The roles and PriorityClasses of deploy/rbac, and the bindings of docs/operations.md, let a group run jobs."""
    plane, root = seed_place.plane, Path(__file__).parents[2]
    refused = kubernetes_auth_service.get("/jobs", "nobody", status=403)
    assert "may not see jobs in any namespace" in refused["message"]
    guide = (root / "docs" / "operations.md").read_text(encoding="utf-8")
    bindings = guide.partition("<!-- manifests -->\n```yaml\n")[2].partition("```")[0].replace("oidc:ml-team", "team-a")
    plane.kubectl("delete", "priorityclass", "gpuctl-low", "--ignore-not-found")
    plane.kubectl("apply", "-k", str(root / "deploy" / "rbac"))
    plane.kubectl("apply", "-f", "-", input=bindings)
    try:
        job = training("by-the-guide", job={"namespace": "team-a", "priority": "low"})
        seed_place.until(
            lambda: kubernetes_auth_service.client("member").post("/jobs", json=sent(job)).status_code == 201,
            "the bindings to take effect",
        )
        kubernetes_auth_service.until(
            "/jobs", lambda value: "by-the-guide" in [item["name"] for item in value["items"]], "member"
        )
        assert kubernetes_auth_service.get("/pools", "member")["total"] > 0
        kubernetes_auth_service.call("DELETE", "/jobs/by-the-guide", "member")
    finally:
        plane.kubectl("delete", "-f", "-", input=bindings)


def test_metrics_need_the_right_to_their_path(kubernetes_auth_service: Served, seed_world: ControlPlane) -> None:
    """It is the right with which Prometheus reads the metrics of the cluster's own components."""

    def status(user: str) -> int:
        token = {"Authorization": f"Bearer {kubernetes_auth_service.tokens[user]}"}
        return httpx.get(f"{kubernetes_auth_service.url}/metrics", headers=token).status_code

    assert [status(user) for user in ("admin", "alice", "nobody")] == [200, 403, 403]
    seed_world.kubectl("create", "clusterrole", "scrapes", "--verb=get", "--non-resource-url=/metrics")
    try:
        seed_world.kubectl("create", "clusterrolebinding", "scrapes", "--clusterrole=scrapes", "--user=nobody")
        seed_world.wait_for(lambda: status("nobody") == 200, "the right to take effect")
        assert kubernetes_auth_service.client("nobody").get("/jobs").status_code == 403
    finally:
        seed_world.kubectl("delete", "clusterrole,clusterrolebinding", "scrapes")


def test_quotas_follow_kubernetes_rights(kubernetes_auth_service: Served) -> None:
    """The right to list a namespace's pods does not include its quota."""
    seen = {
        user: [item["namespace"] for item in kubernetes_auth_service.get("/quotas", user)["items"]] for user in USERS
    }
    assert seen == {"admin": ["team-a", "team-b"], "alice": ["team-a"], "bob": ["team-b"], "onlooker": [], "nobody": []}
    assert (
        kubernetes_auth_service.get("/quotas/team-b", "onlooker", status=404)["message"] == "there is no quota team-b"
    )
    assert not any(word in kubernetes_auth_service.client("alice").get("/quotas").text for word in hidden_words())
    documents = {"files": [{"name": "quota.yaml", "text": json.dumps(QUOTA)}]}
    for user, status in (("admin", 200), ("alice", 403)):
        answer = kubernetes_auth_service.call("POST", "/apply", user, json=documents, status=status)
        assert user == "admin" or "Kubernetes does not allow to " in answer["message"]


def test_fit_covers_only_visible_namespaces(kubernetes_auth_service: Served) -> None:
    """alice may list pods of her namespace, but neither nodes nor pods of other namespaces."""
    told = kubernetes_auth_service.get("/fit", "alice", namespace="team-a")
    assert {job["namespace"] for job in told["jobs"]} <= {"team-a"}
    assert {job["verdict"] for job in told["jobs"]} <= {"unknown"}
    assert told["notes"][0].startswith("only namespace team-a may be read")
    assert kubernetes_auth_service.get("/fit", namespace="team-a")["notes"] == []
    assert kubernetes_auth_service.get("/fit", "nobody", status=403, namespace="team-a")["error"] == "Forbidden"


def test_labels_are_set_only_with_kubernetes_rights(kubernetes_auth_service: Served, seed_place: Place) -> None:
    body = {"key": "tried", "value": "x"}
    for user in ("alice", "bob", "nobody"):
        assert (
            kubernetes_auth_service.call("POST", "/nodes/node-1/labels", user, status=403, json=body)["error"]
            == "Forbidden"
        )
    assert "tried" not in labels_of(seed_place, "node-1")
    kubernetes_auth_service.call("POST", "/nodes/node-1/labels", json=body)
    assert labels_of(seed_place, "node-1")["tried"] == "x"
    kubernetes_auth_service.call("DELETE", "/nodes/node-1/labels/tried")

"""Commands for quotas and namespaces, with their documented output."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Upstream
from support import node_world
from support.cluster_tools import DOMAIN, Place, fresh_namespaces
from support.node_world import POOL
from support.tables import column, facts, section, table

QUOTA = "team-resource-quota"
USERS = {
    "elon-musk": {"cpu": 10, "memory": "20Gi", "gpu": 4},
    "sam-altman": {"cpu": 10, "memory": "20Gi", "gpu": {"nvidia": 4, "ascend": 8}, "maxJobs": 3},
}
DESCRIPTION = "团队资源配额配置"
GI = 1 << 30


def quota(name: str, **users: Any) -> dict[str, Any]:
    """Return a quota's document, with its header under `metadata` as in the product's documentation."""
    header = {"name": name, "description": DESCRIPTION}
    return {"kind": "quota", "version": "v0.1", "metadata": header, "users": users}


def training(name: str, namespace: str, gpus: int) -> dict[str, Any]:
    """Return a training for the training pool of the test cluster."""
    return {
        "kind": "training",
        "version": "v0.1",
        "job": {"name": name, "namespace": namespace},
        "environment": {"image": "registry.example.com/x:v1", "command": ["run"]},
        "resources": {"pool": "training-pool", "gpu": gpus, "cpu": 2, "memory": "5Gi"},
    }


@pytest.fixture(scope="module")
def used_world(world: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane; it has the namespaces of the users until the end of the file."""
    yield world
    world.kubectl("delete", "namespace", *USERS, "--ignore-not-found")


@pytest.fixture
def place(
    used_world: ControlPlane, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Place:
    """A place with quotas for two users; elon-musk runs a job."""
    result = node_world.place(used_world, tmp_path, capsys, monkeypatch)
    result.anywhere("apply", "-f", result.file(quota(QUOTA, **USERS)))
    result.anywhere("apply", "-f", result.file(training("sft", "elon-musk", 1)))
    result.until(lambda: _counted(result), "the quota to be counted")
    return result


def _counted(place: Place) -> bool:
    path = f"/api/v1/namespaces/elon-musk/resourcequotas/{QUOTA}-elon-musk"
    pods = place.api.list_objects("Pod", "elon-musk")
    used = (place.api.call("GET", path).get("status") or {}).get("used") or {}
    return used.get("requests.nvidia.com/gpu") == "1" and any(pod["spec"].get("nodeName") for pod in pods)


@pytest.mark.parametrize("verb", ["get", "query"])
def test_get_quotas(verb: str, place: Place) -> None:
    found = place.anywhere(verb, "quotas").out
    assert re.split(r" {2,}", found.splitlines()[0]) == ["USER", "QUOTA", "STATUS", "CPU", "MEMORY", "GPU", "JOBS"]
    assert [tuple(row.values()) for row in table(found)] == [
        ("elon-musk", QUOTA, "ok", "2/10", "5Gi/20Gi", "1/4", "-"),
        ("sam-altman", QUOTA, "ok", "0/10", "0/20Gi", "ascend:0/8,nvidia:0/4", "0/3"),
    ]
    assert column(place.anywhere(verb, "quotas", "elon-musk").out, "USER") == ["elon-musk"]
    assert column(place.anywhere(verb, "quotas", QUOTA).out, "USER") == ["elon-musk", "sam-altman"]
    assert column(place.anywhere(verb, "quotas", "-n", "sam-altman").out, "USER") == ["sam-altman"]
    assert place.anywhere(verb, "quotas", "-o", "name").out == "quota/elon-musk\nquota/sam-altman\n"
    wide = place.anywhere(verb, "quotas", "-o", "wide").out
    assert (column(wide, "SCOPES"), column(wide, "DESCRIPTION")) == (["-"] * 2, [DESCRIPTION] * 2)


def test_json_of_a_quota(place: Place) -> None:
    (found,) = place.anywhere("get", "quotas", "elon-musk", "-o", "json").value["items"]
    assert found.pop("createdAt").endswith("Z")
    resources = found.pop("resources")
    assert found == {
        "name": QUOTA,
        "namespace": "elon-musk",
        "description": DESCRIPTION,
        "status": "ok",
        "cpuTotal": 10,
        "cpuUsed": 2,
        "memoryTotalBytes": 20 * GI,
        "memoryUsedBytes": 5 * GI,
        "gpuTotal": 4,
        "gpuUsed": 1,
        "maxJobs": None,
        "jobsUsed": None,
        "defaultRequest": {"cpu": "1", "memory": "2Gi"},
        "scopes": [],
    }
    assert resources[2] == {
        "resource": "requests.nvidia.com/gpu",
        "name": "gpu",
        "vendor": "nvidia",
        "gpuType": None,
        "unit": "count",
        "total": 4,
        "used": 1,
        "free": 3,
        "usedPercent": 25.0,
    }
    assert resources[1]["unit"] == "bytes"
    described = place.anywhere("describe", "quota", "elon-musk", "--json").value
    assert described["resources"] == resources


def test_describe_quota(place: Place) -> None:
    printed = place.anywhere("describe", "quota", "elon-musk").out
    said = facts(printed)
    assert (said["User"], said["Quota"], said["Description"]) == ("elon-musk", QUOTA, DESCRIPTION)
    assert said["Without requests"] == "a container counts as cpu 1, memory 2Gi"
    assert [tuple(row.values()) for row in section(printed, "Limits")] == [
        ("cpu", "10", "2", "8", "20%"),
        ("memory", "20Gi", "5Gi", "15Gi", "25%"),
        ("gpu", "4", "1", "3", "25%"),
    ]
    (user,) = section(printed, "Used by")
    assert (user["NAME"], user["KIND"], user["GPU"]) == ("sft", "training", "1")
    limits = section(place.anywhere("describe", "quota", "sam-altman").out, "Limits")
    assert [row["RESOURCE"] for row in limits] == ["cpu", "memory", "gpu/ascend", "gpu/nvidia", "jobs"]


@pytest.mark.slow
def test_a_quota_that_is_used_up_is_full(place: Place) -> None:
    path = place.file(quota("small", grace={"gpu": 1, "cpu": 4, "memory": "8Gi"}), name="small.yaml")
    place.anywhere("apply", "-f", path)
    place.anywhere("apply", "-f", place.file(training("all", "grace", 1)))
    place.until(lambda: table(place.anywhere("get", "quotas", "grace").out)[0]["GPU"] == "1/1", "the count")
    assert table(place.anywhere("get", "quotas", "grace").out)[0]["STATUS"] == "full"
    place.anywhere("delete", "namespace", "grace", "--yes")


@pytest.mark.slow
def test_unknown_quota_suggests_a_similar_name(place: Place) -> None:
    for words in ("get quotas elon-muks", "describe quota elon-muks", "delete quota elon-muks"):
        failed = place.anywhere(*words.split(), code=1)
        assert failed.err.startswith("error: there is no quota elon-muks\n  = did you mean `elon-musk`?")


# Namespaces -----------------------------------------------------------------------------------------------


def test_get_namespaces(place: Place) -> None:
    found = {row["NAME"]: row for row in table(place.anywhere("get", "namespaces").out)}
    assert set(found) == {"elon-musk", "sam-altman"}, (
        "without the namespaces of Kubernetes and gpuctl, and without empty ones"
    )
    assert [found["elon-musk"][key] for key in ("STATUS", "JOBS", "GPU USED", "QUOTA")] == ["Active", "1", "1", QUOTA]
    assert "kube-system" in place.anywhere("get", "ns", "--all", "-o", "name").out
    (item,) = place.anywhere("get", "namespace", "elon-musk", "--json").value["items"]
    assert (item["jobs"], item["gpuUsed"], item["quotas"]) == (1, 1, [QUOTA])


@pytest.mark.slow
def test_describe_namespace(place: Place) -> None:
    printed = place.anywhere("describe", "namespace", "elon-musk").out
    assert facts(printed)["Jobs"] == "1 of 1 have not ended"
    assert [row["NAME"] for row in section(printed, "Running")] == ["sft"]
    assert section(printed, "Limits")[2]["USE"] == "25%"
    value = place.anywhere("describe", "ns", "elon-musk", "-o", "json").value
    assert [job["name"] for job in value["runningJobs"]] == ["sft"]
    assert value["quotas"][0]["gpuUsed"] == 1
    assert "did you mean `elon-musk`?" in place.anywhere("describe", "ns", "elonmusk", code=1).err


@pytest.mark.slow
def test_describe_namespace_shows_foreign_quotas(place: Place) -> None:
    hard = {"limits.memory": "64Gi", "pods": "10"}
    metadata = {"name": "by-hand", "namespace": "sam-altman"}
    place.plane.kubectl("delete", "resourcequota", "by-hand", "-n", "sam-altman", "--ignore-not-found")
    place.plane.create({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}})
    printed = place.anywhere("describe", "namespace", "sam-altman").out
    assert "by-hand (not gpuctl's)" in printed
    assert re.search(r"limits.memory +64Gi", printed)
    assert column(place.anywhere("get", "quotas").out, "QUOTA") == [QUOTA, QUOTA]
    place.plane.kubectl("delete", "resourcequota", "by-hand", "-n", "sam-altman")


# Deleting -------------------------------------------------------------------------------------------------


def test_delete_quota_leaves_the_namespace(place: Place) -> None:
    done = place.anywhere("delete", "quota", "elon-musk")
    assert f"deleted   resourcequota/{QUOTA}-elon-musk -n elon-musk\n" in done.out
    assert f"deleted   limitrange/{QUOTA}-elon-musk -n elon-musk\n" in done.out
    assert column(place.anywhere("get", "quotas").out, "USER") == ["sam-altman"]
    assert place.plane.get("job", "sft", "-n", "elon-musk")["metadata"]["name"] == "sft"


@pytest.mark.slow
def test_delete_quota_by_document_name_and_by_file(place: Place) -> None:
    value = place.anywhere("delete", "quota", QUOTA, "--json").value
    assert value["summary"] == {"delete": 4}
    place.anywhere("apply", "-f", place.file(quota(QUOTA, **USERS)))
    place.anywhere("delete", "-f", place.file(quota(QUOTA, **USERS)))
    assert "There are no quotas." in place.anywhere("get", "quotas").err


@pytest.mark.slow
def test_delete_with_namespace_too_asks_and_lists_contents(place: Place) -> None:
    place.anywhere("apply", "-f", place.file(quota("other", ada={"gpu": 1, "cpu": 4, "memory": "8Gi"})))
    place.anywhere("apply", "-f", place.file(training("mine", "ada", 1)))
    place.plane.kubectl("create", "configmap", "notes", "-n", "ada")
    place.until(lambda: place.api.list_objects("Pod", "ada"), "the pod")
    asked = place.anywhere("delete", "quota", "ada", "--namespace-too", code=2)
    assert "deletes namespace ada and everything in it: training/mine" in asked.err
    assert "1 configmap, " in asked.err
    assert "1 resourcequota" in asked.err, "kinds come from the server's discovery"
    assert column(place.anywhere("get", "quotas", "ada").out, "USER") == ["ada"]
    done = place.anywhere("delete", "quota", "ada", "--namespace-too", "--yes")
    assert done.out.endswith("deleted   namespace/ada\n")
    assert place.api.request("GET", "/api/v1/namespaces/ada")[0] == 404


@pytest.mark.slow
def test_delete_namespace(place: Place) -> None:
    fresh_namespaces(place.plane, "leaves")
    assert "nothing of note" in place.anywhere("delete", "namespace", "leaves", code=2).err
    value = place.anywhere("delete", "ns", "leaves", "--yes", "-o", "json").value
    assert [(step["kind"], step["name"], step["result"]) for step in value["steps"]] == [
        ("Namespace", "leaves", "done")
    ]
    assert place.api.request("GET", "/api/v1/namespaces/leaves")[0] == 404


def test_system_namespaces_are_never_deleted(place: Place) -> None:
    for name in ("default", "kube-system", "kube-public", "gpuctl-system"):
        assert f"error: namespace {name} " in place.anywhere("delete", "namespace", name, "--yes", code=1).err
    assert place.plane.get("namespace", "default")["status"]["phase"] == "Active"


@pytest.mark.slow
def test_stuck_namespace_deletion_is_reported(place: Place) -> None:
    """Kubernetes begins 5 s after the delete (namespace_controller.go, namespaceDeletionGracePeriod)."""
    fresh_namespaces(place.plane, "stays")
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "namespace": "stays"}}
    obj["metadata"]["finalizers"] = ["example.com/held"]  # type: ignore[index]
    place.plane.create(obj)
    try:
        # Kubernetes reports the finalizer after its first check, which takes longer on a busy machine.
        for seconds in (9, 60):
            failed = place.anywhere("delete", "namespace", "stays", "--yes", "--timeout", f"{seconds}s", code=1)
            assert f"still exists after {seconds} s" in failed.out
            if "example.com/held" in failed.out:
                break
        assert "example.com/held" in failed.out
    finally:
        released = '{"metadata":{"finalizers":null}}'
        place.plane.kubectl("patch", "configmap", "held", "-n", "stays", "--type=merge", "-p", released)


# Rights and requests --------------------------------------------------------------------------------------


def test_tenant_sees_only_their_namespace(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.anywhere("apply", "-f", place.file(quota("theirs", **{"team-a": {"gpu": 2}})))
    try:
        monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig("alice")))
        for words in ("get quotas team-a", "get quotas -n team-a"):
            assert column(place.anywhere(*words.split()).out, "USER", "QUOTA") == [("team-a", "theirs")]
        assert facts(place.anywhere("describe", "quota", "team-a").out)["Quota"] == "theirs"
        assert "user alice may not list resourcequotas" in place.anywhere("get", "quotas", "sam-altman", code=3).err
        assert "or a namespace with -n" in place.anywhere("get", "quotas", code=3).err
        assert facts(place.anywhere("describe", "namespace", "team-a").out)["Name"] == "team-a"
        refused = place.anywhere("get", "namespaces", code=3).err
        assert "may not list namespaces" not in refused, "the namespace of the context may not be read either"
        assert "name a namespace that you may read: `gpuctl get namespaces NAME`" in refused
        named = place.anywhere("get", "namespaces", "team-a")
        assert (column(named.out, "NAME", "QUOTA"), named.err) == ([("team-a", "theirs")], "")
        own = json.loads(place.plane.kubeconfig("alice").read_text())
        own["contexts"][0]["context"]["namespace"] = "team-a"
        (place.directory / "own.kubeconfig").write_text(json.dumps(own))
        monkeypatch.setenv("KUBECONFIG", str(place.directory / "own.kubeconfig"))
        alone = place.anywhere("get", "namespaces")
        assert column(alone.out, "NAME", "STATUS", "QUOTA") == [("team-a", "-", "theirs")]
        assert (
            "may not list namespaces in the whole cluster: shown is team-a, the namespace of the context" in alone.err
        )
        refused = place.anywhere("delete", "namespace", "team-a", "--yes", code=3)
        assert "user alice may not delete namespaces" in refused.err
        refused = place.anywhere("delete", "quota", "team-a", code=3)
        assert "you may not delete" in refused.err
    finally:
        monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig()))
        place.anywhere("delete", "quota", "team-a")


def test_namespaces_whose_contents_may_not_be_read_have_no_row(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with 0 jobs and 0 GPUs would be wrong: elon-musk runs one."""
    nightly = {**training("nightly", "team-b", 0), "schedule": {"cron": "0 3 1 1 *"}}
    place.anywhere("apply", "-f", place.file(nightly))
    binding = place.plane.grant("bob", None, [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}])
    try:
        own = json.loads(place.plane.kubeconfig("bob").read_text())
        own["contexts"][0]["context"]["namespace"] = "team-b"
        (place.directory / "own.kubeconfig").write_text(json.dumps(own))
        monkeypatch.setenv("KUBECONFIG", str(place.directory / "own.kubeconfig"))
        place.until(lambda: place.plane.may("bob", "list", "namespaces"), "the right of bob")
        for flags in ([], ["--all"], ["team-b"]):
            shown = place.anywhere("get", "namespaces", *flags)
            assert column(shown.out, "NAME", "JOBS") == [("team-b", "1")]
            assert shown.err == "note: not all namespaces may be read; showing only team-b\n"
        refused = place.anywhere("get", "namespaces", "elon-musk", code=3).err
        assert refused.startswith("error: user bob may not list ")
        assert " in namespace elon-musk\n" in refused
    finally:
        monkeypatch.setenv("KUBECONFIG", str(place.plane.kubeconfig()))
        place.plane.kubectl("delete", "clusterrolebinding", binding)
        place.anywhere("delete", "job", "nightly", "-n", "team-b", "--yes")


@pytest.mark.slow
def test_number_of_requests_does_not_grow_with_namespaces(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    counts = []
    for number in (0, 20):
        for index in range(number):
            # A failed first attempt may have created the namespace.
            place.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": f"many-{index}"}})
        upstream = Upstream(place.plane.port, place.plane.directory / "certificates" / "apiserver.crt")
        with Proxy(place.plane, upstream) as proxy:
            monkeypatch.setenv("KUBECONFIG", str(proxy.kubeconfig(tmp_path / f"through-proxy-{number}")))
            place.anywhere("get", "quotas")
            place.anywhere("get", "namespaces", "--all")
            counts.append(proxy.count())
        upstream.close()
    assert counts[0] == counts[1] < 20


@pytest.mark.slow
def test_platform_label_domain_selects_pools_and_quotas(place: Place) -> None:
    """With another label domain in the platform, the pools and quotas of this domain are not shown."""
    place.platform("labels:\n  domain: other.example.com")
    assert "There are no quotas." in place.anywhere("get", "quotas").err
    assert column(place.anywhere("get", "pools").out, "POOL NAME") == ["default"]
    assert POOL.startswith(DOMAIN)


def test_quota_of_kueue_needs_kueue(place: Place) -> None:
    place.platform("quota: {backend: kueue}")
    refused = place.anywhere("apply", "-f", place.file(quota("queues", **{"queue-user": {"gpu": 4}})), code=1)
    assert "clusterqueue.kueue.x-k8s.io/gpuctl-queue-user: this kind is not installed in the cluster" in refused.err
    assert "nothing was changed" in refused.err

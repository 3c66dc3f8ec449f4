"""Node labels: the examples of the product's documents, the command line's rules, invalid keys, and access rights."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from control_plane import ControlPlane
from gpuctl.api.node_label_answers import (
    BatchReport,
    DeletedLabel,
    GpuLabelPage,
    KeptLabel,
    LabelPage,
    SetLabel,
)
from support.cluster_tools import POOL, Place
from support.node_world import POOL as POOL_LABEL
from support.node_world import SYSTEM, TYPE, labels_of, managers, spare_nodes
from support.remote import Remote
from support.served import Served

KEY, MODEL = "nvidia.com/gpu-type", "company.com/gpu-model"
RACK = "runwhere.ai/rack"


@pytest.fixture(autouse=True)
def settled(served: Served, seed_place: Place) -> None:
    """Wait until the service lists all nodes in their current state."""
    served.until(
        "/nodes", lambda value: value == seed_place.anywhere("get", "nodes", "-o", "json").value, pageSize=1000
    )


@pytest.fixture
def spares(served: Served, seed_world: ControlPlane) -> Iterator[None]:
    """Two nodes of the tests' pool and one without a pool, which tests may change."""
    spare = {"spare-1", "spare-2", "spare-3"}
    with spare_nodes(seed_world, "spare-1", "spare-2", labels={POOL_LABEL: POOL}), spare_nodes(seed_world, "spare-3"):
        served.until("/nodes/labels", lambda value: spare <= names(value), **hostnames())
        yield
    # Otherwise the next test finds these nodes in their old state.
    served.until("/nodes/labels", lambda value: spare.isdisjoint(names(value)), **hostnames())


def names(value: Any) -> set[str]:
    """Return the names of the nodes of a list."""
    return {item["nodeName"] for item in value["items"]}


def hostnames() -> dict[str, Any]:
    """Return the query for a label that every node has."""
    return {"key": "kubernetes.io/hostname", "pageSize": 1000}


def put(served: Served, node: str, key: str, value: str, name: str = "admin", *, status: int = 200, **more: Any) -> Any:
    """Set a label."""
    body = {"key": key, "value": value, **more}
    return served.call("POST", f"/nodes/{node}/labels", name, status=status, json=body)


# Reading --------------------------------------------------------------------------------------------------


def test_documented_list_of_one_label(served: Served, seed_place: Place) -> None:
    value = served.get("/nodes/labels", key=KEY)
    assert value == {
        "total": 5,
        "items": [
            {"nodeName": "node-1", "labelKey": KEY, "labelValue": "a100-80g"},
            {"nodeName": "node-2", "labelKey": KEY, "labelValue": "a100-80g"},
            {"nodeName": "node-3", "labelKey": KEY, "labelValue": "a100-40g"},
            {"nodeName": "node-5", "labelKey": KEY, "labelValue": "t4"},
            {"nodeName": "node-6", "labelKey": KEY, "labelValue": "a100-80g"},
        ],
    }
    assert value == seed_place.anywhere("get", "nodes", "--label", KEY, "-o", "json").value
    assert served.get("/nodes/labels", key="no/such") == {"total": 0, "items": []}
    LabelPage.model_validate(value)


def test_documented_list_of_gpu_labels(served: Served, seed_place: Place) -> None:
    value = served.get("/nodes/labels/all", pageSize=1000)
    assert value == seed_place.anywhere("get", "node-labels", "--all", "-o", "json").value
    found = {item["nodeName"]: item for item in value["items"]}
    assert found["node-1"]["gpuLabels"] == [{"key": KEY, "value": "a100-80g"}]
    assert found["node-1"]["boundPools"] == ["training-pool"]
    assert found["node-4"]["gpuLabels"] == [{"key": MODEL, "value": "t4"}]
    assert found["node-4"]["boundPools"] == ["experiment-pool"]
    GpuLabelPage.model_validate(value)


def test_documented_label_of_one_node(served: Served, seed_place: Place) -> None:
    for key in (KEY, quote(KEY, safe=""), "kubernetes.io/hostname", "kubernetes.io%2Fhostname"):
        value = served.get(f"/nodes/node-1/labels/{key}")
        plain = key.replace("%2F", "/")
        assert value == seed_place.anywhere("get", "label", "node-1", f"--key={plain}", "-o", "json").value
        assert (value["nodeName"], value["label"]["key"]) == ("node-1", plain)
        assert value["label"]["createdAt"] <= value["label"]["lastUpdatedAt"]
        KeptLabel.model_validate(value)


def test_documented_error_for_a_missing_label(served: Served) -> None:
    value = served.get(f"/nodes/node-4/labels/{KEY}", status=404)
    assert value == {"error": "LabelNotFound", "message": f"node node-4 has no label {KEY}", "details": []}
    assert served.get(f"/nodes/node-0/labels/{KEY}", status=404)["error"] == "NodeNotFound"


def test_all_labels_of_a_node_equal_those_of_the_command_line(served: Served, seed_place: Place) -> None:
    value = served.get("/nodes/node-1/labels")
    assert value == seed_place.anywhere("get", "labels", "node-1", "-o", "json").value
    absent = served.get("/nodes/none/labels", status=404)
    assert (absent["error"], absent["message"]) == ("NodeNotFound", "there is no node none")
    assert put(served, "none", RACK, "x", status=404) == absent, "suggestions are in `hint` of every answer"


def test_label_times_ignore_changes_of_other_labels(served: Served, spares: None, seed_place: Place) -> None:
    """A later change of another label does not change the times of this one."""
    seed_place.api.call("PATCH", "/api/v1/nodes/spare-1?fieldManager=one", _labels({"when": "a"}), MERGE)
    first = served.until("/nodes/spare-1/labels/when", lambda value: True)["label"]
    assert first["createdAt"] == first["lastUpdatedAt"]
    seed_place.until(lambda: _later(seed_place, first["createdAt"]), "the API server's clock to advance")
    seed_place.api.call("PATCH", "/api/v1/nodes/spare-1?fieldManager=two", _labels({"other": "b"}), MERGE)
    other = served.until("/nodes/spare-1/labels/other", lambda value: True)["label"]
    assert served.get("/nodes/spare-1/labels/when")["label"] == first
    assert other["createdAt"] > first["createdAt"]


MERGE = "application/merge-patch+json"


def _labels(labels: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


def _later(place: Place, moment: str) -> bool:
    """Return True if the API server's clock, which counts in seconds, is later than this time."""
    made = place.api.call("POST", "/api/v1/namespaces/team-a/configmaps", {"metadata": {"generateName": "clock-"}})
    place.api.call("DELETE", f"/api/v1/namespaces/team-a/configmaps/{made['metadata']['name']}")
    return str(made["metadata"]["creationTimestamp"]) > moment


# Setting and deleting ---------------------------------------------------------------------------------------


def test_documented_setting_of_a_label(served: Served, spares: None, seed_place: Place) -> None:
    value = put(served, "spare-1", KEY, "a100-80g", overwrite=False)
    assert value == {
        "nodeName": "spare-1",
        "label": {"key": KEY, "value": "a100-80g"},
        "message": f"node spare-1: {KEY}=a100-80g",
        "notes": [f"jobs select GPU types by {TYPE}, not by {KEY}: set it too, so that jobs find the node"],
    }
    SetLabel.model_validate(value)
    assert labels_of(seed_place, "spare-1")[KEY] == "a100-80g"
    assert managers(seed_place, "spare-1", KEY) == {"gpuctl-label"}
    assert put(served, "spare-1", KEY, "a100-80g")["message"] == f"node spare-1: {KEY}=a100-80g (unchanged)"


def test_documented_label_conflict(served: Served, spares: None, seed_place: Place) -> None:
    put(served, "spare-1", KEY, "a100-80g")
    value = put(served, "spare-1", KEY, "a100-40g", status=409)
    said = f"node spare-1 has {KEY}=a100-80g already; set overwrite=true to replace it"
    assert value == {"error": "LabelConflict", "message": said, "details": []}
    assert labels_of(seed_place, "spare-1")[KEY] == "a100-80g"
    done = put(served, "spare-1", KEY, "a100-40g", overwrite=True)
    assert done["message"] == f"node spare-1: {KEY}=a100-40g (was a100-80g)"


def test_documented_batch_labelling(served: Served, spares: None, seed_place: Place) -> None:
    body = {"nodeNames": ["spare-2", "spare-3"], "key": MODEL, "value": "a100-40g", "overwrite": True}
    value = served.call("POST", "/nodes/labels/batch", json=body)
    said = f"jobs select GPU types by {TYPE}, not by {MODEL}: set it too, so that jobs find the node"
    assert value == {
        "success": ["spare-2", "spare-3"],
        "failed": [],
        "message": "2 of 2 nodes labelled",
        "notes": [said],
        "nodes": [{"nodeName": name, "message": f"{MODEL}=a100-40g"} for name in ("spare-2", "spare-3")],
    }
    value = served.call("POST", "/nodes/labels/batch", json={**body, "nodeNames": ["spare-2", "spare-9", "..", ""]})
    BatchReport.model_validate(value)
    assert (value["success"], value["message"]) == (["spare-2"], "1 of 4 nodes labelled; see `failed`")
    assert [(item["nodeName"], item["error"]) for item in value["failed"]] == [
        ("spare-9", "NodeNotFound"),
        ("..", "NodeNotFound"),
        ("", "NodeNotFound"),
    ]
    assert value["failed"][0]["message"].startswith("there is no node spare-9; ")
    value = served.call("POST", "/nodes/labels/batch", json={**body, "value": "t4", "overwrite": False})
    assert [item["error"] for item in value["failed"]] == ["LabelConflict"] * 2
    assert value["message"] == "0 of 2 nodes labelled; see `failed`"
    assert labels_of(seed_place, "spare-3")[MODEL] == "a100-40g"


def test_label_changes_are_all_or_nothing_per_node(served: Served, spares: None, seed_place: Place) -> None:
    """All labels of a node are changed, or none."""
    put(served, "spare-1", RACK, "r1")
    body: dict[str, Any] = {"nodeNames": ["spare-1", "spare-2"], "labels": {RACK: None, MODEL: "t4"}}
    value = BatchReport.model_validate(served.call("POST", "/nodes/labels/changes", json=body))
    assert [(node.node_name, node.message) for node in value.nodes] == [
        ("spare-1", f"{RACK} deleted (was r1), {MODEL}=t4")
    ]
    assert [(item.node_name, item.error, item.is_outage) for item in value.failed] == [
        ("spare-2", "LabelNotFound", False)
    ]
    assert MODEL not in labels_of(seed_place, "spare-2")
    conflict = {**body, "labels": {MODEL: "a10"}}
    value = BatchReport.model_validate(served.call("POST", "/nodes/labels/changes", json=conflict))
    assert (value.success, value.failed[0].error) == (["spare-2"], "LabelConflict")
    deletion = {**body, "labels": {MODEL: None}}
    value = BatchReport.model_validate(served.call("POST", "/nodes/labels/changes", json=deletion))
    assert [node.message for node in value.nodes] == [f"{MODEL} deleted (was t4)", f"{MODEL} deleted (was a10)"]
    assert not {RACK, MODEL} & {*labels_of(seed_place, "spare-1"), *labels_of(seed_place, "spare-2")}
    for wrong in ({}, {"a/b/c": "x"}, {"a/b/c": None}, {RACK: 1}):
        served.call("POST", "/nodes/labels/changes", status=400, json={**body, "labels": wrong})


def test_documented_deletion_of_a_label(served: Served, spares: None, seed_place: Place) -> None:
    for key in (KEY, quote(KEY, safe=""), "plain", "a.b.c/d_e.f-g"):
        plain = key.replace("%2F", "/")
        put(served, "spare-1", plain, "x")
        value = served.call("DELETE", f"/nodes/spare-1/labels/{key}")
        assert value == {
            "nodeName": "spare-1",
            "labelKey": plain,
            "message": f"node spare-1: {plain} deleted (was x)",
            "notes": [],
        }
        DeletedLabel.model_validate(value)
        assert plain not in labels_of(seed_place, "spare-1")
        again = served.call("DELETE", f"/nodes/spare-1/labels/{key}", status=404)
        assert again == {"error": "LabelNotFound", "message": f"node spare-1 has no label {plain}", "details": []}


def test_label_writes_are_visible_at_once(served: Served, spares: None) -> None:
    """At once, in every answer; a deletion too."""
    for number in range(20):
        put(served, "spare-3", MODEL, f"v{number}", overwrite=True)
        pair = {"key": MODEL, "value": f"v{number}"}
        assert pair in served.get("/nodes/spare-3")["labels"]
        item = next(item for item in served.get("/nodes/labels", key=MODEL)["items"] if item["nodeName"] == "spare-3")
        assert item["labelValue"] == f"v{number}"
        assert served.call("GET", "/nodes", params={"gpuType": f"{MODEL}=V{number}"})["total"] == 1
    served.call("DELETE", f"/nodes/spare-3/labels/{MODEL}")
    assert "spare-3" not in names(served.get("/nodes/labels", key=MODEL))


def test_pool_label_updates_the_pool_definition(served: Served, spares: None, seed_place: Place) -> None:
    document = {"kind": "pool", "version": "v0.1", "pool": {"name": "spares"}, "nodes": {"spare-3": {}}}
    seed_place.anywhere("apply", "-f", seed_place.file(document))
    served.until("/pools/default", lambda value: "spare-3" not in value["nodes"])
    put(served, "spare-1", POOL_LABEL, "spares", overwrite=True)
    path = f"/api/v1/namespaces/{SYSTEM}/configmaps/pool-spares"

    def defined() -> list[str]:
        return sorted(yaml.safe_load(seed_place.api.call("GET", path)["data"]["pool.yaml"])["nodes"])

    assert defined() == ["spare-1", "spare-3"]
    assert served.get("/pools/spares")["nodes"] == ["spare-1", "spare-3"]
    served.call("DELETE", f"/nodes/spare-3/labels/{POOL_LABEL}")
    assert defined() == ["spare-1"]
    value = served.get("/pools/spares")
    assert (value["nodes"], value["missingNodes"]) == (["spare-1"], []), "the answer waits for the definition too"
    undefined = put(served, "spare-3", POOL_LABEL, "nobody-s")
    assert undefined["notes"] == ["pool nobody-s has no definition, only nodes; `POST /pools` gives it one"]


def test_concurrent_label_writes_are_all_kept(served: Served, spares: None, seed_place: Place) -> None:
    """Twenty concurrent writers of one node write a label each; none is lost."""
    with ThreadPoolExecutor(10) as threads:
        done = list(threads.map(lambda number: put(served, "spare-2", f"many/{number}", "x"), range(20)))
    assert len(done) == 20
    assert {f"many/{number}" for number in range(20)} <= set(labels_of(seed_place, "spare-2"))


# Invalid labels -------------------------------------------------------------------------------------------

BODIES: list[tuple[Any, str]] = [
    ({"key": "a/b/c", "value": "x"}, "InvalidOptions"),
    ({"key": "", "value": "x"}, "InvalidOptions"),
    ({"key": "..", "value": "x"}, "InvalidOptions"),
    ({"key": "a//b", "value": "x"}, "InvalidOptions"),
    ({"key": "../../pods", "value": "x"}, "InvalidOptions"),
    ({"key": "k" * 64, "value": "x"}, "InvalidOptions"),
    ({"key": "a", "value": "x y"}, "InvalidOptions"),
    ({"key": "a", "value": "v" * 64}, "InvalidOptions"),
    ({"key": "a", "value": "x\n"}, "InvalidOptions"),
    ({"key": "a\n", "value": "x"}, "InvalidOptions"),
    ({"key": "k" * 600, "value": "x"}, "InvalidRequest"),
    ({"key": "a"}, "InvalidRequest"),
    ({"key": "a", "value": 1}, "InvalidRequest"),
    ({"key": "a", "value": None}, "InvalidRequest"),
    ({"key": "a", "value": "x", "overwrite": "yes"}, "InvalidRequest"),
    ({"key": "a", "value": "x", "force": True}, "InvalidRequest"),
    ([], "InvalidRequest"),
]


def test_invalid_label_bodies_are_rejected(served: Served, seed_place: Place) -> None:
    before = labels_of(seed_place, "node-1")
    for body, error in BODIES:
        assert served.call("POST", "/nodes/node-1/labels", status=400, json=body)["error"] == error, body
        if isinstance(body, dict):
            several = {"nodeNames": ["node-1"], **body}
            assert served.call("POST", "/nodes/labels/batch", status=400, json=several)["error"] == error, body
    lists: list[Any] = [[], ["n"] * 501, "node-1", [1], ["n" * 254], None]
    for nodes in lists:
        listed = {"nodeNames": nodes, "key": "a", "value": "x"}
        assert served.call("POST", "/nodes/labels/batch", status=400, json=listed)["error"] == "InvalidRequest", nodes
    assert labels_of(seed_place, "node-1") == before


@pytest.mark.slow
def test_batch_of_maximum_size_reports_missing_nodes(served: Served, spares: None) -> None:
    """Only one of the nodes exists, or none: the answer lists the failures with status 200."""
    body = {"nodeNames": ["spare-1", *(f"none-{number}" for number in range(499))], "key": "a", "value": "x"}
    value = served.call("POST", "/nodes/labels/batch", json=body)
    assert (value["success"], len(value["failed"])) == (["spare-1"], 499)
    assert value["failed"][0]["message"] == "there is no node none-0", "no suggestions for so many nodes"
    value = served.call("POST", "/nodes/labels/batch", json={**body, "nodeNames": ["none-1", "none-1"]})
    assert (value["success"], [item["nodeName"] for item in value["failed"]]) == ([], ["none-1"])


PATHS = [
    "/nodes/node-1/labels/",
    "/nodes/node-1/labels/..",
    "/nodes/node-1/labels/%2e%2e",
    "/nodes/node-1/labels/../../..",
    "/nodes/node-1/labels/%2e%2e%2f%2e%2e%2fnamespaces",
    "/nodes/node-1/labels//",
    "/nodes/node-1/labels/a//b",
    "/nodes/node-1/labels/a/b/c",
    "/nodes/node-1/labels/a%00",
    "/nodes/node-1/labels/a%0a",
    "/nodes/node-1/labels/%ff",
    "/nodes/node-1/labels/" + "k" * 64,
    "/nodes/node-1/labels/" + "k" * 400,
    "/nodes/../node-1/labels/a",
    "/nodes/%2e%2e/labels/a",
    "/nodes/%2e%2e%2fpods/labels/a",
    "/nodes//labels/a",
    "/nodes/node-1%2flabels/labels/a",
]


def test_invalid_label_paths_and_node_names_are_rejected(served: Served, seed_place: Place) -> None:
    before = labels_of(seed_place, "node-1")
    for path in PATHS:
        for method in ("GET", "DELETE"):
            answer = served.untidied(method, path)
            assert (answer.status, answer.value["error"]) in {
                (400, "InvalidOptions"),
                (400, "InvalidRequest"),
                (404, "NotFound"),
                (404, "NodeNotFound"),
                (404, "LabelNotFound"),
            }, (method, path)
    for node in ("..", "%2e%2e", ".", "%2e%2e%2fpods", "", "NODE", "a" * 300, "%00"):
        answer = served.untidied("POST", f"/nodes/{node}/labels", body={"key": "a", "value": "x"})
        assert answer.status in {400, 404, 405}, node
    assert labels_of(seed_place, "node-1") == before


def test_missing_or_invalid_key_is_rejected(served: Served) -> None:
    assert served.get("/nodes/labels", status=400)["message"].startswith("the query parameter key is ")
    for key in ("", "a//b", "..", "k" * 318):
        assert served.get("/nodes/labels", status=400, key=key)["error"].startswith("Invalid")


# Access rights ------------------------------------------------------------------------------------------------


def test_pool_limited_token_sees_only_its_nodes(served: Served, spares: None) -> None:
    """Nodes of other pools do not exist for this token."""
    found = served.get("/nodes/labels", "otto", **hostnames())
    assert {"spare-1", "spare-2", f"{POOL}-0"} <= names(found)
    assert {"spare-3", "node-1"}.isdisjoint(names(found))
    assert names(served.get("/nodes/labels/all", "otto", pageSize=1000)) == names(found)
    for path in ("/nodes/{}/labels", f"/nodes/{{}}/labels/{KEY}"):
        there, absent = (served.get(path.format(node), "otto", status=404) for node in ("node-1", "node-0"))
        assert json.loads(json.dumps(there).replace("node-1", "node-0")) == absent


def test_pool_limited_admin_labels_only_its_nodes(served: Served, spares: None, seed_place: Place) -> None:
    """An admin limited to a pool labels its nodes, but can neither add nodes to the pool nor remove them."""
    assert put(served, "spare-1", RACK, "x", "paula")["nodeName"] == "spare-1"
    there, absent = (
        put(served, "node-1", RACK, "x", "paula", status=404),
        put(served, "node-0", RACK, "x", "paula", status=404),
    )
    assert json.loads(json.dumps(there).replace("node-1", "node-0")) == absent
    assert there["error"] == "NodeNotFound"
    assert "node-2" not in there["message"]
    value = served.call(
        "POST", "/nodes/labels/batch", "paula", json={"nodeNames": ["spare-2", "spare-3"], "key": RACK, "value": "x"}
    )
    assert (value["success"], [item["error"] for item in value["failed"]]) == (["spare-2"], ["NodeNotFound"])
    given = put(served, "spare-1", POOL_LABEL, "training-pool", "paula", status=403, overwrite=True)
    assert given["error"] == "Forbidden"
    assert served.call("DELETE", f"/nodes/spare-1/labels/{POOL_LABEL}", "paula", status=403)["error"] == "Forbidden"
    assert put(served, "spare-3", POOL_LABEL, POOL, "paula", status=404)["error"] == "NodeNotFound"
    assert RACK not in labels_of(seed_place, "node-1")
    assert labels_of(seed_place, "spare-1")[POOL_LABEL] == POOL


def test_every_label_write_is_in_the_audit_log(served: Served, spares: None, seed_place: Place) -> None:
    put(served, "spare-1", "audited", "x")
    put(served, "spare-1", "audited", "y", status=409)
    served.call("DELETE", "/nodes/spare-1/labels/audited")
    several_nodes = {"nodeNames": ["spare-2", "none"], "key": "audited", "value": "x"}
    served.call("POST", "/nodes/labels/batch", json=several_nodes)

    def written() -> list[dict[str, Any]]:
        found = (json.loads(line) for line in list(served.log) if '"audit"' in line)
        return [line for line in found if "label/audited" in line["objects"]]

    seed_place.until(lambda: len(written()) == 8, "the audit entries")
    begun = [line["objects"] for line in written() if line["result"] == "begun"]
    assert begun == [["node/spare-1", "label/audited"]] * 3 + [["label/audited", "node/spare-2", "node/none"]]
    lines = [line for line in written() if line["result"] != "begun"]
    one, several = "/api/v1/nodes/{nodeName}/labels", "/api/v1/nodes/labels/batch"
    assert [(line["caller"], line["action"], line["result"]) for line in lines] == [
        ("admin", f"POST {one}", "200"),
        ("admin", f"POST {one}", "409 LabelConflict"),
        ("admin", f"DELETE {one}/{{key}}", "200"),
        ("admin", f"POST {several}", "200"),
    ]
    assert [line["objects"][-1] for line in lines[:2]] == ["label/audited"] * 2
    assert lines[3]["objects"] == ["label/audited", "node/spare-2", "node/none: NodeNotFound"]


KUBERNETES_KEYS = (
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "node-role.kubernetes.io/control-plane",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "feature.node.kubernetes.io/x",
    "k8s.io/x",
    "a.b.k8s.io/x",
    "kubernetes.io/gpu-type",
)


def test_kubernetes_labels_are_forbidden(served: Served, spares: None, remote: Remote) -> None:
    """Forbidden for all users: for one node, several, deletion, overwriting, in a dry run and from the command line."""
    for key, name in itertools.product(KUBERNETES_KEYS, ("admin", "paula")):
        said = put(served, "spare-1", key, "x", name, status=403, overwrite=True)
        assert "`kubernetes_labels`" in said["message"]
        batch = {"nodeNames": ["spare-1"], "key": key, "value": "x", "overwrite": True}
        served.call("POST", "/nodes/labels/batch", name, status=403, json=batch)
        served.call("POST", "/nodes/labels/batch", name, status=403, json=batch, params={"dryRun": "true"})
        served.call("DELETE", f"/nodes/spare-1/labels/{key}", name, status=403)
        for value in ("x", None):
            changes = {"nodeNames": ["spare-1"], "labels": {key: value}}
            served.call("POST", "/nodes/labels/changes", name, status=403, json=changes)
    remote.login("admin")
    for key in KUBERNETES_KEYS:
        for words in ((f"{key}=x", "--overwrite"), (f"{key}-",)):
            assert "belongs to Kubernetes" in remote.typed("label", "node", "spare-1", *words, code=3).err, key
        assert labels_of(remote.place, "spare-1").get(key) != "x"


def test_limited_token_sets_only_platform_keys(served: Served, spares: None) -> None:
    """Keys of the platform's domain and of GPU types; an unlimited admin sets other keys too."""
    for key in ("runwhere.ai/rack", KEY, MODEL):
        put(served, "spare-1", key, "x", "paula", overwrite=True)
        served.call("DELETE", f"/nodes/spare-1/labels/{key}", "paula")
    for key in ("disktype", "example.com/disk", "x-k8s.io/a", "other.runwhere.ai/x"):
        assert "`label_keys`" in put(served, "spare-1", key, "x", "paula", status=403)["message"]
        put(served, "spare-1", key, "")
        assert served.call("DELETE", f"/nodes/spare-1/labels/{key}", "paula", status=403)["error"] == "Forbidden"
        assert '(was "")' in served.call("DELETE", f"/nodes/spare-1/labels/{key}")["message"]

"""Creating, updating and deleting pools and quotas: by admins, through the plans of their documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.world import Api
from gpuctl.objects.api_resources import Key
from support.cluster_tools import Place, training
from support.documents_sent import YAML, sent
from support.served import Served

POOL_LABEL, TYPE_LABEL = "runwhere.ai/pool", "runwhere.ai/gpu-type"
NODES = ("node-4", "node-5", "node-6")
SEED = {
    "name": "experiment-pool",
    "description": "用于实验调参的资源池",
    "nodes": ["node-4", "node-5"],
    "gpuType": ["t4"],
    "quota": {"maxJobs": 50, "maxGpuPerJob": 2},
}


@pytest.fixture(autouse=True, scope="module")
def nodes(plane: ControlPlane) -> Iterator[None]:
    """The nodes of the seed document's example; the last one has no GPUs."""
    plane.add_nodes({name: {"gpus": 0 if name == "node-6" else 8} for name in NODES})
    yield
    plane.kubectl("delete", "node", *NODES)


@pytest.fixture(autouse=True)
def delete_pools(served: Served, api: Api) -> Iterator[None]:
    """Delete the pools of the tests afterwards."""
    yield
    for pool in ("experiment-pool", "other-pool"):
        served.client().delete(f"/pools/{pool}", params={"confirm": "true"})
    for name in NODES:
        patch = {"metadata": {"labels": {POOL_LABEL: None, TYPE_LABEL: None}}}
        api.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")


def labels(api: Api, name: str) -> dict[str, str]:
    """Return the labels of a node that gpuctl sets."""
    found = api.call("GET", f"/api/v1/nodes/{name}")["metadata"]["labels"]
    return {key: value for key, value in found.items() if key.startswith("runwhere.ai/")}


def definition(api: Api, pool: str) -> Any:
    """Return the stored definition of a pool; None if it does not exist."""
    status, obj = api.request("GET", Key("ConfigMap", "gpuctl-system", f"pool-{pool}").path)
    return yaml.safe_load(obj["data"]["pool.yaml"]) if status == 200 else None


def test_nodes_join_and_leave_a_pool(served: Served, api: Api) -> None:
    """The next answer and the pool's definition contain the change."""
    served.call("POST", "/pools", status=201, json={"name": "experiment-pool", "nodes": ["node-4"]})
    served.call("POST", "/pools", status=201, json={"name": "other-pool", "nodes": ["node-5"]})
    path, both = "/pools/experiment-pool/nodes", {"nodeNames": ["node-5", "node-6", "node-0"]}
    value = served.call("POST", f"{path}/add", json=both)
    assert value["nodes"] == [{"nodeName": "node-6", "message": "joined pool experiment-pool"}]
    assert [(item["nodeName"], item["error"]) for item in value["failed"]] == [
        ("node-5", "NodeInOtherPool"),
        ("node-0", "NodeNotFound"),
    ]
    assert value["message"] == "1 of 3 nodes added; see `failed`"
    served.call("POST", f"{path}/add", json={"nodeNames": ["node-5"], "overwrite": True})
    assert served.get("/pools/experiment-pool")["nodes"] == list(NODES)
    assert sorted(definition(api, "experiment-pool")["nodes"]) == list(NODES)
    assert served.get("/pools/other-pool")["nodes"] == []
    value = served.call("POST", f"{path}/remove", json={"nodeNames": ["node-4"]})
    assert (value["success"], value["message"]) == (["node-4"], "1 of 1 nodes removed")
    assert served.get("/pools/experiment-pool")["nodes"] == ["node-5", "node-6"]
    served.call("POST", "/pools/no-pool/nodes/add", status=404, json={"nodeNames": ["node-4"]})
    served.call("POST", f"{path}/add", status=400, json={"nodeNames": []})
    served.call("POST", f"{path}/remove", status=400, json={"nodeNames": ["node-4"], "overwrite": True})


def test_created_pool_is_answered_as_documented(served: Served, api: Api) -> None:
    made = served.call("POST", "/pools", status=201, json=SEED)
    assert made == {
        "name": "experiment-pool",
        "status": "created",
        "message": "pool/experiment-pool is created",
        "notes": [],
    }
    assert definition(api, "experiment-pool") == {
        "kind": "pool",
        "version": "v0.1",
        "pool": {"name": "experiment-pool", "description": SEED["description"]},
        "nodes": {"node-4": {"gpu-type": "t4"}, "node-5": {"gpu-type": "t4"}},
        "quota": {"maxJobs": 50, "maxGpuPerJob": 2},
    }
    for name in ("node-4", "node-5"):
        assert labels(api, name) == {POOL_LABEL: "experiment-pool", TYPE_LABEL: "t4"}
    again = served.call("POST", "/pools", status=409, json=SEED)
    assert again["error"] == "AlreadyExists"


def test_pool_is_written_as_a_document(served: Served, api: Api) -> None:
    document = {
        "kind": "pool",
        "version": "v0.1",
        "metadata": {"name": "experiment-pool"},
        "nodes": {"node-4": {"gpu-type": "A100-80G"}, "node-6": {}},
    }
    assert served.call("POST", "/pools", status=201, json=document)["status"] == "created"
    assert labels(api, "node-4") == {POOL_LABEL: "experiment-pool", TYPE_LABEL: "A100-80G"}
    text = yaml.safe_dump({**document, "nodes": {"node-5": {}}})
    changed = served.call("PUT", "/pools/experiment-pool", content=text, headers=YAML)
    assert (changed["status"], changed["plan"]["errors"]) == ("updated", [])
    assert labels(api, "node-4").get(POOL_LABEL) is None
    assert labels(api, "node-6") == {}
    assert labels(api, "node-5") == {POOL_LABEL: "experiment-pool"}
    fields = {"name": "other-pool", "nodes": ["node-4"]}
    refused = served.call("POST", "/pools", status=400, content=yaml.safe_dump(fields), headers=YAML)
    assert refused["error"] == "InvalidDocuments"
    assert "the document has no `kind`" in str(refused["details"])
    assert served.call("POST", "/pools", status=201, json=fields)["name"] == "other-pool"
    two = "---\n".join(yaml.safe_dump({"kind": "pool", "pool": {"name": name}}) for name in ("a", "b"))
    assert served.call("POST", "/pools", status=400, content=two, headers=YAML)["error"] == "WrongKind"


def test_update_changes_nodes_and_quota_of_a_pool(served: Served, api: Api) -> None:
    assert served.call("PUT", "/pools/experiment-pool", status=404, json=SEED)["error"] == "NotFound"
    served.call("POST", "/pools", status=201, json=SEED)
    same = served.call("PUT", "/pools/experiment-pool", json=SEED)
    assert same["status"] == "unchanged"
    fewer = {"nodes": ["node-4"], "gpuType": ["t4", "a10"], "quota": {"maxJobs": 7}}
    changed = served.call("PUT", "/pools/experiment-pool", json=fewer)
    assert changed["status"] == "updated"
    assert labels(api, "node-5").get(POOL_LABEL) is None
    assert definition(api, "experiment-pool")["quota"] == {"maxJobs": 7}
    wrong = served.call("PUT", "/pools/other-pool", status=400, json=SEED)
    assert wrong["error"] == "AnotherPool"


def test_gpu_types_of_nodes_are_not_guessed(served: Served, api: Api) -> None:
    """A node's GPU type comes from its label; without one, several possible types are an error. Nodes without GPUs get
    none.
    """
    unknown = served.call("POST", "/pools", status=400, json={**SEED, "gpuType": ["t4", "a10"]})
    assert unknown["error"] == "UnknownType"
    served.call("POST", "/pools", status=201, json={**SEED, "nodes": ["node-4", "node-6"]})
    assert labels(api, "node-6") == {POOL_LABEL: "experiment-pool"}
    other = served.call("PUT", "/pools/experiment-pool", status=409, json={**SEED, "gpuType": ["a10"]})
    assert other["message"] == "node node-4 has GPUs of type t4, which is not in gpuType"


def test_missing_nodes_are_reported_in_notes(served: Served) -> None:
    made = served.call("POST", "/pools", status=201, json={**SEED, "nodes": ["node-4", "node-77"]})
    assert [note for note in made["notes"] if "node-77" in note]


def test_pool_deletion_confirms_the_jobs_that_select_it(served: Served, api: Api, place: Place) -> None:
    """The confirmation lists the jobs that select the pool: their pods could not start again."""
    served.call("POST", "/pools", status=201, json=SEED)
    job = training("in-it", resources={"pool": "experiment-pool", "gpu": 1})
    served.call("POST", "/jobs", status=201, json=sent(job, namespace=place.namespace))
    refused = served.call("DELETE", "/pools/experiment-pool", status=409)
    assert refused["error"] == "NotConfirmed"
    assert f"training/in-it in {place.namespace}" in refused["details"][0]["message"]
    gone = served.call("DELETE", "/pools/experiment-pool", params={"confirm": "true"})
    assert gone["status"] == "deleted"
    assert gone["message"] == "pool/experiment-pool is deleted; 2 nodes left it"
    assert definition(api, "experiment-pool") is None
    assert labels(api, "node-4").get(POOL_LABEL) is None
    assert served.call("DELETE", "/pools/experiment-pool", status=404)["error"] == "NotFound"
    assert served.call("DELETE", "/pools/default", status=409)["error"] == "Refused"


def test_invalid_pool_fields_are_rejected(served: Served, api: Api) -> None:
    changes: list[dict[str, Any]] = [
        {"name": None},
        {"name": 1},
        {"name": ""},
        {"name": "Not Legal"},
        {"name": "../../etc"},
        {"name": "x" * 64},
        {"name": "default"},
        {"description": 5},
        {"description": ["a"]},
        {"nodes": "node-4"},
        {"nodes": [1]},
        {"nodes": [None]},
        {"nodes": {"node-4": {}}},
        {"nodes": ["node-4", "node-4"]},
        {"nodes": ["../node-4"]},
        {"nodes": [""]},
        {"gpuType": "t4"},
        {"gpuType": [4]},
        {"gpuType": ["not a label!"]},
        {"quota": 5},
        {"quota": {"maxJobs": 0}},
        {"quota": {"maxJobs": "50"}},
        {"quota": {"maxJobs": 1.5}},
        {"quota": {"maxJobs": True}},
        {"quota": {"most": 1}},
        {"more": 1},
        {"kind": "training"},
        {"kind": 1},
    ]
    for change in changes:
        value = {**SEED, **change}
        assert served.call("POST", "/pools", status=400, json=value)["error"], change
        assert served.call("POST", "/pools", status=400, content=yaml.safe_dump(value), headers=YAML)["error"], change
        assert labels(api, "node-4") == {}, change


QUOTA = {
    "kind": "quota",
    "version": "v0.1",
    "metadata": {"name": "team-resource-quota", "description": "团队资源配额配置"},
    "users": {
        "elon-musk": {"cpu": 10, "memory": "20Gi", "gpu": 4},
        "sam-altman": {"cpu": 10, "memory": "20Gi", "gpu": 4},
    },
}


@pytest.fixture
def delete_quotas(served: Served, api: Api) -> Iterator[None]:
    """Delete the quotas afterwards; their namespaces remain."""
    yield
    for name in QUOTA["users"]:  # type: ignore[attr-defined]
        served.client().delete(f"/quotas/{name}", params={"confirm": "true"})


@pytest.mark.usefixtures("delete_quotas")
@pytest.mark.parametrize("form", ["json", "yaml", "fields"])
def test_quotas_are_created_and_deleted(served: Served, api: Api, form: str) -> None:
    """Each user gets a namespace, which stays when the quota is deleted."""
    body: dict[str, Any] = {"json": QUOTA}
    if form == "yaml":
        body = {"content": yaml.safe_dump(QUOTA), "headers": YAML}
    if form == "fields":
        body = {"json": {**QUOTA["metadata"], "users": QUOTA["users"]}}  # type: ignore[dict-item]
    made = served.call("POST", "/quotas", status=201, **body)
    assert made == {
        "name": "team-resource-quota",
        "status": "created",
        "users": ["elon-musk", "sam-altman"],
        "message": "quota/team-resource-quota is created for elon-musk, sam-altman",
        "notes": [],
    }
    path = Key("ResourceQuota", "elon-musk", "team-resource-quota-elon-musk").path
    hard = api.call("GET", path)["spec"]["hard"]
    assert hard["requests.nvidia.com/gpu"] == "4"
    assert served.call("POST", "/quotas", status=409, **body)["error"] == "AlreadyExists"
    gone = served.call("DELETE", "/quotas/elon-musk")
    assert (gone["name"], gone["status"]) == ("elon-musk", "deleted")
    assert api.request("GET", path)[0] == 404
    assert api.request("GET", "/api/v1/namespaces/elon-musk")[0] == 200
    assert served.call("DELETE", "/quotas/elon-musk", status=404)["error"] == "NotFound"
    assert served.call("DELETE", "/quotas/sam-altman")["status"] == "deleted"


def test_invalid_quota_fields_are_rejected(served: Served, api: Api) -> None:
    changes: list[dict[str, Any]] = [
        {"name": None},
        {"name": 3},
        {"name": "No"},
        {"description": {}},
        {"users": None},
        {"users": {}},
        {"users": ["a"]},
        {"users": {"Not Legal": {"gpu": 1}}},
        {"users": {"a": 5}},
        {"users": {"a": {"gpu": -1}}},
        {"users": {"a": {"gpu": "many"}}},
        {"users": {"a": {"memory": "20 gigabytes"}}},
        {"users": {"a": {"disk": 1}}},
        {"namespace": {"a": {"gpu": 1}}},
        {"default": 5},
        {"kind": "pool"},
        {"more": 1},
    ]
    for change in changes:
        value = {"name": "q", "users": {"a": {"gpu": 1}}, **change}
        assert served.call("POST", "/quotas", status=400, json=value)["error"], change
    assert api.request("GET", "/api/v1/namespaces/a")[0] == 404

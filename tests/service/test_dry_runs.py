"""`dryRun` of every write: all checks run, the answer says what would be done, and the cluster does not change."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from control_plane import ControlPlane
from gpuctl.objects.api_resources import RESOURCES
from support.cluster_tools import POOL, Place, image, inference, outcome, training
from support.documents_sent import YAML, sent, text_of
from support.served import Served

LABEL = "runwhere.ai/dry"
NODE, PROJECT = "dry-0", "dry-pool"
NO_WRITES = {"planDocuments", "fitDocuments", "waitJob", "waitJobs", "checkRight"}
"""POST operations that write nothing."""


class Write(NamedTuple):
    """A write: method, path, body (None if it takes none), and a text that the dry run's answer contains."""

    method: str
    path: str
    body: dict[str, Any] | None
    said: str
    query: Mapping[str, str] = MappingProxyType({})


def writes(place: Place) -> dict[str, Write]:
    """Return each write of the OpenAPI document by its operationId."""
    here = {"namespace": place.namespace}
    new = sent(training("new"), namespace=place.namespace)
    changed = sent(training("busy", environment=image("v2")), namespace=place.namespace)
    pool = {"name": "dry-new", "nodes": [NODE]}
    quota = {"name": "dry-quotas", "users": {"dry-new-user": {"gpu": 1}}}
    label = {"key": LABEL, "value": "new", "overwrite": True}
    return {
        "createJobs": Write("POST", "/jobs", new, "is valid; it would be submitted"),
        "createJobBatch": Write(
            "POST", "/jobs/batch", {"yamlContents": [new["yamlContent"]]}, "is valid; it would be submitted"
        ),
        "applyDocuments": Write("POST", "/apply", new, '"carriedOut": false'),
        "deleteDocuments": Write("POST", "/delete", changed, '"result": "planned"'),
        "deleteJobs": Write("POST", "/jobs/delete", {"names": ["busy"]}, '"result": "planned"', here),
        "deletePools": Write("POST", "/pools/delete", {"names": [PROJECT]}, '"result": "planned"'),
        "deleteQuotas": Write("POST", "/quotas/delete", {"names": [place.namespace]}, '"result": "planned"'),
        "pauseJobs": Write("POST", "/jobs/pause", {"names": ["busy"]}, "would be paused; its pod ends", here),
        "resumeJobs": Write("POST", "/jobs/resume", {"names": ["still"]}, "would be resumed", here),
        "rerunJobs": Write("POST", "/jobs/rerun", {"names": ["over"]}, '"result": "planned"', here),
        "runJobs": Write("POST", "/jobs/run", {"names": ["nightly"]}, '"result": "planned"', here),
        "scaleJobs": Write(
            "POST", "/jobs/scale", {"names": ["elastic"]}, '"result": "planned"', {**here, "nodes": "1"}
        ),
        "scaleJob": Write("POST", "/jobs/elastic/scale", None, '"result": "planned"', {**here, "nodes": "1"}),
        "runJob": Write("POST", "/jobs/nightly/run", None, '"result": "planned"', here),
        "updateJob": Write("PUT", "/jobs/busy", changed, "would be replaced", {**here, "confirm": "true"}),
        "deleteJob": Write("DELETE", "/jobs/busy", None, "would be deleted", {**here, "force": "true"}),
        "pauseJob": Write("POST", "/jobs/busy/pause", None, "would be paused; its pod ends", here),
        "resumeJob": Write("POST", "/jobs/still/resume", None, "would be resumed", here),
        "rerunJob": Write("POST", "/jobs/over/rerun", None, "would run again", {**here, "confirm": "true"}),
        "rollbackJob": Write("POST", "/jobs/chat/rollback", None, "would be replaced", {**here, "confirm": "true"}),
        "recover": Write("POST", "/recoveries", None, '"recovered": []', here),
        "createPool": Write("POST", "/pools", pool, "would be created", {"confirm": "true"}),
        "updatePool": Write("PUT", f"/pools/{PROJECT}", {"nodes": []}, "would be updated", {"confirm": "true"}),
        "deletePool": Write("DELETE", f"/pools/{PROJECT}", None, "1 node would leave it", {"confirm": "true"}),
        "createQuota": Write("POST", "/quotas", quota, "would be created for dry-new-user"),
        "deleteQuota": Write("DELETE", f"/quotas/{place.namespace}", None, "would be deleted", {"confirm": "true"}),
        "setNodeLabel": Write("POST", f"/nodes/{NODE}/labels", label, "nothing is changed"),
        "setLabelOfNodes": Write("POST", "/nodes/labels/batch", {**label, "nodeNames": [NODE]}, "would be labelled"),
        "changeLabelsOfNodes": Write(
            "POST", "/nodes/labels/changes", {"nodeNames": [NODE], "labels": {LABEL: None}}, "would be labelled"
        ),
        "addNodes": Write(
            "POST",
            f"/pools/{PROJECT}/nodes/add",
            {"nodeNames": [f"{POOL}-0"], "overwrite": True},
            "1 of 1 nodes would be added",
        ),
        "removeNodes": Write(
            "POST", f"/pools/{PROJECT}/nodes/remove", {"nodeNames": [NODE]}, "1 of 1 nodes would be removed"
        ),
        "deleteNodeLabel": Write("DELETE", f"/nodes/{NODE}/labels/{LABEL}", None, "nothing is changed"),
    }


@pytest.fixture
def world(served: Served, plane: ControlPlane, place: Place) -> Iterator[Place]:
    """A running, a paused and a finished training, a service with a history, a pool and a quota."""
    plane.add_node(NODE, gpus=8, labels={LABEL: "old"})
    served.call("POST", "/pools", status=201, json={"name": PROJECT, "nodes": [NODE]})
    quota = {"name": "dry", "users": {place.namespace: {"cpu": 900, "memory": "900Gi"}}}
    served.call("POST", "/quotas", status=201, json=quota)
    over = training("over", job=outcome("complete"))
    nightly = training("nightly", schedule="0 2 29 2 *")
    elastic = training("elastic", job={"retries": 1}, resources={"nodes": {"min": 1, "max": 2}})
    jobs = (training("busy"), training("still"), over, nightly, elastic, inference("chat"))
    first = text_of(*jobs, namespace=place.namespace)
    served.call("POST", "/jobs", status=201, content=first, headers=YAML)
    second = sent(inference("chat", environment=image("v2")), namespace=place.namespace)
    query = {"namespace": place.namespace, "confirm": "true"}
    served.call("PUT", "/jobs/chat", json=second, params=query)
    served.until_running("busy", place.namespace)
    served.until_running("chat", place.namespace)
    served.call("POST", "/jobs/still/pause", params={"namespace": place.namespace})
    served.until("/jobs/over", lambda value: value["status"] == "succeeded", namespace=place.namespace)
    place.until(lambda: not place.pods("still"), "the paused pods to be deleted")
    yield place
    served.call("DELETE", f"/pools/{PROJECT}", params={"confirm": "true"})
    served.call("DELETE", f"/quotas/{place.namespace}", params={"confirm": "true"})
    plane.kubectl("delete", "node", NODE, "--wait=false")


KINDS = (
    *("Job", "CronJob", "Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "ResourceQuota"),
    *("Namespace", "PriorityClass", "Node", "Lease", "Pod"),
)


def cluster_state(plane: ControlPlane) -> dict[str, str]:
    """Return everything that a write of gpuctl could change and no controller changes, by kind, namespace and name."""
    found = {}
    namespaces = plane.requests.call("GET", RESOURCES["Namespace"].path())["items"]
    # Those of earlier tests are still being deleted.
    leaving = {obj["metadata"]["name"] for obj in namespaces if obj["metadata"].get("deletionTimestamp")}
    for kind in KINDS:
        for obj in plane.requests.call("GET", RESOURCES[kind].path())["items"]:
            metadata = obj["metadata"]
            if metadata.get("namespace") in leaving or (kind == "Namespace" and metadata["name"] in leaving):
                continue
            if kind == "Lease" and metadata.get("namespace") in ("kube-system", "kube-node-lease"):
                continue
            told = {key: metadata.get(key) for key in ("uid", "labels", "annotations", "deletionTimestamp")}
            if kind in ("ConfigMap", "Secret", "Service", "Lease"):
                told["resourceVersion"] = metadata["resourceVersion"]
            name = "/".join((kind, metadata.get("namespace") or "", metadata["name"]))
            found[name] = json.dumps({**told, "spec": obj.get("spec")}, sort_keys=True)
    return found


def test_dry_run_of_every_write_changes_nothing(served: Served, plane: ControlPlane, world: Place) -> None:
    """For every write of the OpenAPI document; `dryRun` in the query or in the body, even if the operation takes no
    body.
    """
    paths = served.get("/openapi.json")["paths"]
    operations = {
        operation["operationId"]: operation
        for item in paths.values()
        for method, operation in item.items()
        if method != "get"
    }
    asked = writes(world)
    assert set(asked) == set(operations) - NO_WRITES
    before = cluster_state(plane)
    for name, write in asked.items():
        assert "dryRun" in [item["name"] for item in operations[name]["parameters"]], name
        by_query = {"params": {**write.query, "dryRun": "true"}, **({} if write.body is None else {"json": write.body})}
        by_body = {"params": write.query, "json": {**(write.body or {}), "dryRun": True}}
        for request in (by_query, by_body):
            answer = served.call(write.method, write.path, **request)
            assert write.said in json.dumps(answer), (name, answer)
        assert cluster_state(plane) == before, name
    pause = asked["pauseJob"]
    answer = served.call(
        pause.method, pause.path, params={**pause.query, "dryRun": "true"}, headers={"Accept-Language": "zh"}
    )
    assert answer["message"].startswith("试运行：")
    assert "它的 Pod 会结束" in answer["message"]
    lines = served.get("/audit", pageSize=1000, namespace=world.namespace)["items"]
    audited = [line["action"] for line in lines if "busy" in json.dumps(line["objects"])]
    assert audited == ["POST /api/v1/jobs"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(
            ("POST", path)
            for path in (
                "/jobs",
                "/jobs/batch",
                "/jobs/x/pause",
                "/jobs/x/resume",
                "/jobs/x/rerun",
                "/jobs/x/run",
                "/jobs/x/scale",
            )
        ),
        *(("POST", path) for path in ("/apply", "/delete", "/jobs/delete", "/jobs/rerun", "/jobs/run", "/jobs/pause")),
        *(("POST", path) for path in ("/jobs/resume", "/pools/delete", "/quotas/delete")),
        *(("POST", path) for path in ("/jobs/x/rollback", "/jobs/x/wait", "/plan", "/fit", "/recoveries", "/pools")),
        *(
            ("POST", path)
            for path in ("/quotas", "/nodes/x/labels", "/nodes/labels/batch", "/nodes/labels/changes", "/auth/check")
        ),
        *(("PUT", path) for path in ("/jobs/x", "/pools/x")),
        *(("DELETE", path) for path in ("/jobs/x", "/pools/x", "/quotas/x", "/nodes/x/labels/a/b")),
        *(("GET", path) for path in ("/jobs", "/jobs/x", "/jobs/x/logs", "/pools", "/nodes", "/audit")),
    ],
)
def test_unknown_and_repeated_parameters_are_rejected(served: Served, method: str, path: str) -> None:
    """For every method; a repeated parameter is rejected too."""
    for query in ("dryrun=true", "dry_run=true"):
        answer = served.call(method, f"{path}?{query}", status=400)
        assert answer["message"] == f"the query parameter {query.partition('=')[0]} is unknown"
    assert served.call(method, f"{path}?accept=a&accept=b", status=400)["message"].endswith("is given twice")


def test_misspelled_dry_run_gets_a_suggestion(served: Served) -> None:
    assert served.call("DELETE", "/jobs/x?dryrun=true", status=400)["hint"] == "did you mean `dryRun`?"
    assert served.call("POST", "/jobs?dry_run=true", status=400)["hint"] == "did you mean `dryRun`?"


def test_unexpected_body_is_rejected(served: Served) -> None:
    """A client that sends a body to an operation without one expects it to have an effect."""
    for method, path in (("POST", "/jobs/x/pause"), ("DELETE", "/jobs/x"), ("POST", "/jobs/x/rerun")):
        answer = served.call(method, path, status=400, json={"dryrun": True})
        assert answer["details"] == [{"field": "dryrun", "message": "is unknown"}]


def test_answers_contain_the_notes_of_the_plan(served: Served, place: Place) -> None:
    """A job names a pool that does not exist: the note is in the dry run, in the batch and in the creation."""
    job = training("typo", resources={"pool": "dril"})
    body = sent(job, namespace=place.namespace)
    meant = f"(did you mean runwhere.ai/pool={POOL}?), which training/typo will wait for"
    for request in ({**body, "dryRun": True}, body):
        answer = served.client().post("/jobs", json=request).json()
        assert [note for note in answer["notes"] if meant in note], answer
    served.call("DELETE", "/jobs/typo", params={"namespace": place.namespace})
    place.until(lambda: not place.exists("Job", "typo"), "the job to be deleted")
    batch = {"yamlContents": [text_of(job, namespace=place.namespace)]}
    for status, request in ((200, {**batch, "dryRun": True}), (201, batch)):
        (item,) = served.call("POST", "/jobs/batch", status=status, json=request)["success"]
        assert [note for note in item["notes"] if meant in note], item


def test_refusal_of_a_dry_run_or_read_is_an_answer_for_clients_that_prefer_it(served: Served, place: Place) -> None:
    """Its fields are those of the error. A write, and a failure, keep their status."""
    prefer = {"Prefer": "respond-async, Refusal=answer; x=1"}
    stream = {"Accept": "text/event-stream"}
    here = {"namespace": place.namespace}
    made = sent(training("a"), namespace=place.namespace)
    served.call("POST", "/jobs", status=201, json=made)
    again = {**made, "dryRun": True}
    invalid = sent({**training("b"), "colour": "red"}, namespace=place.namespace)
    for status, method, path, request in (
        (409, "POST", "/jobs", {"json": again}),
        (409, "POST", "/jobs/a/rerun", {"params": {**here, "dryRun": "true"}}),
        (404, "POST", "/jobs/delete", {"json": {"names": ["gone"], "dryRun": True}, "params": here}),
        (400, "POST", "/plan", {"json": invalid}),
        (400, "GET", "/jobs", {"params": {"page": 0}}),
        (404, "GET", "/nodes/gone", {}),
        (404, "GET", "/jobs/gone/logs", {"params": {**here, "follow": "true"}, "headers": stream}),
        (400, "GET", "/gpu-aggregation/ledger", {"params": {"format": "pdf"}}),
    ):
        headers = request.pop("headers", {})
        error = served.client().request(method, path, headers=headers, **request)
        answer = served.client().request(method, path, headers={**headers, **prefer}, **request)
        assert (error.status_code, answer.status_code) == (status, 200), (path, error.text, answer.text)
        assert answer.json() == {"refusal": {"status": status, **error.json()}}
        assert answer.headers["preference-applied"] == "refusal=answer"
    assert "preference-applied" not in served.client().get("/jobs", headers=prefer).headers
    for name, status, request in (
        ("admin", 409, {"method": "POST", "url": "/jobs", "json": made}),
        ("admin", 404, {"method": "DELETE", "url": "/jobs/gone", "params": here}),
        ("admin", 400, {"method": "DELETE", "url": "/jobs/a", "params": {**here, "dryrun": "true"}}),
        ("vera", 403, {"method": "DELETE", "url": "/jobs/a", "params": {**here, "dryRun": "true"}}),
        ("", 401, {"method": "GET", "url": "/jobs"}),
    ):
        assert served.client(name).request(headers=prefer, **request).status_code == status, request
    audited = served.get("/audit", namespace=place.namespace, action="POST /jobs/{jobId}/rerun")["items"]
    assert [line["result"] for line in audited] == ["409 NotRerunnable"] * 2


def test_dry_run_of_resume_has_one_plan_for_all_jobs(served: Served, place: Place) -> None:
    here, names = {"namespace": place.namespace}, ["first", "second"]
    jobs = text_of(*(training(name) for name in names), namespace=place.namespace)
    served.call("POST", "/jobs", status=201, content=jobs, headers=YAML)
    paused = served.call("POST", "/jobs/pause", json={"names": names}, params=here)
    assert "plan" not in paused
    for path, body, expected in (
        ("/jobs/resume", {"names": names}, names),
        ("/jobs/resume", {"names": [*names, "training/first"]}, names),
        ("/jobs/second/resume", {}, ["second"]),
    ):
        answer = served.call("POST", path, json={**body, "dryRun": True}, params=here)
        assert [(step["action"], step["name"]) for step in answer["plan"]["steps"]] == [
            ("update", name) for name in expected
        ]
    resumed = served.call("POST", "/jobs/resume", json={"names": names}, params=here)
    assert [item["status"] for item in resumed["items"]] == ["resumed", "resumed"]
    assert "plan" not in resumed

"""Creating, updating, deleting, pausing and rerunning jobs by REST.

The answers are those of the product's document; the effects are those of the command line.
"""

from __future__ import annotations

import json
import threading
from typing import Any
from uuid import uuid4

import pytest

from fault_tools.world import Api
from support.cluster_tools import POOL, Place, compute, image, inference, outcome, training
from support.documents_sent import YAML, sent, text_of
from support.served import Served

SEED = """\
kind: training
version: v0.1
job:
  name: qwen2-7b-sft
  namespace: {namespace}
  priority: "high"
  description: "llama3推理任务"
environment:
  image: registry.example.com/llama-factory-deepspeed:v0.8.0
  command: ["llama-factory-cli", "train", "--stage", "sft"]
  env:
    - name: NVIDIA_FLASH_ATTENTION
      value: "1"
resources:
  pool: drill
  gpu: 4
  cpu: 32
  memory: 128Gi
storage:
  workdirs:
    - path: /output/qwen2-sft
"""


def test_created_job_is_answered_as_documented(served: Served, place: Place) -> None:
    """The list contains the returned id, and `gpuctl apply` of the same document finds nothing to change."""
    text = SEED.format(namespace=place.namespace)
    made = served.call("POST", "/jobs", status=201, json={"yamlContent": text, "dryRun": False})
    live = place.get("Job", "qwen2-7b-sft")
    assert made == {
        "jobId": made["jobId"],
        "name": "qwen2-7b-sft",
        "namespace": place.namespace,
        "kind": "training",
        "pool": POOL,
        "status": "pending",
        "createdAt": live["metadata"]["creationTimestamp"],
        "message": f"training/qwen2-7b-sft is submitted to the pool {POOL}",
        "warnings": made["warnings"],
        "notes": [],
        "questions": [],
    }
    assert [item["code"] for item in made["warnings"]] == ["GPU505"]
    served.until(
        "/jobs", lambda value: [item["jobId"] for item in value["items"]] == [made["jobId"]], namespace=place.namespace
    )
    (place.directory / "seed.yaml").write_text(text)
    assert set(place.anywhere("apply", "-f", str(place.directory / "seed.yaml"), "-o", "json").actions.values()) == {
        "unchanged"
    }


def test_yaml_body_creates_all_its_documents(served: Served, place: Place) -> None:
    """Several documents are created together; the first job's fields are those of an answer about one job."""
    text = text_of(training("a"), inference("b"), namespace=place.namespace)
    made = served.call("POST", "/jobs", status=201, content=text, headers=YAML)
    assert made["name"] == "a"
    assert [(job["name"], job["kind"]) for job in made["jobs"]] == [("a", "training"), ("b", "inference")]
    assert made["jobs"][0]["jobId"] == made["jobId"]
    assert {"Job/a", "Deployment/b", "Service/svc-b"} <= place.names()
    ids = {job["jobId"] for job in made["jobs"]}
    served.until("/jobs", lambda value: {item["jobId"] for item in value["items"]} == ids, namespace=place.namespace)


def test_creating_an_existing_job_is_a_conflict(served: Served, place: Place) -> None:
    served.call("POST", "/jobs", status=201, json=sent(inference("a"), namespace=place.namespace))
    before = place.records()
    other = sent(inference("a", environment=image("v2")), training("b"), namespace=place.namespace)
    refused = served.call("POST", "/jobs", status=409, json=other)
    assert refused["error"] == "AlreadyExists"
    assert {"kind": "Deployment", "namespace": place.namespace, "name": "a"} in refused["details"]
    assert place.records() == before


def test_refusal_by_the_api_server_is_a_conflict(served: Served, place: Place) -> None:
    """A quota without room, checked by the API server, with and without `dryRun`."""
    place.create(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "small"},
            "spec": {"hard": {"requests.nvidia.com/gpu": "1"}},
        }
    )
    place.until(lambda: place.get("ResourceQuota", "small").get("status", {}).get("hard"), "the quota to be in effect")
    for given in ({}, {"dryRun": True}):
        body = sent(training("a", resources={"gpu": 2}), namespace=place.namespace, **given)
        refused = served.call("POST", "/jobs", status=409, json=body)
        assert refused["error"] == "Refused"
        assert "small" in refused["message"]
        assert refused["details"] == [{"message": refused["message"]}]
    assert place.names() == {"ResourceQuota/small"}


@pytest.mark.slow
def test_queue_parameter_creates_jobs_over_a_full_quota(served: Served, place: Place) -> None:
    place.limit(gpu="2")
    place.apply(training("first", resources={"gpu": 2}))
    place.running("first")
    text = text_of(training("second"), namespace=place.namespace)
    refused = served.call("POST", "/jobs", status=409, json={"yamlContent": text})
    assert "`queue=true` creates it anyway" in json.dumps(refused)
    assert served.call("POST", "/plan", json={"yamlContent": text})["canQueue"] is True
    said = f"will wait: quota few in {place.namespace}: asks 1 nvidia.com/gpu, 0 free; held by training/first (2)"
    plan = served.call("POST", "/plan?queue=true", status=200, json={"yamlContent": text})
    (wait,) = [item for step in plan["steps"] for item in step["waits"]]
    assert (wait["cause"], f"will wait: {wait['message']}") == ("quota", said)
    made = served.call("POST", "/jobs?queue=true", status=201, json={"yamlContent": text})
    assert made["message"] == f"training/second is submitted to the pool {POOL}; it {said}"
    changed = text_of(training("second", environment=image("v2")), namespace=place.namespace)
    done = served.call("PUT", f"/jobs/{made['jobId']}?queue=true", status=200, json={"yamlContent": changed})
    assert done["status"] == "replaced"
    several = [text_of(training(name), namespace=place.namespace) for name in ("third", "fourth")]
    batch = served.call("POST", "/jobs/batch?queue=true", status=201, json={"yamlContents": several})
    assert [item["name"] for item in batch["success"]] == ["third", "fourth"]


def test_document_errors_have_line_column_and_path(served: Served) -> None:
    refused = served.call("POST", "/jobs", status=400, json={"yamlContent": "kind: training\njob: {name: A}\n"})
    assert refused["error"] == "InvalidDocuments"
    errors = {item["code"]: item for item in refused["details"] if item["severity"] == "error"}
    assert errors.keys() == {"GPU201", "GPU207"}
    assert (errors["GPU207"]["line"], errors["GPU207"]["column"], errors["GPU207"]["path"]) == (2, 13, "job.name")


@pytest.mark.parametrize(
    "body",
    [
        b'{"yamlContent": null}',
        b'{"yamlContent": 1}',
        b'{"yamlContent": ["kind: training"]}',
        b'{"yamlContent": ""}',
        b'{"yamlContent": "a: [", "dryRun": false}',
        b'{"yamlContent": "kind: training", "dryRun": "yes"}',
        b'{"yamlContent": "kind: training", "dryRun": null}',
        b'{"yamlContent": "kind: training", "more": 1}',
        b'{"yamlContent": "a\\u0000b"}',
        b'{"yamlContent": "- - - -"}',
        b'{"yamlContent": "kind: platform\\nversion: v0.1\\n"}',
        b'{"yamlContent": "kind: platform\\nversion: v0.1\\nlabels: {domain: evil.example}\\n"}',
        b'{"yamlContent": "apiVersion: v1\\nkind: Pod\\n"}',
        b'{"yamlContent": "a: &a [*a]"}',
        b'{"yamlContent": "x: &a [1,1]\\ny: &b [*a,*a]\\nz: &c [*b,*b]\\nkind: training"}',
        b'{"yamlContent": "' + b"---\\n" * 2000 + b'"}',
        b'{"yamlContent": "' + b"[" * 20000 + b'"}',
    ],
)
def test_invalid_bodies_are_rejected(served: Served, body: bytes) -> None:
    """Every path that takes documents answers an invalid JSON or YAML body with 400."""
    headers = {"Content-Type": "application/json"}
    for method, path in (("POST", "/jobs"), ("POST", "/plan"), ("POST", "/jobs/batch")):
        assert served.call(method, path, status=400, content=body, headers=headers)["error"]
    for path in ("/jobs", "/plan"):
        assert served.call("POST", path, status=400, content=body, headers=YAML)["error"]


def test_foreign_namespaces_and_pools_are_forbidden(served: Served, place: Place) -> None:
    """Foreign namespaces and pools are forbidden whether they exist or not; kinds for admins are forbidden too."""
    for name, document in (
        ("anna", training("a", job={"namespace": place.namespace})),
        ("anna", training("a", job={"namespace": "kube-system"})),
        ("anna", training("a", job={"namespace": "no-such-place"})),
        ("otto", training("a", job={"namespace": "team-b"}, resources={"pool": "others"})),
        ("otto", training("a", job={"namespace": "team-b"}, resources={"pool": None})),
        ("anna", {"kind": "pool", "version": "v0.1", "pool": {"name": "drill"}, "nodes": {"drill-0": {}}}),
        ("anna", {"kind": "quota", "version": "v0.1", "quota": {"name": "q"}, "users": {"team-a": {"gpu": 999}}}),
    ):
        for path, given in (("/jobs", {}), ("/jobs", {"dryRun": True}), ("/plan", {})):
            refused = served.call("POST", path, name, status=403, json=sent(document, **given))
            assert refused["error"] == "Forbidden", refused
    both = sent(training("a"), training("b", job={"namespace": place.namespace}))
    assert served.call("POST", "/jobs", "anna", status=403, json=both)["error"] == "Forbidden"
    assert place.names() == set()


def test_default_namespace_is_that_of_the_user(served: Served) -> None:
    # If the test is repeated, the job of the first run still exists.
    made = served.call("POST", "/jobs", "anna", status=201, json=sent(training(f"at-home-{uuid4().hex[:8]}")))
    assert made["namespace"] == "team-a"
    served.until(f"/jobs/{made['jobId']}", lambda value: True, "anna")
    assert served.call("DELETE", f"/jobs/{made['jobId']}", "otto", status=404)["error"] == "NotFound"
    assert served.call("DELETE", f"/jobs/{made['jobId']}", "anna")["status"] == "terminating"


def test_job_creation_does_not_create_a_missing_namespace(served: Served, api: Api) -> None:
    """The namespace of nora does not exist; a document creates it neither by naming it nor by default."""
    for document in (training("a", job={"namespace": "not-there"}), training("a")):
        refused = served.call("POST", "/jobs", "nora", status=403, json=sent(document))
        assert refused["message"].startswith(
            "the namespace not-there does not exist, and nora may not create namespaces"
        )
    assert api.request("GET", "/api/v1/namespaces/not-there")[0] == 404


def test_batch_entries_succeed_or_fail_independently(served: Served, place: Place) -> None:
    place.apply(training("there"))
    texts = [
        text_of(training("task1"), namespace=place.namespace),
        "kind: training\njob: {name: task2}\n",
        text_of(training("there"), namespace=place.namespace),
        text_of(training("task3"), compute("task4"), namespace=place.namespace),
        text_of(training("task1"), namespace=place.namespace),
    ]
    done = served.call("POST", "/jobs/batch", status=201, json={"yamlContents": texts})
    assert [item["name"] for item in done["success"]] == ["task1", "task3", "task4"]
    assert [(item["index"], item["name"], item["error"]) for item in done["failed"]] == [
        (1, None, "InvalidDocuments"),
        (2, "there", "AlreadyExists"),
        (4, "task1", "AlreadyExists"),
    ]
    ids = {item["jobId"] for item in done["success"]}
    served.until("/jobs", lambda value: ids < {item["jobId"] for item in value["items"]}, namespace=place.namespace)
    some = served.call("POST", "/jobs/batch", "anna", status=201, json={"yamlContents": texts[:1]})
    assert (some["success"], some["failed"][0]["error"]) == ([], "Forbidden")
    for texts in ([], ["a"] * 101, "kind: training", [1], None):
        assert served.call("POST", "/jobs/batch", status=400, json={"yamlContents": texts})["error"] == "InvalidRequest"


def test_idempotency_key_returns_the_created_jobs(served: Served, place: Place) -> None:
    body, key = sent(inference("a"), training("b"), namespace=place.namespace), {"Idempotency-Key": "once-1"}
    made = served.call("POST", "/jobs", status=201, json=body, headers=key)
    before = place.records()
    assert served.call("POST", "/jobs", status=201, json=body, headers=key) == made
    assert place.records() == before
    # Without the key, with another key, of another user, or with other documents it is a different request.
    assert served.call("POST", "/jobs", status=409, json=body)["error"] == "AlreadyExists"
    other = {"Idempotency-Key": "once-2"}
    assert served.call("POST", "/jobs", status=409, json=body, headers=other)["error"] == "AlreadyExists"
    for document in (training("b", environment=image("v2")), training("c")):
        refused = served.call("POST", "/jobs", status=409, json=sent(document, namespace=place.namespace), headers=key)
        assert refused["error"] == "IdempotencyKeyReused"
    # An update in place keeps the job, by REST and by the command line.
    served.call("PUT", f"/jobs/{made['jobId']}", json=sent(inference("a", job={"description": "new"})))
    place.apply(inference("a", job={"description": "newer"}), training("b"))
    assert served.call("POST", "/jobs", status=201, json=body, headers=key) == made
    # A deleted job is created again, and an existing one stays.
    served.call("DELETE", f"/jobs/{made['jobs'][1]['jobId']}")
    place.until(lambda: not place.exists("Job", "b"), "the job to be deleted")
    again = served.call("POST", "/jobs", status=201, json=body, headers=key)
    assert again["jobId"] == made["jobId"]
    assert again["jobs"][1]["jobId"] != made["jobs"][1]["jobId"]
    for wrong in ("", "x" * 201):
        assert served.call("POST", "/jobs", status=400, json=body, headers={"Idempotency-Key": wrong})["error"]


@pytest.mark.slow
def test_leftover_service_is_taken_over_by_the_next_creation(served: Served, place: Place) -> None:
    """No path of the API can delete a Service without its job: the next creation takes it over."""
    body = sent(inference("a"), namespace=place.namespace)
    served.call("POST", "/jobs", status=201, json=body)
    uid = place.uid("Service", "svc-a")
    place.kubectl("delete", "deployment", "a")
    served.until("/jobs", lambda value: value["total"] == 0, namespace=place.namespace)
    served.call("POST", "/jobs", status=201, json=body)
    assert place.uid("Service", "svc-a") == uid
    assert served.call("POST", "/jobs", status=409, json=body)["error"] == "AlreadyExists"


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "together"])
def test_concurrent_creations_of_one_job_succeed_once(served: Served, place: Place, key: str | None) -> None:
    """Also if both send the same document. With one idempotency key they count as one request sent twice."""
    answers: list[tuple[int, Any]] = []
    body = sent(training("same"), namespace=place.namespace)
    start = threading.Barrier(4)

    def create() -> None:
        client = served.own_client()
        start.wait()
        response = client.post("/jobs", json=body, headers={"Idempotency-Key": key} if key else {})
        answers.append((response.status_code, response.json()))

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    created = [value for status, value in answers if status == 201]
    if key:
        assert len(created) == 4
        assert len({value["jobId"] for value in created}) == 1
    else:
        assert sorted(status for status, _ in answers) == [201, 409, 409, 409], answers
        assert {value["error"] for status, value in answers if status == 409} == {"AlreadyExists"}


def test_update_replaces_a_running_job_after_confirmation(served: Served, place: Place) -> None:
    """Replacing a running job needs confirmation; the new job has a new id."""
    made = served.call("POST", "/jobs", status=201, json=sent(training("a"), namespace=place.namespace))
    place.running("a")
    path, uid = f"/jobs/{made['jobId']}", place.uid("Job", "a")
    same = served.call("PUT", path, json=sent(training("a")))
    assert (same["jobId"], same["status"]) == (made["jobId"], "unchanged")
    changed = sent(training("a", environment=image("v2")))
    refused = served.call("PUT", path, status=409, json=changed)
    assert refused["error"] == "NotConfirmed"
    assert [item["message"][:20] for item in refused["details"]] == ["replaces training/a "]
    assert "confirm=true" in refused["hint"]
    assert place.uid("Job", "a") == uid
    done = served.call("PUT", path, json=changed, params={"confirm": "true"})
    assert (done["status"], done["plan"]["summary"]["replace"]) == ("replaced", 1)
    assert place.uid("Job", "a") != uid
    assert done["jobId"] != made["jobId"]
    # The old id belonged to the deleted job; the new id and the name belong to the new job.
    assert served.call("PUT", path, status=404, json=changed)["error"] == "NotFound"
    assert served.call("PUT", f"/jobs/{done['jobId']}", json=changed)["status"] == "unchanged"
    query = {"namespace": place.namespace}
    assert served.call("PUT", "/jobs/a", json=changed, params=query)["jobId"] == done["jobId"]
    for other in (training("b"), compute("a"), training("a", job={"namespace": "default"})):
        refused = served.call("PUT", "/jobs/a", status=400, json=sent(other), params=query)
        assert refused["error"] == "AnotherJob", other
    two = sent(training("a"), training("b"))
    assert served.call("PUT", "/jobs/a", status=400, json=two, params=query)["error"] == "AnotherJob"
    assert place.names() == {"Job/a"}


def test_deleted_job_and_its_objects_disappear(served: Served, place: Place) -> None:
    made = served.call("POST", "/jobs", status=201, json=sent(inference("a"), namespace=place.namespace))
    place.running("a")
    gone = served.call("DELETE", f"/jobs/{made['jobId']}")
    assert gone == {
        "jobId": made["jobId"],
        "status": "terminating",
        "message": f"inference/a in {place.namespace} is being deleted; its pods end within their grace period",
        "notes": None,
    }
    place.until(lambda: not place.names(), "all objects of the job to be deleted")
    served.until("/jobs", lambda value: value["total"] == 0, namespace=place.namespace)
    assert served.call("DELETE", f"/jobs/{made['jobId']}", status=404)["error"] == "NotFound"


def test_deletion_names_the_claims_that_stay_and_the_jobs_that_wait(served: Served, place: Place) -> None:
    """The archive of the job's code is deleted with it."""
    (place.directory / "src").mkdir()
    (place.directory / "src" / "train.py").write_text("print(1)")
    claim = {"claim": "lab", "create": {"size": "10Gi", "class": "by-hand"}}
    first = training("first", code={"local": "./src"}, storage={"workdirs": [{"path": "/data", "pvc": claim}]})
    place.apply(first, training("second", job={"after": ["first"]}))
    assert any("-code-" in name for name in place.names())
    # The service may see the pods before the job.
    served.until("/jobs/first/details", lambda value: value["uid"] is not None, namespace=place.namespace)
    gone = served.call("DELETE", "/jobs/first", params={"namespace": place.namespace})
    claim_stays, waits = gone["notes"]
    assert claim_stays.startswith(f"the claim stays with the data: lab in {place.namespace}")
    assert waits == f"second in {place.namespace} waits for first, and would not start"
    place.until(lambda: place.names() == {"Job/second"}, "the objects of the job to be deleted")
    assert place.exists("PersistentVolumeClaim", "lab")
    waiting = served.until("/jobs/second", lambda value: "does not exist" in value["reason"], namespace=place.namespace)
    assert waiting["reason"] == "first does not exist, and this job waits for it"


def test_deletion_returns_before_the_pods_end(served: Served, place: Place) -> None:
    """The pods of this job ignore SIGTERM for longer than a client waits; `force` ends them at once."""
    slow = training("slow", job={"annotations": {"gpuctl.test/termination": "stuck"}})
    made = served.call("POST", "/jobs", status=201, json=sent(slow, namespace=place.namespace))
    place.running("slow")
    path = f"/jobs/{made['jobId']}"
    assert served.call("DELETE", path)["status"] == "terminating"
    assert place.get("Job", "slow")["metadata"]["deletionTimestamp"]
    assert served.call("DELETE", path, params={"force": "true"})["status"] == "terminating"
    place.until(lambda: not place.exists("Job", "slow"), "the job to be deleted")
    assert served.call("DELETE", path, status=400, params={"force": "perhaps"})["error"] == "InvalidRequest"


@pytest.mark.parametrize("make", [training, inference])
def test_job_is_paused_and_resumed(served: Served, place: Place, make: Any) -> None:
    made = served.call("POST", "/jobs", status=201, json=sent(make("a"), namespace=place.namespace))
    place.running("a")
    title = f"{made['kind']}/a in {place.namespace}"
    path = f"/jobs/{made['jobId']}"
    assert served.call("POST", f"{path}/pause") == {
        "jobId": made["jobId"],
        "status": "paused",
        "message": f"{title} is paused; its pod ends, which frees the GPUs and removes the logs",
    }
    place.until(lambda: not place.pods("a"), "the pods to be deleted")
    assert served.call("POST", f"{path}/pause")["message"] == f"{title} is paused already"
    resumed = served.call("POST", f"{path}/resume")
    assert (resumed["jobId"], resumed["status"]) == (made["jobId"], "resumed")
    place.running("a")


@pytest.mark.slow
def test_ended_training_is_rerun_with_a_new_id(served: Served, place: Place) -> None:
    made = served.call(
        "POST", "/jobs", status=201, json=sent(training("a", job=outcome("complete")), namespace=place.namespace)
    )
    path = f"/jobs/{made['jobId']}"
    served.until(
        "/jobs", lambda value: [item["status"] for item in value["items"]] == ["succeeded"], namespace=place.namespace
    )
    refused = served.call("POST", f"{path}/pause", status=409)
    assert refused["error"] == "NotPausable"
    again = served.call("POST", f"{path}/rerun")
    assert again["status"] == "pending"
    assert again["jobId"] != made["jobId"]
    served.until(f"/jobs/{again['jobId']}", lambda value: value["jobId"] == again["jobId"])
    assert served.call("DELETE", f"/jobs/{again['jobId']}")["status"] == "terminating"
    place.apply(training("b"))
    where = {"namespace": place.namespace}
    served.until("/jobs", lambda value: any(i["name"] == "b" for i in value["items"]), **where)

    def answered() -> Any:
        answer = served.client().post("/jobs/b/rerun", params=where).json()
        # The service may list the pods of a job before the job itself.
        return None if "not visible yet" in answer["message"] else answer

    assert place.until(answered, "the service to list b")["error"] == "NotRerunnable"


def test_audit_log_has_every_write(served: Served, place: Place) -> None:
    """Caller, action, objects and result; nothing of the content of a document."""
    secret = "hunter2-and-more"
    document = training("a", environment={"env": [{"name": "TOKEN", "value": secret}]})
    body = sent(document, namespace=place.namespace)
    headers = {"X-Request-Id": f"audit-{place.namespace}"}
    served.call("POST", "/jobs", status=201, json=body, headers=headers)
    served.call("POST", "/jobs", status=409, json=body, headers=headers)
    served.call("POST", "/jobs", "anna", status=403, json=body, headers=headers)
    served.call("POST", "/jobs", "", status=401, json=body, headers=headers)
    served.call("POST", "/jobs", status=400, json={}, headers=headers)
    served.call("POST", "/jobs", status=409, json={**body, "dryRun": True}, headers=headers)
    served.call(
        "POST", "/jobs", json={**sent(training("b"), namespace=place.namespace), "dryRun": True}, headers=headers
    )
    served.call("POST", "/plan", json=body, headers=headers)
    title = f"training/a in {place.namespace}"
    lines = [json.loads(line) for line in served.until_told('"audit"', headers["X-Request-Id"], count=7)]
    found = [line for line in lines if line["message"] == "audit"]
    assert [(line["caller"], line["action"], line["objects"], line["result"]) for line in found] == [
        ("admin", "POST /api/v1/jobs", [title], "begun"),
        ("admin", "POST /api/v1/jobs", [title], "201"),
        ("admin", "POST /api/v1/jobs", [title], "409 AlreadyExists"),
        ("anna", "POST /api/v1/jobs", [title], "403 Forbidden"),
        ("", "POST /api/v1/jobs", [], "401 Unauthorized"),
        ("admin", "POST /api/v1/jobs", [], "400 InvalidRequest"),
        ("admin", "POST /api/v1/jobs", [title], "409 AlreadyExists"),
    ]
    assert secret not in "".join(served.log)


@pytest.mark.slow
def test_finished_training_runs_again_only_after_confirmation(served: Served, place: Place) -> None:
    """PUT and POST /plan ask for confirmation. A label changes in place. A job removed by its ttl is not created again
    until it is rerun.
    """
    ends = {**outcome("complete"), "namespace": place.namespace}
    made = served.call("POST", "/jobs", status=201, json=sent(training("a", job=ends)))
    place.ended("a")
    path = f"/jobs/{made['jobId']}"
    changed = sent(training("a", job=ends, environment=image("v2")))
    refused = served.call("PUT", path, json=changed, status=409)
    assert "(Complete): runs again; its pods and logs are deleted" in refused["message"]
    (step,) = [step for step in served.call("POST", "/plan", json=changed)["steps"] if step["kind"] == "Job"]
    assert step["finished"].endswith("(Complete): runs again; its pods and logs are deleted")
    uid = place.uid("Job", "a")
    served.call("PUT", path, json=sent(training("a", job={**ends, "labels": {"cost-center": "42"}})))
    assert place.uid("Job", "a") == uid
    served.call("PUT", path, json=changed, params={"confirm": "true"})
    assert place.uid("Job", "a") != uid

    brief = sent(training("b", job={**ends, "ttl": "1s"}))
    served.call("POST", "/jobs", status=201, json=brief)
    place.until(lambda: not place.exists("Job", "b"), "the ttl to delete the job")
    (kept,) = [step for step in served.call("POST", "/plan", json=brief)["steps"] if step["kind"] == "Job"]
    assert kept["action"] == "unchanged"
    assert kept["reason"].startswith("kept: applied on ")
    where = {"namespace": place.namespace}
    served.until("/jobs", lambda value: all(item["name"] != "b" for item in value["items"]), **where)
    assert "runs training/b in" in served.call("POST", "/jobs/b/rerun", params=where, status=409)["message"]
    again = served.call("POST", "/jobs/b/rerun", params={**where, "confirm": "true"})
    assert again["message"] == "training/b runs again"
    served.call("POST", "/jobs/nobody/rerun", params=where, status=404)

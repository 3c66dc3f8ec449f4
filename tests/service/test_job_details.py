"""`GET /jobs/{jobId}` and the read requests about a job return what the command line prints, field by field."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from gpuctl_server.service_context import WAITS
from support.cluster_tools import POOL, Place, compute, inference, notebook, outcome, training
from support.device_nodes import claim_template, claimant, device_nodes
from support.remote import Remote
from support.served import Served, serving

OWN = ("jobId", "status", "metrics", "resources")
"""Fields that only REST has, or that differ from `describe job -o json`."""


def job_of(served: Served, place: Place, name: str, **wanted: Any) -> dict[str, Any]:
    """Wait until the job has the wanted values, and return its row."""

    def found(value: dict[str, Any]) -> bool:
        return any(item["name"] == name and wanted.items() <= item.items() for item in value["items"])

    items = served.until("/jobs", found, namespace=place.namespace)["items"]
    return next(item for item in items if item["name"] == name)


def test_description_equals_that_of_the_command_line(served: Served, place: Place) -> None:
    """Every kind, by jobId, name and pod name; the returned document compiles to the same job."""
    secret = {"image": "registry.example.com/a:v1", "env": [{"name": "API_TOKEN", "value": "hunter2-hunter2"}]}
    documents = [
        training("sft", job={"description": "llama3", "priority": "high"}, environment=secret),
        inference("chat"),
        notebook("lab"),
        compute("web"),
    ]
    place.apply(*documents)
    place.running("sft", "chat", "lab", "web")
    for document in documents:
        name = document["job"]["name"]
        listed = job_of(served, place, name, status="running")
        described = place.gpuctl("describe", "job", name, "-o", "json").value
        assert described["phase"] == "running"
        pod = described["k8sResources"]["pods"][0]

        def same(found: dict[str, Any], name: str = name) -> bool:
            # Events and conditions change in between.
            described = place.gpuctl("describe", "job", name, "-o", "json").value
            return all(found[key] == described[key] for key in found if key not in OWN)

        for text in (listed["jobId"], name, pod):
            found = served.until(f"/jobs/{text}", same, namespace=place.namespace)
            assert found["jobId"] == listed["jobId"]
            assert found["status"] == "running"
            assert found["metrics"] == dict.fromkeys(("gpuUtilization", "memoryUsage", "networkLatency", "throughput"))
            assert found["resources"] == described["resources"]
        assert found["k8sResources"]["jobName"] == name
        assert "hunter2" not in found["yamlContent"]
        assert yaml.safe_load(found["yamlContent"])["kind"] == document["kind"]
    assert found["pool"] == POOL


def test_lists_and_descriptions_send_no_api_requests(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    """Services are lifted with their Service and autoscaler; lists and descriptions of it send no request."""
    scaled = {"autoscaling": {"enabled": True, "maxReplicas": 3, "metric": "cpu"}}
    place.apply(inference("chat", **scaled), training("sft"))
    place.running("chat", "sft")
    # Other tests use the shared service; this one counts the requests of its own.
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "proxied"), {"admin": ("admin", None, None)}) as own:
        for name in ("chat", "sft"):
            job_of(own, place, name, status="running")
        proxy.reset()
        for name in ("chat", "sft"):
            assert own.get(f"/jobs/{name}", namespace=place.namespace)["yamlContent"]
        found = yaml.safe_load(own.get("/jobs/chat", namespace=place.namespace)["yamlContent"])
        assert found["autoscaling"]["maxReplicas"] == 3
        own.get("/jobs", namespace=place.namespace)
        kinds = ("services", "horizontalpodautoscalers", "jobs", "deployments", "events")
        asked = [item.request for item in list(proxy.records) if not item.request.is_watch]
        assert [str(request) for request in asked if request.path.endswith(kinds)] == []


def test_description_follows_changes_and_deletion(served: Served, place: Place) -> None:
    place.apply(compute("web"))
    place.running("web")
    job_of(served, place, "web", status="running")
    place.apply(compute("web", environment={"image": "registry.example.com/compute:v2"}), flags=("--yes",))
    served.until(
        "/jobs/web", lambda value: value["images"] == ["registry.example.com/compute:v2"], namespace=place.namespace
    )
    place.gpuctl("delete", "job", "web", "--yes")
    served.until_gone("/jobs/web", namespace=place.namespace)


def test_hints_of_cached_answers_are_those_of_the_client(served: Served, place: Place) -> None:
    """The command line and a client of the REST API get the same job, with a command or a request."""
    place.apply(training("nightly", schedule="0 2 29 2 *"))
    place.gpuctl("pause", "nightly")
    request, command = "`POST /jobs/{jobId}/resume`", "`gpuctl resume`"
    here = {"namespace": place.namespace}
    served.until("/jobs/nightly", lambda value: value["phase"] == "paused", **here)
    for path in ("/jobs", "/jobs/nightly"):
        for agent, hint in 2 * (("python", request), ("gpuctl/0.1.0", command)):
            answer = served.client().get(path, params=here, headers={"User-Agent": agent}).json()
            (job,) = answer.get("items", [answer])
            assert job["reason"] == f"{hint} continues its schedule", (path, agent)


def test_id_takes_precedence_over_an_equal_name(served: Served, place: Place) -> None:
    """A name that looks like another job's id means the job with that id; invisible jobs do not exist for the user."""
    place.apply(compute("web"))
    identity = job_of(served, place, "web")["jobId"]
    place.apply(compute(identity))
    other = job_of(served, place, identity)
    assert served.get(f"/jobs/{identity}")["name"] == "web"
    assert served.get(f"/jobs/{other['jobId']}")["name"] == identity
    for path in ("", "/why", "/timeline"):
        hidden = served.get(f"/jobs/{identity}{path}", "anna", status=404)
        absent = served.get(f"/jobs/nobody-00000{path}", "anna", status=404)
        assert hidden["message"].replace(identity, "X") == absent["message"].replace("nobody-00000", "X")
        assert served.get(f"/jobs/web{path}", "anna", status=403, namespace=place.namespace)["error"] == "Forbidden"
        assert served.get(f"/jobs/web{path}", "", status=401)["error"] == "Unauthorized"


def test_why_and_timeline_equal_those_of_the_command_line(served: Served, place: Place) -> None:
    place.apply(
        training("stuck", resources={"pool": POOL, "gpu": 900}),
        training("crashed", job=outcome("fail")),
        inference("fine"),
    )
    place.running("fine")
    place.until(lambda: "fail" in place.gpuctl("get", "jobs", "--jobs", "-o", "json").out.lower(), "the job to fail")
    for name in ("stuck", "crashed", "fine"):
        identity = job_of(served, place, name)["jobId"]

        def same(path: str, *command: str, keys: tuple[str, ...], identity: str = identity) -> None:
            # Ages and events change between the two answers; retry until one pair is equal.
            end = time.monotonic() + 60
            while True:
                ours, theirs = served.get(f"/jobs/{identity}/{path}"), place.gpuctl(*command, "-o", "json").value
                if all(ours[key] == theirs[key] for key in keys):
                    return
                assert time.monotonic() < end, (ours, theirs)

        answer = served.get(f"/jobs/{identity}/why")
        same("why", "why", name, keys=tuple(answer))
        same("timeline", "describe", "job", name, keys=("timeline", "conditions", "events"))
        answer = served.get(f"/jobs/{identity}/details")
        assert (answer["uid"] is not None, answer["notes"]) == (True, [])
        same("details", "describe", "job", name, keys=tuple(answer.keys() - {"uid", "notes"}))
        brief = served.get(f"/jobs/{identity}/details", timeline=False, maxAge=30)
        left_out = {"timeline": [], "conditions": [], "events": None}
        causes = [(value["why"] or {}).get("cause") for value in (brief, answer)]
        assert (brief | left_out, causes[0]) == (brief, causes[1])


def test_waits_over_the_limit_get_429(served: Served, place: Place) -> None:
    """429 with Retry-After; other requests are answered, and a slot that becomes free is used."""
    place.apply(training("stuck", resources={"gpu": 900}))
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    where, statuses = {"namespace": place.namespace}, []

    def wait(timeout: float) -> httpx.Response:
        body = {"condition": "deleted", "timeout": timeout}
        return served.own_client().post("/jobs/stuck/wait", json=body, params=where)

    def wait_in_a_slot() -> None:
        # The test request that probes for a free slot occupies one for a moment.
        while (status := wait(60).status_code) == 429:
            time.sleep(0.1)
        statuses.append(status)

    threads = [threading.Thread(target=wait_in_a_slot) for _ in range(WAITS)]
    for thread in threads:
        thread.start()
    tried = [httpx.Response(200)]

    def refused() -> bool:
        tried.append(wait(0))
        return tried[-1].status_code == 429

    place.until(refused, "all slots to be occupied", 50)
    assert tried[-1].json() == {
        "error": "TooManyRequests",
        "message": "16 requests wait for jobs, which is the limit; try again in a moment",
        "details": [],
    }
    assert int(tried[-1].headers["Retry-After"]) >= 1
    assert served.get("/jobs/stuck", **where)["status"] == "pending"
    place.gpuctl("delete", "job", "stuck", "--yes")
    for thread in threads:
        thread.join()
    assert statuses == [200] * WAITS
    assert wait(0).status_code == 200


@pytest.mark.slow
def test_wait_for_one_job_equals_that_of_the_command_line(served: Served, place: Place) -> None:
    """The answer of `gpuctl wait -o json`; lists are answered while requests wait."""
    place.apply(inference("chat"), training("done", job=outcome("complete")), training("stuck", resources={"gpu": 900}))
    for name in ("chat", "done", "stuck"):
        job_of(served, place, name)
    place.until(
        lambda: "Insufficient" in place.kubectl("get", "pods", "-l", "app=stuck", "-o", "yaml"), "the scheduling event"
    )
    for name, condition in (("chat", "ready"), ("done", "done"), ("chat", "running")):
        body = {"condition": condition, "timeout": 50}
        found = served.call("POST", f"/jobs/{name}/wait", json=body, params={"namespace": place.namespace})
        assert found == place.gpuctl("wait", name, f"--for={condition}", "--timeout", "60s", "-o", "json").value
    results: list[Any] = []

    def wait() -> None:
        body = {"condition": "running", "timeout": 2}
        results.append(served.call("POST", "/jobs/stuck/wait", json=body, params={"namespace": place.namespace}))

    threads = [threading.Thread(target=wait) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert served.get("/jobs", namespace=place.namespace)["total"] == 3
    assert [item["items"][0]["met"] for item in results] == [False] * 4
    assert "GPU" in results[0]["items"][0]["message"]
    gone = served.call("POST", "/jobs/nobody/wait", json={"condition": "deleted"})["items"][0]
    assert (gone["met"], gone["message"]) == (True, "nobody is deleted")
    # A job of this name in another namespace is another job.
    elsewhere = {"json": {"condition": "deleted"}, "params": {"namespace": "default"}}
    gone = served.call("POST", "/jobs/stuck/wait", **elsewhere)["items"][0]
    assert (gone["met"], gone["message"]) == (True, "stuck is deleted")
    served.call("POST", "/jobs/nobody/wait", json={"condition": "ready"}, status=404)
    for wrong in ({}, {"condition": "happy"}, {"condition": "done", "timeout": 61}, {"condition": "done", "x": 1}):
        served.call("POST", "/jobs/chat/wait", json=wrong, params={"namespace": place.namespace}, status=400)


def test_wait_for_several_jobs_returns_the_decided_ones(served: Served, place: Place) -> None:
    """Decided jobs are returned at once, with their index; the client asks for the others again."""
    place.apply(inference("chat"), training("end", job=outcome("complete")), training("stuck", resources={"gpu": 900}))
    ids = [job_of(served, place, name)["jobId"] for name in ("chat", "end", "stuck")]
    here = {"namespace": place.namespace}

    def wait(condition: str, *jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
        answer = served.call("POST", "/jobs/wait", json={"jobs": list(jobs), "condition": condition, **more})
        assert isinstance(answer, dict)
        return answer

    def of(answer: dict[str, Any]) -> list[tuple[int, str]]:
        return [(item["index"], item["outcome"]) for item in answer["items"]]

    place.until(lambda: place.get("Job", "end")["status"].get("succeeded"), "the job to end")
    names = [{"job": name, **here} for name in ("stuck", "nobody", "end", "chat", "end")]
    answer = wait("done", *names)
    assert of(answer) == [(1, "gone"), (2, "met"), (3, "never"), (4, "met")]
    assert answer["message"].startswith("waiting until done: training/stuck: ")
    assert [item["name"] for item in answer["items"]] == ["nobody", "end", "chat", "end"]
    # Never late without a limit; the limit includes the time waited before.
    stuck = {"job": ids[2]}
    assert of(wait("running", stuck, timeout=0.5)) == []
    late = wait("running", stuck, timeout=20, limit=300, waited=299.5)
    assert of(late) == [(0, "late")]
    assert late["message"] is None
    cause = late["items"][0]["cause"]
    assert "GPU" in cause
    assert late["items"][0]["message"] == f"training/stuck is not running after 300 s: {cause}"
    # A recreated job is a different one: the job that was waited for is deleted.
    assert of(wait("deleted", {"job": "chat", **here, "jobId": "chat-00000"})) == [(0, "met")]
    assert wait("started", {"job": ids[0], "kind": "inference"})["items"][0]["message"] == "inference/chat has started"
    gone = wait("deleted", {"job": "nobody", **here, "kind": "training", "jobId": "nobody-00000"})
    assert gone["items"][0]["message"] == "training/nobody is deleted"
    for wrong in ({"jobs": []}, {"jobs": ["chat"]}, {"jobs": [{"job": "chat", "x": 1}]}, {"timeout": 61}):
        body = {"jobs": [{"job": "chat"}], "condition": "done", **wrong}
        served.call("POST", "/jobs/wait", json=body, status=400)


@pytest.mark.slow
def test_fit_equals_that_of_the_command_line(served: Served, place: Place) -> None:
    """The verdicts of `gpuctl fit`; jobs that the user may not see count, without their names."""
    place.apply(training("holder", resources={"gpu": 60}))
    place.running("holder")
    text = place.file(
        training("small"), training("large", resources={"gpu": 64 * 4}), training("never", resources={"gpu": 999})
    )
    content = Path(text).read_text()
    body, here = {"yamlContent": content}, {"namespace": place.namespace}
    answers: list[Any] = []

    def alike() -> bool:
        # Pods of other tests may still be terminating.
        answers.append(served.call("POST", "/fit", json=body, params=here))
        return bool(answers[-1]["jobs"] == place.gpuctl("fit", "-f", text, "-o", "json", code=1).value["jobs"])

    place.until(alike, "both answers to be equal")
    found = answers[-1]
    assert {item["verdict"] for item in found["jobs"]} >= {"fits", "never"}
    theirs = served.call("POST", "/fit", "anna", json=body)
    told = str(theirs)
    assert [item["verdict"] for item in theirs["jobs"]] == [item["verdict"] for item in found["jobs"]]
    assert place.namespace not in told
    assert "holder" not in told
    assert "(others)" in told, "GPUs held by hidden jobs count"
    assert "hidden" not in told
    assert served.call("POST", "/fit", "anna", json=body, params=here, status=403)["error"] == "Forbidden"
    suggesting = {**here, "suggest": "true"}
    ours = served.call("POST", "/fit", json=body, params=suggesting)["jobs"]
    theirs = place.gpuctl("fit", "-f", text, "--suggest", "-o", "json", code=1).value["jobs"]
    assert _suggested(ours) == _suggested(theirs)
    assert any(changes for changes in _suggested(ours).values())
    many = {"yamlContent": "\n---\n".join(json.dumps(training(f"job-{number}")) for number in range(21))}
    assert served.call("POST", "/fit", json=many, params=suggesting, status=400)["error"] == "TooManyDocuments"
    wrong = served.call("POST", "/fit", json={"yamlContent": "kind: training\n"}, status=400)
    assert wrong["error"] == "InvalidDocuments"
    assert wrong["details"]


@pytest.mark.parametrize(
    ("user", "document", "status", "code", "path"),
    [
        ("anna", training(job={"namespace": "team-b"}), 403, "Forbidden", "job.namespace"),
        (
            "otto",
            training(job={"namespace": "team-b"}, resources={"pool": "secret"}),
            403,
            "Forbidden",
            "resources.pool",
        ),
        ("admin", {"kind": "platform", "version": "v0.1"}, 400, "BadRequest", "kind"),
    ],
)
def test_refusal_of_a_document_is_a_diagnostic_at_its_field(
    served: Served, user: str, document: dict[str, Any], status: int, code: str, path: str
) -> None:
    body = {"yamlContent": yaml.safe_dump(document, sort_keys=False)}
    refused = served.call("POST", "/fit", user, json=body, status=status)
    [item] = refused["details"]
    assert (item["severity"], item["code"], item["path"]) == ("error", code, path)
    assert item["message"] == refused["message"]
    assert path.rpartition(".")[2] in body["yamlContent"].splitlines()[item["line"] - 1]


def _suggested(jobs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Return job -> the suggested changes and their lines."""
    return {
        job["name"]: [
            (item["kind"], change["path"], change["to"], change["line"])
            for item in job["suggestions"]
            for change in item["changes"]
        ]
        for job in jobs
    }


def test_namespaces_equal_those_of_the_command_line(served: Served, place: Place) -> None:
    place.apply(inference("chat"))
    place.running("chat")

    def own(value: dict[str, Any]) -> list[dict[str, Any]]:
        return [item for item in value["items"] if item["name"] == place.namespace]

    theirs = place.anywhere("get", "namespaces", "-o", "json").value
    served.until("/namespaces", lambda value: own(value) == own(theirs))
    assert own(theirs)[0]["gpuUsed"] == 1

    def names(value: dict[str, Any]) -> set[str]:
        return {item["name"] for item in value["items"]}

    # Namespaces of other tests appear and disappear.
    served.until(
        "/namespaces",
        lambda value: names(value) == names(place.anywhere("get", "namespaces", "--all", "-o", "json").value),
        all="true",
    )
    assert {item["name"] for item in served.get("/namespaces", "anna", all="true")["items"]} <= {"team-a"}
    assert served.get("/namespaces", "", status=401)["error"] == "Unauthorized"


def test_gpus_of_resource_claims_are_counted(served: Served, remote: Remote, place: Place, plane: ControlPlane) -> None:
    """In lists, in details, and in the output of the command line that uses the service."""
    with device_nodes(plane, "claimed", "claimed-1", 4):
        claim_template(place, "cards", 3)
        place.apply(claimant("claims", "cards", "claimed"))
        place.running("claims")
        job_of(served, place, "claims", gpu=3)
        described = served.until("/jobs/claims", lambda value: value["pods"], namespace=place.namespace)
        assert [pod["gpu"] for pod in described["pods"]] == [3]
        remote.login()
        remote.same("get", "jobs", "-o", "json")
        place.gpuctl("delete", "job", "claims", "--yes")

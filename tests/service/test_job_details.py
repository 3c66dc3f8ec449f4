"""``GET /jobs/{jobId}`` and the questions about a job: what the command line says, field by field."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import yaml

from control_plane import ControlPlane
from fault_tools.proxy import Proxy
from gpuctl_server.service_context import WAITS
from support.cluster_tools import POOL, Place, compute, inference, notebook, outcome, training
from support.device_nodes import claim_template, claimant, device_nodes
from support.remote import Remote
from support.served import Served, serving

OWN = ("jobId", "status", "metrics", "resources")
"""What differs from ``describe job -o json``: REST's own."""


def job_of(served: Served, place: Place, name: str, **wanted: Any) -> dict[str, Any]:
    """A job's row, once it has some values."""

    def found(value: dict[str, Any]) -> bool:
        return any(item["name"] == name and wanted.items() <= item.items() for item in value["items"])

    items = served.until("/jobs", found, namespace=place.namespace)["items"]
    return next(item for item in items if item["name"] == name)


def test_the_description_is_that_of_the_command_line(served: Served, place: Place) -> None:
    """Every kind, by jobId, by name and by a pod's name; its document compiles to the job again."""
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
            # Events and conditions go on.
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


def test_the_api_server_is_not_asked(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    """Services are lifted with their Service and autoscaler; lists and descriptions of all of it cost no request."""
    scaled = {"autoscaling": {"enabled": True, "maxReplicas": 3, "metric": "cpu"}}
    place.apply(inference("chat", **scaled), training("sft"))
    place.running("chat", "sft")
    # Others ask it as well: who asks what is known behind a proxy of the test's own.
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


def test_a_change_is_in_the_description_soon(served: Served, place: Place) -> None:
    place.apply(compute("web"))
    place.running("web")
    job_of(served, place, "web", status="running")
    place.apply(compute("web", environment={"image": "registry.example.com/compute:v2"}), flags=("--yes",))
    served.until(
        "/jobs/web", lambda value: value["images"] == ["registry.example.com/compute:v2"], namespace=place.namespace
    )
    place.gpuctl("delete", "job", "web", "--yes")
    served.until_gone("/jobs/web", namespace=place.namespace)


def test_which_job_is_meant(served: Served, place: Place) -> None:
    """A name that looks like another job's id means the job of the id; what may not be seen is not there."""
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


def test_why_and_timeline_are_those_of_the_command_line(served: Served, place: Place) -> None:
    place.apply(
        training("stuck", resources={"pool": POOL, "gpu": 900}),
        training("crashed", job=outcome("fail")),
        inference("fine"),
    )
    place.running("fine")
    place.until(lambda: "fail" in place.gpuctl("get", "jobs", "--jobs", "-o", "json").out.lower(), "the crash")
    for name in ("stuck", "crashed", "fine"):
        identity = job_of(served, place, name)["jobId"]

        def same(path: str, *command: str, keys: tuple[str, ...], identity: str = identity) -> None:
            # Both are of this very moment, in which ages and events go on: one pair of them is alike.
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


def test_more_wait_than_may(served: Served, place: Place) -> None:
    """They are told to come again, and do not keep anybody else from being answered; a place that is free is given."""
    place.apply(training("stuck", resources={"gpu": 900}))
    served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    where, statuses = {"namespace": place.namespace}, []

    def wait(timeout: float) -> httpx.Response:
        body = {"condition": "deleted", "timeout": timeout}
        return served.own_client().post("/jobs/stuck/wait", json=body, params=where)

    def take_a_place() -> None:
        # Whoever only looks whether there is one takes one for a moment.
        while (status := wait(60).status_code) == 429:
            time.sleep(0.1)
        statuses.append(status)

    threads = [threading.Thread(target=take_a_place) for _ in range(WAITS)]
    for thread in threads:
        thread.start()
    tried = [httpx.Response(200)]

    def refused() -> bool:
        tried.append(wait(0))
        return tried[-1].status_code == 429

    place.until(refused, "the places to be taken", 50)
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


def test_waiting(served: Served, place: Place) -> None:
    """The answer of ``gpuctl wait -o json``; the list is answered meanwhile."""
    place.apply(inference("chat"), training("done", job=outcome("complete")), training("stuck", resources={"gpu": 900}))
    for name in ("chat", "done", "stuck"):
        job_of(served, place, name)
    place.until(
        lambda: "Insufficient" in place.kubectl("get", "pods", "-l", "app=stuck", "-o", "yaml"), "the scheduler's word"
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
    served.call("POST", "/jobs/nobody/wait", json={"condition": "ready"}, status=404)
    for wrong in ({}, {"condition": "happy"}, {"condition": "done", "timeout": 61}, {"condition": "done", "x": 1}):
        served.call("POST", "/jobs/chat/wait", json=wrong, params={"namespace": place.namespace}, status=400)


def test_waiting_for_several(served: Served, place: Place) -> None:
    """Those that are decided come at once, with their places; the others are asked for again."""
    place.apply(inference("chat"), training("end", job=outcome("complete")), training("stuck", resources={"gpu": 900}))
    ids = [job_of(served, place, name)["jobId"] for name in ("chat", "end", "stuck")]
    here = {"namespace": place.namespace}

    def wait(condition: str, *jobs: dict[str, Any], **more: Any) -> dict[str, Any]:
        answer = served.call("POST", "/jobs/wait", json={"jobs": list(jobs), "condition": condition, **more})
        assert isinstance(answer, dict)
        return answer

    def of(answer: dict[str, Any]) -> list[tuple[int, str]]:
        return [(item["index"], item["outcome"]) for item in answer["items"]]

    place.until(lambda: place.get("Job", "end")["status"].get("succeeded"), "its end")
    names = [{"job": name, **here} for name in ("stuck", "nobody", "end", "chat", "end")]
    answer = wait("done", *names)
    assert of(answer) == [(1, "gone"), (2, "met"), (3, "never"), (4, "met")]
    assert answer["message"].startswith("waiting until done: training/stuck: ")
    assert [item["name"] for item in answer["items"]] == ["nobody", "end", "chat", "end"]
    # Not late without a limit; a limit counts what was waited before.
    stuck = {"job": ids[2]}
    assert of(wait("running", stuck, timeout=0.5)) == []
    late = wait("running", stuck, timeout=20, limit=300, waited=299.5)
    assert of(late) == [(0, "late")]
    assert late["message"] is None
    cause = late["items"][0]["cause"]
    assert "GPU" in cause
    assert late["items"][0]["message"] == f"training/stuck is not running after 300 s: {cause}"
    # What was made again is another job, and the one that was waited for is deleted.
    assert of(wait("deleted", {"job": "chat", **here, "jobId": "chat-00000"})) == [(0, "met")]
    assert wait("started", {"job": ids[0], "kind": "inference"})["items"][0]["message"] == "inference/chat has started"
    gone = wait("deleted", {"job": "nobody", **here, "kind": "training", "jobId": "nobody-00000"})
    assert gone["items"][0]["message"] == "training/nobody is deleted"
    for wrong in ({"jobs": []}, {"jobs": ["chat"]}, {"jobs": [{"job": "chat", "x": 1}]}, {"timeout": 61}):
        body = {"jobs": [{"job": "chat"}], "condition": "done", **wrong}
        served.call("POST", "/jobs/wait", json=body, status=400)


def test_fit(served: Served, place: Place) -> None:
    """The verdicts of ``gpuctl fit``; what others run counts, without their names."""
    place.apply(training("holder", resources={"gpu": 60}))
    place.running("holder")
    text = place.file(
        training("small"), training("large", resources={"gpu": 64 * 4}), training("never", resources={"gpu": 999})
    )
    content = Path(text).read_text()
    body, here = {"yamlContent": content}, {"namespace": place.namespace}
    answers: list[Any] = []

    def alike() -> bool:
        # Other tests' pods may still be going.
        answers.append(served.call("POST", "/fit", json=body, params=here))
        return bool(answers[-1]["jobs"] == place.gpuctl("fit", "-f", text, "-o", "json", code=1).value["jobs"])

    place.until(alike, "both to say the same")
    found = answers[-1]
    assert {item["verdict"] for item in found["jobs"]} >= {"fits", "never"}
    theirs = served.call("POST", "/fit", "anna", json=body)
    told = str(theirs)
    assert [item["verdict"] for item in theirs["jobs"]] == [item["verdict"] for item in found["jobs"]]
    assert place.namespace not in told
    assert "holder" not in told
    assert "(others)" in told, "what holds the GPUs counts"
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


def _suggested(jobs: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Job -> what is to be written instead, and in which line."""
    return {
        job["name"]: [
            (item["kind"], change["path"], change["to"], change["line"])
            for item in job["suggestions"]
            for change in item["changes"]
        ]
        for job in jobs
    }


def test_namespaces(served: Served, place: Place) -> None:
    place.apply(inference("chat"))
    place.running("chat")

    def own(value: dict[str, Any]) -> list[dict[str, Any]]:
        return [item for item in value["items"] if item["name"] == place.namespace]

    theirs = place.anywhere("get", "namespaces", "-o", "json").value
    served.until("/namespaces", lambda value: own(value) == own(theirs))
    assert own(theirs)[0]["gpuUsed"] == 1

    def names(value: dict[str, Any]) -> set[str]:
        return {item["name"] for item in value["items"]}

    # Those of other tests come and go.
    served.until(
        "/namespaces",
        lambda value: names(value) == names(place.anywhere("get", "namespaces", "--all", "-o", "json").value),
        all="true",
    )
    assert {item["name"] for item in served.get("/namespaces", "anna", all="true")["items"]} <= {"team-a"}
    assert served.get("/namespaces", "", status=401)["error"] == "Unauthorized"


def test_gpus_of_resource_claims(served: Served, remote: Remote, place: Place, plane: ControlPlane) -> None:
    """In lists, in details, and in what the command line prints of the service."""
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

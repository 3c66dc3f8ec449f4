"""Interrupted changes: by a client that disconnects, by a shutdown, or by an unreachable API server; and concurrent
changes of two services. No change is lost: the next gpuctl or service finishes what is left.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, before, matching, meanwhile, nth, on
from support.cluster_tools import Place, image, training
from support.documents_sent import sent
from support.remote import Remote
from support.served import Served, serving

ADMIN = {"admin": ("admin", None, None), "anna": ("user", ("team-a",), None)}
CHANGED = {"environment": image("v2")}
STUCK = {"annotations": {"gpuctl.test/termination": "stuck"}}
SLOW = {"annotations": {"gpuctl.test/termination": "slow"}}


@pytest.fixture
def proxied(proxy: Proxy, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """Start a service behind the proxy that a test may stop or kill; the parameter is its shutdown timeout, seconds."""
    directory = tmp_path / "proxied"
    directory.mkdir()
    kubeconfig = proxy.kubeconfig(directory / "kubeconfig")
    audit = str(directory / "audit.jsonl")
    patience = getattr(request, "param", "4")
    with serving(directory, kubeconfig, ADMIN, shutdown_timeout=patience, audit=audit) as running:  # type: ignore[arg-type]
        yield running


def job_image(place: Place, kind: str = "Job", name: str = "a") -> str:
    """Return the image tag of a job's pods."""
    return str(place.get(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


def open_journals(place: Place) -> list[str]:
    """Return the names of the journal objects that unfinished changes have left."""
    return [name for name in place.objects(("Secret", "Lease")) if "gpuctl" in name]


def create_running_job(service: Served, place: Place, **changes: Any) -> str:
    """Create a job, wait until it runs, and return its path."""
    made = service.call("POST", "/jobs", status=201, json=sent(training("a", **changes), namespace=place.namespace))
    place.running("a")
    return f"/jobs/{made['jobId']}"


def kill_between_delete_and_create(service: Served, proxy: Proxy, place: Place) -> None:
    """Replace a job, and kill the service after it deleted the old job and before it creates the new one."""
    path = create_running_job(service, place)
    creates = matching("POST", f"/namespaces/{place.namespace}/jobs", writes=True)
    proxy.reset(on(creates, before(service.process.kill)))
    with pytest.raises(httpx.TransportError):
        service.client().put(path, json=sent(training("a", **CHANGED)), params={"confirm": "true"})
    assert service.process.wait(timeout=60) == -signal.SIGKILL
    proxy.drain()
    assert not place.exists("Job", "a")
    assert open_journals(place)


def test_audit_reports_the_change_of_a_killed_service_as_interrupted(
    proxied: Served, proxy: Proxy, place: Place, plane: ControlPlane, tmp_path: Path
) -> None:
    """The audit lists the objects of the change; the next service reports its result as `interrupted`."""
    kill_between_delete_and_create(proxied, proxy, place)
    log = tmp_path / "proxied" / "audit.jsonl"
    begun = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["result"] for line in begun] == ["begun", "201", "begun"]
    assert begun[0]["write"] == begun[1]["write"] != begun[2]["write"]
    with serving(tmp_path, plane.kubeconfig(), ADMIN, audit=str(log)) as after:  # type: ignore[arg-type]
        (line,) = after.get("/audit", result="interrupted")["items"]
        assert (line["caller"], line["action"]) == ("admin", "PUT /api/v1/jobs/{jobId}")
        assert line["objects"] == [f"training/a in {place.namespace}"]
        assert [item["result"] for item in after.get("/audit")["items"]] == ["interrupted", "201"]
        after.call("POST", "/recoveries", params={"namespace": place.namespace, "confirm": "true"})
        assert [item["result"] for item in after.get("/audit")["items"]] == ["200", "interrupted", "201"]


def test_another_service_finishes_an_interrupted_change(
    served: Served, proxied: Served, proxy: Proxy, place: Place
) -> None:
    kill_between_delete_and_create(proxied, proxy, place)
    query = {"namespace": place.namespace}
    found = served.call("GET", "/recoveries", params=query)
    assert [(step["action"], step["name"]) for step in found["planned"]] == [("create", "a")]
    refused = served.call("POST", "/recoveries", status=409, params=query)
    assert refused["error"] == "NotConfirmed"
    assert refused["details"] == [{"message": question} for question in found["questions"]]
    done = served.call("POST", "/recoveries", params={**query, "confirm": "true"})
    assert [(item["name"], item["outcome"]) for item in done["recovered"]] == [("a", "new")]
    assert job_image(place) == "v2"
    assert open_journals(place) == []
    assert served.call("GET", "/recoveries", params=query)["planned"] == []


@pytest.mark.slow
def test_gpuctl_recover_finishes_an_interrupted_change(proxied: Served, proxy: Proxy, place: Place) -> None:
    kill_between_delete_and_create(proxied, proxy, place)
    place.gpuctl("recover", "--yes")
    assert job_image(place) == "v2"
    assert open_journals(place) == []


@pytest.mark.slow
def test_gpuctl_recover_over_the_service_finishes_an_interrupted_change(
    proxied: Served, proxy: Proxy, place: Place, remote: Remote
) -> None:
    """The objects to create are shown in full and have to be confirmed, as with a kubeconfig."""
    kill_between_delete_and_create(proxied, proxy, place)
    remote.login()
    for words in (("--dry-run",), ("--dry-run", "-o", "json"), (), ("-o", "json")):
        code = 0 if "--dry-run" in words else 2
        said = remote.same("recover", *words, code=code)
        assert "v2" in said.out + said.err
    remote.typed("recover", "--yes", "-n", place.namespace)
    assert job_image(place) == "v2"
    assert open_journals(place) == []


@pytest.mark.slow
def test_next_change_in_the_namespace_finishes_an_interrupted_change(
    served: Served, proxied: Served, proxy: Proxy, place: Place
) -> None:
    """It requires confirmation, because it creates a job that another request asked for."""
    kill_between_delete_and_create(proxied, proxy, place)
    body = sent(training("b"), namespace=place.namespace)
    assert served.call("POST", "/jobs", status=409, json=body)["error"] == "NotConfirmed"
    served.call("POST", "/jobs", status=201, json=body, params={"confirm": "true"})
    assert job_image(place) == "v2"
    assert open_journals(place) == []


def test_change_completes_after_the_client_disconnects(proxied: Served, proxy: Proxy, place: Place) -> None:
    path = create_running_job(proxied, place, job=SLOW)
    deletes = matching("DELETE", f"/namespaces/{place.namespace}/jobs/a", writes=True)
    begun = threading.Event()
    proxy.reset(on(deletes, meanwhile(begun.set)))
    connection = http.client.HTTPConnection(urlsplit(proxied.url).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {proxied.tokens['admin']}", "Content-Type": "application/json"}
    body = json.dumps(sent(training("a", job=SLOW, **CHANGED)))
    connection.request("PUT", f"/api/v1{path}?confirm=true", body, headers)
    assert begun.wait(60)
    connection.close()
    place.until(lambda: place.exists("Job", "a") and job_image(place) == "v2", "the new job")
    place.until(lambda: open_journals(place) == [], "the journal to go")


@pytest.mark.slow
@pytest.mark.parametrize("proxied", ["60"], indirect=True)
def test_shutdown_waits_for_a_running_change(proxied: Served, proxy: Proxy, place: Place) -> None:
    """The pods need three seconds to terminate, and the shutdown timeout is longer; no new change begins during the
    shutdown.
    """
    path = create_running_job(proxied, place, job=SLOW)
    answers: list[httpx.Response] = []
    document = sent(training("a", job=SLOW, **CHANGED))
    deletes = matching("DELETE", f"/namespaces/{place.namespace}/jobs/a", writes=True)
    begun = threading.Event()
    proxy.reset(on(deletes, meanwhile(begun.set)))

    def change() -> None:
        answers.append(proxied.own_client().put(path, json=document, params={"confirm": "true"}))

    thread = threading.Thread(target=change)
    thread.start()
    assert begun.wait(60)
    proxied.process.terminate()
    # Further SIGTERMs do not stop it earlier: the deleted job is created again first.
    for _ in range(3):
        thread.join(0.3)
        proxied.process.terminate()
    thread.join()
    assert (answers[0].status_code, answers[0].json()["status"]) == (200, "replaced"), answers[0].text
    assert proxied.process.wait(timeout=60) == 0
    assert job_image(place) == "v2"
    assert open_journals(place) == []


@pytest.mark.slow
def test_change_beyond_the_shutdown_timeout_is_left_to_recover(
    served: Served, proxied: Served, proxy: Proxy, plane: ControlPlane, place: Place
) -> None:
    """The pods never terminate: after its timeout the service exits and logs that `gpuctl recover` is needed."""
    path = create_running_job(proxied, place, job=STUCK)
    document = sent(training("a", job=STUCK, **CHANGED))
    deletes = matching("DELETE", f"/namespaces/{place.namespace}/jobs/a", writes=True)
    begun = threading.Event()
    proxy.reset(on(deletes, meanwhile(begun.set)))

    def change() -> None:
        with contextlib.suppress(httpx.TransportError):
            proxied.own_client().put(path, json=document, params={"confirm": "true"})

    thread = threading.Thread(target=change)
    thread.start()
    assert begun.wait(60)
    proxied.process.terminate()
    assert proxied.process.wait(timeout=60) == 1
    thread.join()
    assert proxied.until_told("gpuctl recover")
    assert open_journals(place)
    for pod in place.pods("a") or list(_pod_names(place)):
        plane.annotate(place.namespace, pod, termination=None)
    done = served.call("POST", "/recoveries", params={"namespace": place.namespace, "confirm": "true"})
    assert done["problems"] == []
    place.until(lambda: job_image(place) == "v2", "the new job")
    assert open_journals(place) == []


def _pod_names(place: Place) -> Iterator[str]:
    for pod in place.api.list_objects("Pod", place.namespace):
        yield str(pod["metadata"]["name"])


@pytest.mark.slow
def test_concurrent_changes_by_two_services_leave_one_job(served: Served, proxied: Served, place: Place) -> None:
    """One waits for the other or gets 404 or 409; the resulting job is the one of a successful request."""
    path = create_running_job(served, place, job=SLOW)
    proxied.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    answers: dict[str, httpx.Response] = {}
    start = threading.Barrier(2)

    def change(service: Served, tag: str) -> None:
        client = service.own_client()
        document = sent(training("a", job=SLOW, environment=image(tag)))
        start.wait()
        answers[tag] = client.put(path, json=document, params={"confirm": "true"})

    threads = [
        threading.Thread(target=change, args=(service, tag)) for service, tag in ((served, "one"), (proxied, "two"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = {tag: answer.status_code for tag, answer in answers.items()}
    assert 200 in statuses.values(), [answer.text for answer in answers.values()]
    assert set(statuses.values()) <= {200, 404, 409}
    winners = [tag for tag, status in statuses.items() if status == 200]
    assert job_image(place) in winners
    assert open_journals(place) == []


def test_second_of_two_services_that_create_one_job_gets_409(
    served: Served, proxied: Served, proxy: Proxy, place: Place
) -> None:
    """Both have made their plans before either creates the job; the documents are identical."""
    body = sent(training("a"), namespace=place.namespace)
    creates = matching("POST", f"/namespaces/{place.namespace}/jobs", writes=True)
    first: list[dict[str, Any]] = []

    def be_faster() -> None:
        first.append(served.call("POST", "/jobs", status=201, json=body))

    proxy.reset(on(nth(1, creates), meanwhile(be_faster)))
    refused = proxied.call("POST", "/jobs", status=409, json=body)
    assert refused["error"] == "AlreadyExists"
    served.until(
        "/jobs",
        lambda value: [item["jobId"] for item in value["items"]] == [first[0]["jobId"]],
        namespace=place.namespace,
    )


@pytest.mark.slow
def test_unreachable_api_server_returns_503(proxied: Served, proxy: Proxy, place: Place) -> None:
    """Requests fail soon, with an error of the service; a repeated request with an idempotency key creates one job."""
    proxy.reset(on(matching(watch=False), before(lambda: None)))
    body, key = sent(training("a"), namespace=place.namespace), {"Idempotency-Key": place.namespace}
    refused = proxied.call("POST", "/jobs", status=503, json=body, headers=key)
    assert refused["error"] == "Unreachable"
    batch = proxied.call("POST", "/jobs/batch", status=201, json={"yamlContents": [body["yamlContent"]] * 3})
    assert [item["error"] for item in batch["failed"]] == ["Unreachable"] * 3
    proxy.reset()
    made = proxied.call("POST", "/jobs", status=201, json=body, headers=key)
    assert proxied.call("POST", "/jobs", status=201, json=body, headers=key) == made


@pytest.mark.slow
def test_concurrent_changes_of_a_caller_are_limited(proxied: Served, proxy: Proxy, place: Place) -> None:
    """A caller has at most twelve changes at a time; further ones get 429, and lists are still answered."""
    body = sent(training("a"), namespace=place.namespace, dryRun=False)
    # No change proceeds until all requests have arrived.
    statuses: list[int] = []
    refused = threading.Event()
    secrets = matching("GET", f"/namespaces/{place.namespace}/secrets")
    proxy.reset(on(secrets, meanwhile(lambda: refused.wait(120))))

    def create() -> None:
        statuses.append(proxied.own_client().post("/jobs", json=body).status_code)

    threads = [threading.Thread(target=create) for _ in range(24)]
    for thread in threads:
        thread.start()
    assert proxied.get("/jobs", namespace=place.namespace)["total"] == 0
    place.until(lambda: statuses.count(429) == 12, "the refusals")
    refused.set()
    for thread in threads:
        thread.join()
    assert statuses.count(201) == 1
    assert statuses.count(409) == 11
    assert statuses.count(429) == 12


def test_audit_is_written_to_a_private_file(proxied: Served, place: Place, tmp_path: Path) -> None:
    proxied.call("POST", "/jobs", status=201, json=sent(training("a"), namespace=place.namespace))
    path = tmp_path / "proxied" / "audit.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines() if place.namespace in line]
    for line in found:
        assert line.keys() == {"time", "caller", "action", "objects", "result", "requestId", "write"}
    assert [(line["caller"], line["result"]) for line in found] == [("admin", "begun"), ("admin", "201")]
    assert found[0]["write"] == found[1]["write"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert not any('"audit"' in line for line in proxied.log)


@pytest.mark.slow
def test_change_completes_after_the_api_server_restarts(
    proxied: Served, proxy: Proxy, plane: ControlPlane, place: Place
) -> None:
    """The API server is killed after the old job was deleted and before the new one is created."""
    path = create_running_job(proxied, place)
    body = sent(training("a", **CHANGED))
    asked, back = threading.Event(), threading.Event()
    answers: list[httpx.Response] = []

    def hold() -> None:
        asked.set()
        back.wait(120)

    def change() -> None:
        answers.append(proxied.own_client().put(path, json=body, params={"confirm": "true"}, timeout=300))

    creates = matching("POST", f"/namespaces/{place.namespace}/jobs", writes=True)
    proxy.reset(on(nth(1, creates), before(hold)))
    thread = threading.Thread(target=change)
    thread.start()
    assert asked.wait(60)
    # Not from the proxy: a process ends with the thread that started it.
    plane.stop_api_server(kill=True)
    back.set()
    plane.start_api_server()
    plane.restart_controllers()
    thread.join()
    assert (answers[0].status_code, job_image(place)) == (200, "v2"), answers[0].text
    assert open_journals(place) == []

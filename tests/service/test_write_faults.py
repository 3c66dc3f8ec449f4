"""Changes that are broken off: by a client that hangs up, by the service's end, by an API server that is away; and two
services that change the same at once. Nothing is lost, and what is left is finished by whoever comes next."""

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
def frail(proxy: Proxy, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Served]:
    """A service behind the proxy, which may be ended in any way; its parameter is how long it waits for changes."""
    directory = tmp_path / "frail"
    directory.mkdir()
    kubeconfig = proxy.kubeconfig(directory / "kubeconfig")
    audit = str(directory / "audit.jsonl")
    patience = getattr(request, "param", "4")
    with serving(directory, kubeconfig, ADMIN, shutdown_timeout=patience, audit=audit) as running:  # type: ignore[arg-type]
        yield running


def images(place: Place, kind: str = "Job", name: str = "a") -> str:
    """The image of a job's pods."""
    return str(place.get(kind, name)["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2]


def journals(place: Place) -> list[str]:
    """What changes that are not finished have left."""
    return [name for name in place.objects(("Secret", "Lease")) if "gpuctl" in name]


def created(service: Served, place: Place, **changes: Any) -> str:
    """The path of a job that runs."""
    made = service.call("POST", "/jobs", status=201, json=sent(training("a", **changes), namespace=place.namespace))
    place.running("a")
    return f"/jobs/{made['jobId']}"


def kill_in_the_middle(service: Served, proxy: Proxy, place: Place) -> None:
    """Kill the service when it has deleted the old job and is about to create the new one."""
    path = created(service, place)
    creates = matching("POST", f"/namespaces/{place.namespace}/jobs", writes=True)
    proxy.reset(on(creates, before(service.process.kill)))
    with pytest.raises(httpx.TransportError):
        service.client().put(path, json=sent(training("a", **CHANGED)), params={"confirm": "true"})
    assert service.process.wait(timeout=60) == -signal.SIGKILL
    proxy.drain()
    assert not place.exists("Job", "a")
    assert journals(place)


def test_the_audit_of_a_killed_service_has_what_it_had_begun(
    frail: Served, proxy: Proxy, place: Place, plane: ControlPlane, tmp_path: Path
) -> None:
    """With the objects; the next service answers it as interrupted."""
    kill_in_the_middle(frail, proxy, place)
    log = tmp_path / "frail" / "audit.jsonl"
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


def test_another_service_finishes_what_a_killed_one_left(
    served: Served, frail: Served, proxy: Proxy, place: Place
) -> None:
    kill_in_the_middle(frail, proxy, place)
    query = {"namespace": place.namespace}
    found = served.call("GET", "/recoveries", params=query)
    assert [(step["action"], step["name"]) for step in found["planned"]] == [("create", "a")]
    refused = served.call("POST", "/recoveries", status=409, params=query)
    assert refused["error"] == "NotConfirmed"
    assert refused["details"] == [{"message": question} for question in found["questions"]]
    done = served.call("POST", "/recoveries", params={**query, "confirm": "true"})
    assert [(item["name"], item["outcome"]) for item in done["recovered"]] == [("a", "new")]
    assert images(place) == "v2"
    assert journals(place) == []
    assert served.call("GET", "/recoveries", params=query)["planned"] == []


@pytest.mark.slow
def test_the_command_line_finishes_it_too(frail: Served, proxy: Proxy, place: Place) -> None:
    kill_in_the_middle(frail, proxy, place)
    place.gpuctl("recover", "--yes")
    assert images(place) == "v2"
    assert journals(place) == []


@pytest.mark.slow
def test_and_so_does_who_has_no_kubeconfig(frail: Served, proxy: Proxy, place: Place, remote: Remote) -> None:
    """What is created is shown whole and asked first, as with a kubeconfig."""
    kill_in_the_middle(frail, proxy, place)
    remote.login()
    for words in (("--dry-run",), ("--dry-run", "-o", "json"), (), ("-o", "json")):
        code = 0 if "--dry-run" in words else 2
        said = remote.same("recover", *words, code=code)
        assert "v2" in said.out + said.err
    remote.typed("recover", "--yes", "-n", place.namespace)
    assert images(place) == "v2"
    assert journals(place) == []


@pytest.mark.slow
def test_so_does_the_next_change_of_the_namespace(served: Served, frail: Served, proxy: Proxy, place: Place) -> None:
    """It asks first: the creation is another's wish."""
    kill_in_the_middle(frail, proxy, place)
    body = sent(training("b"), namespace=place.namespace)
    assert served.call("POST", "/jobs", status=409, json=body)["error"] == "NotConfirmed"
    served.call("POST", "/jobs", status=201, json=body, params={"confirm": "true"})
    assert images(place) == "v2"
    assert journals(place) == []


def test_a_client_that_hangs_up_ends_nothing(frail: Served, proxy: Proxy, place: Place) -> None:
    path = created(frail, place, job=SLOW)
    deletes = matching("DELETE", f"/namespaces/{place.namespace}/jobs/a", writes=True)
    begun = threading.Event()
    proxy.reset(on(deletes, meanwhile(begun.set)))
    connection = http.client.HTTPConnection(urlsplit(frail.url).netloc, timeout=60)
    headers = {"Authorization": f"Bearer {frail.tokens['admin']}", "Content-Type": "application/json"}
    body = json.dumps(sent(training("a", job=SLOW, **CHANGED)))
    connection.request("PUT", f"/api/v1{path}?confirm=true", body, headers)
    assert begun.wait(60)
    connection.close()
    place.until(lambda: place.exists("Job", "a") and images(place) == "v2", "the new job")
    place.until(lambda: journals(place) == [], "the journal to go")


@pytest.mark.slow
@pytest.mark.parametrize("frail", ["60"], indirect=True)
def test_the_service_waits_for_a_change_when_it_ends(frail: Served, proxy: Proxy, place: Place) -> None:
    """The pods take three seconds to end, and the service may take longer; nothing new is begun meanwhile."""
    path = created(frail, place, job=SLOW)
    answers: list[httpx.Response] = []
    document = sent(training("a", job=SLOW, **CHANGED))
    deletes = matching("DELETE", f"/namespaces/{place.namespace}/jobs/a", writes=True)
    begun = threading.Event()
    proxy.reset(on(deletes, meanwhile(begun.set)))

    def change() -> None:
        answers.append(frail.own_client().put(path, json=document, params={"confirm": "true"}))

    thread = threading.Thread(target=change)
    thread.start()
    assert begun.wait(60)
    frail.process.terminate()
    # Whoever is impatient says it again, which ends nothing earlier: what was taken apart is put together.
    for _ in range(3):
        thread.join(0.3)
        frail.process.terminate()
    thread.join()
    assert (answers[0].status_code, answers[0].json()["status"]) == (200, "replaced"), answers[0].text
    assert frail.process.wait(timeout=60) == 0
    assert images(place) == "v2"
    assert journals(place) == []


@pytest.mark.slow
def test_what_takes_longer_is_left_to_be_finished(
    served: Served, frail: Served, proxy: Proxy, plane: ControlPlane, place: Place
) -> None:
    """The pods do not end at all: after its time the service is gone, and says that something is left."""
    path = created(frail, place, job=STUCK)
    document = sent(training("a", job=STUCK, **CHANGED))
    deletes = matching("DELETE", f"/namespaces/{place.namespace}/jobs/a", writes=True)
    begun = threading.Event()
    proxy.reset(on(deletes, meanwhile(begun.set)))

    def change() -> None:
        with contextlib.suppress(httpx.TransportError):
            frail.own_client().put(path, json=document, params={"confirm": "true"})

    thread = threading.Thread(target=change)
    thread.start()
    assert begun.wait(60)
    frail.process.terminate()
    assert frail.process.wait(timeout=60) == 1
    thread.join()
    assert frail.until_told("gpuctl recover")
    assert journals(place)
    for pod in place.pods("a") or list(_leaving(place)):
        plane.annotate(place.namespace, pod, termination=None)
    done = served.call("POST", "/recoveries", params={"namespace": place.namespace, "confirm": "true"})
    assert done["problems"] == []
    place.until(lambda: images(place) == "v2", "the new job")
    assert journals(place) == []


def _leaving(place: Place) -> Iterator[str]:
    for pod in place.api.list_objects("Pod", place.namespace):
        yield str(pod["metadata"]["name"])


@pytest.mark.slow
def test_two_services_that_change_the_same_at_once(served: Served, frail: Served, place: Place) -> None:
    """One waits for the other, or is told that the job was changed; what is there is what one of them asked for."""
    path = created(served, place, job=SLOW)
    frail.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    answers: dict[str, httpx.Response] = {}
    start = threading.Barrier(2)

    def change(service: Served, tag: str) -> None:
        client = service.own_client()
        document = sent(training("a", job=SLOW, environment=image(tag)))
        start.wait()
        answers[tag] = client.put(path, json=document, params={"confirm": "true"})

    threads = [
        threading.Thread(target=change, args=(service, tag)) for service, tag in ((served, "one"), (frail, "two"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = {tag: answer.status_code for tag, answer in answers.items()}
    assert 200 in statuses.values(), [answer.text for answer in answers.values()]
    assert set(statuses.values()) <= {200, 404, 409}
    winners = [tag for tag, status in statuses.items() if status == 200]
    assert images(place) in winners
    assert journals(place) == []


def test_two_services_that_create_the_same_at_once(served: Served, frail: Served, proxy: Proxy, place: Place) -> None:
    """Both have planned it before either creates: the slower one is told, even of the very same document."""
    body = sent(training("a"), namespace=place.namespace)
    creates = matching("POST", f"/namespaces/{place.namespace}/jobs", writes=True)
    first: list[dict[str, Any]] = []

    def be_faster() -> None:
        first.append(served.call("POST", "/jobs", status=201, json=body))

    proxy.reset(on(nth(1, creates), meanwhile(be_faster)))
    refused = frail.call("POST", "/jobs", status=409, json=body)
    assert refused["error"] == "AlreadyExists"
    served.until(
        "/jobs",
        lambda value: [item["jobId"] for item in value["items"]] == [first[0]["jobId"]],
        namespace=place.namespace,
    )


@pytest.mark.slow
def test_an_api_server_that_is_away_is_said_so(frail: Served, proxy: Proxy, place: Place) -> None:
    """In the service's words, and soon; and a repeated request with a key does it once."""
    proxy.reset(on(matching(watch=False), before(lambda: None)))
    body, key = sent(training("a"), namespace=place.namespace), {"Idempotency-Key": place.namespace}
    refused = frail.call("POST", "/jobs", status=503, json=body, headers=key)
    assert refused["error"] == "Unreachable"
    batch = frail.call("POST", "/jobs/batch", status=201, json={"yamlContents": [body["yamlContent"]] * 3})
    assert [item["error"] for item in batch["failed"]] == ["Unreachable"] * 3
    proxy.reset()
    made = frail.call("POST", "/jobs", status=201, json=body, headers=key)
    assert frail.call("POST", "/jobs", status=201, json=body, headers=key) == made


@pytest.mark.slow
def test_changes_have_a_bound_and_reads_go_on(frail: Served, proxy: Proxy, place: Place) -> None:
    """One caller has twelve at a time; more are refused for now, and the list is answered all the same."""
    body = sent(training("a"), namespace=place.namespace, dryRun=False)
    # Until all have come none of those that are worked on gets any further.
    statuses: list[int] = []
    refused = threading.Event()
    secrets = matching("GET", f"/namespaces/{place.namespace}/secrets")
    proxy.reset(on(secrets, meanwhile(lambda: refused.wait(120))))

    def create() -> None:
        statuses.append(frail.own_client().post("/jobs", json=body).status_code)

    threads = [threading.Thread(target=create) for _ in range(24)]
    for thread in threads:
        thread.start()
    assert frail.get("/jobs", namespace=place.namespace)["total"] == 0
    place.until(lambda: statuses.count(429) == 12, "the refusals")
    refused.set()
    for thread in threads:
        thread.join()
    assert statuses.count(201) == 1
    assert statuses.count(409) == 11
    assert statuses.count(429) == 12


def test_the_audit_goes_to_a_file(frail: Served, place: Place, tmp_path: Path) -> None:
    """Which only its owner reads; the log has nothing of it."""
    frail.call("POST", "/jobs", status=201, json=sent(training("a"), namespace=place.namespace))
    path = tmp_path / "frail" / "audit.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines() if place.namespace in line]
    for line in found:
        assert line.keys() == {"time", "caller", "action", "objects", "result", "requestId", "write"}
    assert [(line["caller"], line["result"]) for line in found] == [("admin", "begun"), ("admin", "201")]
    assert found[0]["write"] == found[1]["write"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert not any('"audit"' in line for line in frail.log)


@pytest.mark.slow
def test_the_api_server_is_killed_in_the_middle(frail: Served, proxy: Proxy, plane: ControlPlane, place: Place) -> None:
    """When the old job is gone, and before the new one is there: the service waits for it to come back."""
    path = created(frail, place)
    body = sent(training("a", **CHANGED))
    asked, back = threading.Event(), threading.Event()
    answers: list[httpx.Response] = []

    def hold() -> None:
        asked.set()
        back.wait(120)

    def change() -> None:
        answers.append(frail.own_client().put(path, json=body, params={"confirm": "true"}, timeout=300))

    creates = matching("POST", f"/namespaces/{place.namespace}/jobs", writes=True)
    proxy.reset(on(nth(1, creates), before(hold)))
    thread = threading.Thread(target=change)
    thread.start()
    assert asked.wait(60)
    # Not by the proxy: a program ends with the thread that has started it.
    plane.stop_api_server(kill=True)
    back.set()
    plane.start_api_server()
    plane.restart_controllers()
    thread.join()
    assert (answers[0].status_code, images(place)) == (200, "v2"), answers[0].text
    assert journals(place) == []

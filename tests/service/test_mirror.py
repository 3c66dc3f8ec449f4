"""The service's copy of the cluster state: odd objects, revoked rights, and failures of the API server."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from control_plane import ControlPlane
from fault_tools.proxy import Exchange, Proxy, html, in_front_of, matching, on, refuse, respond, truncate
from support.cluster_tools import Place, inference, training
from support.served import Served, serving

LIST_PODS = matching("GET", "/api/v1/pods", watch=False)
SERVICES = matching("GET", "/api/v1/services")
Object = dict[str, Any]


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy between the service and the API server."""
    with in_front_of(plane) as running:
        yield running


@pytest.fixture(scope="module")
def proxied_service(proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that reaches its cluster through the proxy."""
    directory = tmp_path_factory.mktemp("behind")
    kubeconfig = proxy.kubeconfig(directory / "kubeconfig")
    with serving(
        directory, kubeconfig, {"admin": ("admin", None, None), "slow": ("admin", None, None)}, mirror_again="0.5"
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def reset_proxy(proxy: Proxy) -> None:
    """Reset the proxy, which a failed test leaves configured."""
    proxy.reset(None)


def ready(served: Served) -> Object:
    token = {"Authorization": f"Bearer {served.tokens['admin']}"}
    value: Object = httpx.get(f"{served.url}/readyz", headers=token, timeout=30).json()
    return value


def changed(change: Callable[[Object], None], name: str) -> Callable[[Exchange], None]:
    """Return a proxy action that forwards an answer with the pods of one job changed."""

    def act(exchange: Exchange) -> None:
        response = exchange.forward()
        packed = response.header("Content-Encoding") == "gzip"
        value = json.loads(gzip.decompress(response.body) if packed else response.body)
        for item in value["items"]:
            if item["metadata"].get("labels", {}).get("app") == name:
                change(item)
        response.headers = [item for item in response.headers if item[0].lower() != "content-encoding"]
        response.body = json.dumps(value).encode()
        exchange.answer(response)

    return act


def odd(pod: Object) -> None:
    """Make a pod malformed in one of four ways."""
    way = int(pod["metadata"]["resourceVersion"]) % 4
    if way == 0:
        pod["metadata"]["labels"]["app"] = 5
    elif way == 1:
        pod["spec"]["containers"] = "none"
    elif way == 2:
        pod["metadata"]["ownerReferences"] = {"kind": "Job"}
    else:
        pod["status"] = ["x"]


def test_malformed_objects_are_left_out(plane: ControlPlane, place: Place, proxy: Proxy, tmp_path: Path) -> None:
    """A malformed object does not fail the list; `/readyz` reports the number of objects left out."""
    bare = {"spec": {}, "status": None}
    place.apply(inference("odd", service={"replicas": 4}), inference("bare"), training("fine"))
    place.running("odd", pods=4)
    place.running("bare", "fine")

    def act(exchange: Exchange) -> None:
        changed(odd, "odd")(exchange)

    def strip(exchange: Exchange) -> None:
        changed(lambda pod: pod.update(bare), "bare")(exchange)

    for action, left_out, name in ((act, 4, "odd"), (strip, 0, "bare")):
        proxy.reset(on(LIST_PODS, action))
        directory = tmp_path / name
        directory.mkdir()
        users = {"admin": ("admin", None, None)}
        with serving(directory, proxy.kubeconfig(directory / "kubeconfig"), users) as served:
            assert ready(served)["leftOut"]["objects"] == left_out
            items = served.get("/jobs", namespace=place.namespace)["items"]
            assert {item["name"] for item in items} == {"odd", "bare", "fine"}
            assert served.get("/jobs/fine", namespace=place.namespace)["status"] == "running"
            assert served.client().get(f"/jobs/{name}", params={"namespace": place.namespace}).status_code == 200
            if left_out:
                assert len(served.until_told("a malformed object is left out", count=left_out)) == left_out
    proxy.reset(None)


@pytest.mark.slow
def test_pod_with_ten_thousand_labels_is_listed(place: Place, served: Served) -> None:
    """A pod may have any number of labels, and the name of a job's id."""
    place.apply(inference("chat"))
    place.running("chat")
    found = served.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)["items"][0]
    labels = {f"l-{number}": "x" * 60 for number in range(10_000)}
    place.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": found["jobId"],
                "labels": {**labels, "app": "many", "runwhere.ai/job-type": "training"},
            },
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
    )
    served.until("/jobs", lambda value: value["total"] == 2, namespace=place.namespace)
    assert served.get(f"/jobs/{found['jobId']}")["name"] == "chat"
    assert served.get("/jobs/many", namespace=place.namespace)["pods"][0]["pod"] == found["jobId"]


def test_revoked_rights_are_reported_until_restored(proxied_service: Served, proxy: Proxy, place: Place) -> None:
    """`/readyz` names the resource that cannot be read; others are updated; afterwards nothing is missing."""
    place.apply(inference("before"))
    proxied_service.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    proxy.reset(on(SERVICES, refuse(403, "Forbidden", "services is forbidden: User cannot list resource services")))
    proxy.cut()
    place.until(lambda: not ready(proxied_service)["ready"], "the service to be not ready")
    assert "services" in ready(proxied_service)["problem"]
    place.apply(inference("after"))
    proxied_service.until("/jobs", lambda value: value["total"] == 2, namespace=place.namespace)
    proxy.reset(None)
    place.until(lambda: ready(proxied_service)["ready"], "the service to be ready again")
    proxied_service.until(
        "/jobs/after", lambda value: "service" in (value["yamlContent"] or ""), namespace=place.namespace
    )
    assert ready(proxied_service)["problem"] is None


def test_answers_say_their_age_while_the_cluster_is_not_watched(
    proxied_service: Served, proxy: Proxy, place: Place
) -> None:
    """Readiness stays, so that the Service keeps its endpoints; the metric, `problem`, `Age` and notes tell of it."""
    place.apply(inference("old"))
    proxied_service.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    client, where = proxied_service.client(), {"namespace": place.namespace}

    def mirror_is_watched() -> bool:
        token = {"Authorization": f"Bearer {proxied_service.tokens['admin']}"}
        text = httpx.get(f"{proxied_service.url}/metrics", headers=token, timeout=30).text
        return "gpuctl_server_mirror_ready 1.0" in text

    place.until(mirror_is_watched, "all lists to be watched")
    assert "Age" not in client.get("/jobs", params=where).headers
    assert client.get("/pods", params=where).json()["notes"] == []
    proxy.reset(on(lambda request: True, refuse(503, "ServiceUnavailable", "etcd is away")))
    proxy.cut()
    place.until(lambda: "Age" in client.get("/jobs", params=where).headers, "the answer to be old")
    assert not mirror_is_watched()
    assert ready(proxied_service)["ready"]
    assert ready(proxied_service)["problem"]
    for path in ("/jobs", "/jobs/old", "/pods", "/nodes", "/pools", "/quotas", "/nodes/labels/all"):
        answer = client.get(path, params=where if path in ("/jobs", "/jobs/old", "/pods") else {})
        assert (path, answer.status_code) == (path, 200)
        assert int(answer.headers.get("Age", "999")) < 200, path
    assert "this is its last known state" in client.get("/pods", params=where).json()["notes"][0]
    assert "Age" not in client.get("/audit").headers
    proxy.reset(None)
    place.until(mirror_is_watched, "all lists to be watched again")
    assert ready(proxied_service)["problem"] is None
    assert "Age" not in client.get("/jobs", params=where).headers


FORBIDDEN = (
    'deviceclasses is forbidden: User "service" cannot list resource "deviceclasses" in API group "resource.k8s.io"'
)


@pytest.mark.parametrize(("status", "reason", "is_asked"), [(403, "Forbidden", True), (404, "NotFound", False)])
def test_unreadable_device_classes_do_not_block_readiness(
    proxy: Proxy, tmp_path: Path, status: int, reason: str, is_asked: bool
) -> None:
    """The service is ready nevertheless: older clusters lack the kinds, older roles the rights."""
    proxy.reset(on(lambda request: "resource.k8s.io" in request.path, refuse(status, reason, FORBIDDEN)))
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "kubeconfig"), {"admin": ("admin", None, None)}) as own:
        assert (ready(own)["ready"], ready(own)["problem"]) == (True, None)
        assert own.get("/nodes")["total"] >= 0
        asked = [item for item in proxy.records if item.request.path.endswith("/deviceclasses")]
        lists = [item for item in asked if "watch" not in item.request.query]
        assert (len(lists) > 1) == is_asked, "requests list device classes again, unless the kind does not exist"


@pytest.mark.slow
def test_requests_are_answered_while_the_api_server_is_down(
    proxied_service: Served, proxy: Proxy, place: Place
) -> None:
    """The service answers from its copy while the API server is down; later changes arrive after the restart."""
    place.apply(inference("stays"), inference("goes"))
    place.running("stays", "goes")
    proxied_service.until("/jobs", lambda value: value["total"] == 2, namespace=place.namespace)
    ended, bad, counted = threading.Event(), [], []

    def ask() -> None:
        with httpx.Client(
            base_url=f"{proxied_service.url}/api/v1", headers=proxied_service.client().headers, timeout=60
        ) as client:
            # Without a pause these threads would take the CPU time that the API server needs to start.
            while not ended.wait(0.05):
                for path in ("/jobs", "/jobs/stays"):
                    answer = client.get(path, params={"namespace": place.namespace})
                    (counted if answer.status_code == 200 else bad).append(answer.status_code)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2):
            place.plane.stop_api_server(kill=True)
            before = len(counted)
            place.until(lambda before=before: len(counted) > before + 50, "answers without an API server")
            place.plane.start_api_server()
        place.gpuctl("delete", "job", "goes", "--yes")
        place.apply(inference("comes"))
        proxied_service.until(
            "/jobs",
            lambda value: {item["name"] for item in value["items"]} == {"stays", "comes"},
            namespace=place.namespace,
        )
        # Expired resource versions lead to a new list.
        proxy.reset(on(matching("GET", "/api/v1/pods", watch=True), refuse(410, "Expired", "too old resource version")))
        proxy.cut()
        old = set(place.pods("stays"))
        place.kubectl("delete", "pod", "-l", "app=stays", "--force", "--grace-period=0")
        pods = place.until(lambda: set(place.pods("stays")) - old, "the replacement pod")
        proxy.reset(None)
        proxied_service.until(
            "/jobs/stays", lambda value: set(value["k8sResources"]["pods"]) == pods, namespace=place.namespace
        )
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    assert bad == []
    assert ready(proxied_service)["ready"]


GARBAGE: dict[str, Callable[[Exchange], None]] = {
    "HTML page": html(200),
    "invalid JSON": respond(200, b"\x00\xff not JSON", "application/json"),
    "JSON array": respond(200, b"[1, 2]", "application/json"),
    "items is not a list": respond(200, b'{"kind": "PodList", "items": {"a": 1}}', "application/json"),
    "items are not objects": respond(
        200, b'{"metadata": {"resourceVersion": "1"}, "items": [7, null]}', "application/json"
    ),
    "no resourceVersion": respond(200, b'{"metadata": {}, "items": []}', "application/json"),
    "truncated": truncate(framed=True),
    "status 500": respond(500, b"<html>", "text/html"),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", GARBAGE)
def test_invalid_api_answers_keep_the_known_state(
    proxied_service: Served, proxy: Proxy, place: Place, what: str
) -> None:
    """The service answers from its copy, drops nothing from it, and afterwards nothing is missing."""
    place.apply(inference("stays"))
    pods = set(place.running("stays"))
    proxied_service.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    proxied_service.until(
        "/jobs/stays", lambda value: set(value["k8sResources"]["pods"]) == pods, namespace=place.namespace
    )
    proxy.reset(on(lambda request: request.method == "GET", GARBAGE[what]))
    proxy.cut()
    count = len(proxy.records)
    place.until(lambda: len(proxy.records) > count + 25, "the service to retry")
    assert set(proxied_service.get("/jobs/stays", namespace=place.namespace)["k8sResources"]["pods"]) == pods
    assert httpx.get(f"{proxied_service.url}/healthz", timeout=30).status_code == 200
    place.apply(inference("comes"))
    proxy.reset(None)
    proxied_service.until("/jobs", lambda value: value["total"] == 2, namespace=place.namespace)
    place.until(lambda: ready(proxied_service)["ready"], "the service to be ready")
    assert not any("Traceback" in line for line in proxied_service.log)


@pytest.mark.slow
def test_slow_api_server_delays_only_requests_that_need_it(proxied_service: Served, proxy: Proxy, place: Place) -> None:
    """Answers from the copy are as fast as ever; requests that need the API server wait, and block no others."""
    place.apply(inference("stays"))
    place.running("stays")
    proxied_service.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)
    release, held = threading.Event(), threading.Event()

    def late(exchange: Exchange) -> None:
        held.set()
        release.wait(60)
        exchange.pass_on()

    proxy.reset(on(lambda request: True, late))
    proxy.cut()
    answers: list[int] = []
    where = {"namespace": place.namespace}

    def ask() -> None:
        answers.append(proxied_service.own_client("slow").get("/jobs/stays/why", params=where).status_code)

    # More than one caller may have running at a time.
    threads = [threading.Thread(target=ask) for _ in range(50)]
    for thread in threads:
        thread.start()
    try:
        assert held.wait(60)
        client = proxied_service.own_client()
        for _ in range(20):
            for path, own in (("/jobs", where), ("/jobs/stays", where), ("/nodes", {}), ("/pools", {})):
                assert client.get(path, params=own, timeout=20).status_code == 200
        assert ready(proxied_service)["ready"]
        assert answers == []
    finally:
        release.set()
        for thread in threads:
            thread.join()
        proxy.reset(None)
    assert answers == [200] * 50


@pytest.mark.slow
def test_shutdown_answers_waiting_requests_at_once(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """A waiting request gets 503 at once, and does not delay the shutdown."""
    place.apply(training("stuck", resources={"gpu": 900}))
    answers: list[tuple[int, str]] = []
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}, shutdown_timeout="60") as running:
        running.until("/jobs", lambda value: value["total"] == 1, namespace=place.namespace)

        def wait() -> None:
            body, where = {"condition": "running", "timeout": 60}, {"namespace": place.namespace}
            answer = running.client().post("/jobs/stuck/wait", json=body, params=where)
            answers.append((answer.status_code, answer.json()["error"]))

        def watches() -> bool:
            text = plane.kubectl("get", "--raw", "/metrics")
            counted = [line for line in text.splitlines() if line.startswith("apiserver_longrunning_requests{")]
            mine = [line for line in counted if 'resource="deployments"' in line and 'scope="namespace"' in line]
            return any(float(line.rpartition(" ")[2]) > 0 for line in mine)

        thread = threading.Thread(target=wait)
        thread.start()
        place.until(watches, "the watches of the waiting request")
        running.process.terminate()
        thread.join(50)
        assert not thread.is_alive()
        running.process.wait(timeout=50)
    assert answers == [(503, "ServiceUnavailable")]

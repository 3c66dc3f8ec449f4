"""A caller cannot infer objects they may not see: not from numbers, names or status codes, nor from requests to the
cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, in_front_of
from gpuctl_server.access.tokens import TokenEntry, read_tokens, write_tokens
from support.cluster_tools import Place, fresh_namespaces, training
from support.documents_sent import sent, text_of
from support.remote import Remote
from support.served import Served, serving

POOL, OTHER_POOL = "own-pool", "foreign-pool"
OWN, FOREIGN = "own-place", "foreign-place"
USERS = {
    "admin": ("admin", None, None),
    "local": ("admin", (OWN,), None),
    "twice": ("admin", (OWN, "own-too"), None),
    "pooled": ("admin", None, (POOL,)),
    "user": ("user", (OWN,), (POOL,)),
}
_NUMBERS = count()
THERE, ABSENT = "job-there", "job-absnt"
"""Of equal length, so that texts about them are equal."""


@pytest.fixture(scope="module")
def proxy(plane: ControlPlane) -> Iterator[Proxy]:
    """A proxy between the service and the API server."""
    with in_front_of(plane) as running:
        yield running


@pytest.fixture(scope="module")
def proxied_service(plane: ControlPlane, proxy: Proxy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A service that reaches its cluster through the proxy, and foreign jobs that hold all GPUs of a pool."""
    directory = tmp_path_factory.mktemp("inferred")
    fresh_namespaces(plane, OWN, FOREIGN)
    for number, pool in enumerate((POOL, POOL, OTHER_POOL)):
        plane.add_node(f"inferred-{number}", gpus=8, cpu="64", memory="256Gi", labels={"runwhere.ai/pool": pool})
    with serving(directory, proxy.kubeconfig(directory / "kubeconfig"), USERS) as served:  # type: ignore[arg-type]
        held = [job(f"held-{number}", FOREIGN, gpu=4, priority="low") for number in range(4)]
        served.call("POST", "/jobs", status=201, json=sent(job(THERE, FOREIGN), *held, job("mine", OWN)))
        served.call("POST", "/quotas", status=201, json={"name": "q", "users": {FOREIGN: {"cpu": 900}}})
        served.until(
            "/jobs", lambda value: [item["status"] for item in value["items"]] == ["running"] * 5, namespace=FOREIGN
        )
        _wait_until_quiet(proxy)
        yield served
    plane.kubectl("delete", "namespace", OWN, FOREIGN, "--wait=false")
    plane.kubectl("delete", "node", *(f"inferred-{number}" for number in range(3)), "--wait=false")


def _wait_until_quiet(proxy: Proxy) -> None:
    """Wait until the service sends no more requests: it reads the progress of jobs from logs in the background."""
    end = time.monotonic() + 60
    while True:
        proxy.reset()
        time.sleep(0.5)
        if all(item.request.is_watch for item in proxy.records):
            return
        assert time.monotonic() < end, proxy.records


def job(name: str, namespace: str, *, gpu: int = 0, priority: str = "medium", **changes: Any) -> dict[str, Any]:
    own = {"name": name, "namespace": namespace, "priority": priority}
    return training(name, job=own, resources={"pool": POOL, "gpu": gpu}, **changes)


Ask = Callable[[str], tuple[str, str, dict[str, Any]]]


def at(method: str, path: str, **rest: Any) -> Ask:
    return lambda name: (method, path.format(name), rest)


def documents(path: str, namespace: str = FOREIGN, **body: Any) -> Ask:
    return lambda name: ("POST", path, {"json": sent(job(name, namespace), **body)})


LOGS_AS_EVENTS = {"params": {"follow": "true"}, "headers": {"Accept": "text/event-stream"}}
JOBS: dict[str, Ask] = {
    "detail": at("GET", "/jobs/{}"),
    "detail in its namespace": at("GET", "/jobs/{}", params={"namespace": FOREIGN}),
    "why": at("GET", "/jobs/{}/why"),
    "details": at("GET", "/jobs/{}/details"),
    "pods": at("GET", "/pods?names={}"),
    "timeline": at("GET", "/jobs/{}/timeline"),
    "wait": at("POST", "/jobs/{}/wait", json={"condition": "ready", "timeout": 0}),
    "wait until it is gone": at("POST", "/jobs/{}/wait", json={"condition": "deleted", "timeout": 0}),
    "wait until several are gone": at(
        "POST", "/jobs/wait", json={"jobs": [{"job": "{}"}], "condition": "deleted", "timeout": 0}
    ),
    "logs": at("GET", "/jobs/{}/logs"),
    "logs of a pod": at("GET", "/jobs/{}-x/logs"),
    "followed logs": at("GET", "/jobs/{}/logs", **LOGS_AS_EVENTS),
    "metrics": at("GET", "/jobs/{}/metrics"),
    "update": lambda name: ("PUT", f"/jobs/{name}", {"json": sent(job(name, OWN))}),
    "delete": at("DELETE", "/jobs/{}"),
    "pause": at("POST", "/jobs/{}/pause"),
    "resume": at("POST", "/jobs/{}/resume"),
    "rerun": at("POST", "/jobs/{}/rerun"),
    "run": at("POST", "/jobs/{}/run"),
    "create": documents("/jobs"),
    "dry run of a creation": documents("/jobs", dryRun=True),
    "create together with an own job": lambda name: (
        "POST",
        "/jobs",
        {"json": sent(job("mine-too", OWN), job(name, FOREIGN))},
    ),
    "create in a batch": lambda name: (
        "POST",
        "/jobs/batch",
        {"json": {"yamlContents": [text_of(job(name, FOREIGN))]}},
    ),
    "create with an idempotency key": lambda name: (
        "POST",
        "/jobs",
        {"json": sent(job(name, FOREIGN)), "headers": {"Idempotency-Key": "k"}},
    ),
    "plan": documents("/plan"),
    "fit": documents("/fit"),
}
OTHERS: dict[str, tuple[str, Ask, str, str]] = {
    "a quota": ("user", at("GET", "/quotas/{}"), FOREIGN, "absent"),
    "deletion of a quota": ("local", at("DELETE", "/quotas/{}"), FOREIGN, "absent"),
    "a namespace": ("user", at("GET", "/jobs?namespace={}"), FOREIGN, "absent"),
    "recoveries of a namespace": ("local", at("GET", "/recoveries?namespace={}"), FOREIGN, "absent"),
    "a pool": ("user", at("GET", "/pools/{}"), OTHER_POOL, "absent-pool"),
    "nodes of a pool": ("user", at("GET", "/nodes?pool={}"), OTHER_POOL, "absent-pool"),
    "a node": ("user", at("GET", "/nodes/{}"), "inferred-2", "inferred-9"),
    "labels of a node": ("user", at("GET", "/nodes/{}/labels"), "inferred-2", "inferred-9"),
    "a label of a node": ("user", at("GET", "/nodes/{}/labels/a"), "inferred-2", "inferred-9"),
    "deletion of a label": ("pooled", at("DELETE", "/nodes/{}/labels/a"), "inferred-2", "inferred-9"),
    "a pool with a node": (
        "pooled",
        lambda name: ("POST", "/pools", {"json": {"name": POOL, "nodes": [name]}}),
        "inferred-2",
        "inferred-9",
    ),
}


def asked(
    proxy: Proxy, served: Served, who: str, ask: Ask, name: str, but: tuple[str, ...] = ("/deviceclasses",)
) -> tuple[int, str, list[str]]:
    """Return status, body without the name, and the requests sent to the cluster, except paths that end with `but`."""
    method, path, rest = ask(name)
    rest = {key: json.loads(json.dumps(value).replace("{}", name)) for key, value in rest.items()}
    proxy.reset()
    response = served.client(who).request(method, path, **rest)
    # After any change in the cluster, the next request of any kind reads the nodes again.
    requests = sorted(
        f"{item.request.method} {item.request.path}".replace(name, "NAME")
        for item in list(proxy.records)
        if not item.request.is_watch and not item.request.path.endswith(but)
    )
    return response.status_code, response.text.replace(name, "NAME"), requests


@pytest.mark.parametrize("case", JOBS)
def test_foreign_job_is_indistinguishable_from_a_missing_one(proxy: Proxy, proxied_service: Served, case: str) -> None:
    """The same status, the same text, and the same requests to the cluster."""
    there, absent = (asked(proxy, proxied_service, "user", JOBS[case], name, but=()) for name in (THERE, ABSENT))
    assert there == absent
    assert there[0] in {201 if "batch" in case else 404, 403, *([200] if "gone" in case else [])}, there
    # A deleted job may run again: its history is read from the caller's own namespaces.
    elsewhere = [text for text in there[2] if case != "rerun" or f"/namespaces/{OWN}/" not in text]
    assert elsewhere == [], "no request to the cluster"


@pytest.mark.parametrize("case", OTHERS)
def test_foreign_objects_are_indistinguishable_from_missing_ones(
    proxy: Proxy, proxied_service: Served, case: str
) -> None:
    who, ask, name, absent = OTHERS[case]
    there, not_there = (asked(proxy, proxied_service, who, ask, one) for one in (name, absent))
    assert there == not_there
    assert there[0] in {403, 404}


def test_followed_foreign_log_is_indistinguishable_from_a_missing_one(proxy: Proxy, proxied_service: Served) -> None:
    """The rejection of a WebSocket is the same too."""
    answers = []
    for name in (THERE, ABSENT):
        where = f"{proxied_service.url}/api/v1/jobs/{name}/logs?follow=true".replace("http", "ws", 1)
        proxy.reset()
        with (
            pytest.raises(InvalidStatus) as caught,
            connect(where, additional_headers={"Authorization": f"Bearer {proxied_service.tokens['user']}"}),
        ):
            pass
        answer = caught.value.response
        answers.append((answer.status_code, (answer.body or b"").replace(name.encode(), b"NAME"), proxy.count()))
    assert answers[0] == answers[1]
    assert (answers[0][0], answers[0][2]) == (404, 0)


def test_foreign_holders_of_a_pool_are_one_sum_without_names(
    proxied_service: Served, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPUs held by other namespaces are one sum; the number of jobs or pods and their names stay hidden."""
    # If the test is repeated, the job of the first run still exists.
    name = f"wanted-{next(_NUMBERS)}"
    wanted = job(name, OWN, gpu=8, priority="low")
    fit = proxied_service.call("POST", "/fit", "user", json=sent(wanted))
    (held,) = fit["jobs"][0]["heldBy"]
    assert held == {"namespace": "(others)", "job": "(others)", "priority": None, "pods": None, "nvidia.com/gpu": 16}
    seen = proxied_service.call("POST", "/fit", json=sent(wanted))["jobs"][0]
    assert [item["job"] for item in seen["heldBy"]] == [f"Job/held-{number}" for number in range(4)]
    made = proxied_service.call("POST", "/jobs", "user", status=201, json=sent(wanted))
    why = proxied_service.until(f"/jobs/{made['jobId']}/why", lambda value: value["cause"] == "gpu-shortage", "user")
    assert why["numbers"]["heldBy"] == [
        {**{key: held[key] for key in ("namespace", "job", "pods")}, "nvidia.com/gpu": 16}
    ]
    told = [fit, why, proxied_service.get(f"/jobs/{made['jobId']}/details", "user")]
    urgent = sent(job("urgent", OWN, gpu=8, priority="high"))
    plan = proxied_service.call("POST", "/plan", "user", json=urgent)
    (victim,) = [item for step in plan["steps"] for item in step["victims"]]
    assert {key: victim[key] for key in ("namespace", "job", "pods")} == {"namespace": None, "job": None, "pods": []}
    (question,) = plan["questions"]
    assert question.startswith("training/urgent in own-place evicts work in other namespaces (running for")
    remote = Remote(place, proxied_service, tmp_path / "config", monkeypatch)
    remote.login("user")
    lines = []
    for other, priority in (("waits", "low"), ("urgent", "high")):
        path = tmp_path / f"{other}.yaml"
        path.write_text(text_of(job(other, OWN, gpu=8, priority=priority)))
        lines += remote.typed("fit", "-f", str(path), code=None).out.splitlines()
        told.append(json.loads(remote.typed("fit", "-f", str(path), "-o", "json", code=None).out))
    assert "  nvidia.com/gpu on nodes open to it held by: work in other namespaces 16" in lines
    assert lines.count("  evicts: work in other namespaces") == 1
    for answer in (*told, plan, lines):
        text = json.dumps(answer)
        assert not [word for word in ("held-", FOREIGN, "hidden") if word in text], text
    proxied_service.call("DELETE", f"/jobs/{made['jobId']}", "user")


def test_recoveries_are_searched_only_in_own_namespaces(proxy: Proxy, proxied_service: Served) -> None:
    """A token of one namespace searches only that one; a token of several must name one in the request."""
    for method in ("GET", "POST"):
        proxy.reset()
        proxied_service.call(method, "/recoveries", "local")
        paths = {item.request.path for item in proxy.records if not item.request.is_watch}
        assert paths
        assert all(f"/namespaces/{OWN}/" in path for path in paths), paths
        proxy.reset()
        refused = proxied_service.call(method, "/recoveries", "twice", status=403)
        assert refused["message"] == "name one of your namespaces with `namespace=NAMESPACE`"
        command_line = {"User-Agent": "gpuctl/0.1.0"}
        refused = proxied_service.call(method, "/recoveries", "twice", status=403, headers=command_line)
        assert refused["message"] == "name one of your namespaces with -n NAMESPACE"
        assert proxy.count() == 0


def test_hidden_namespace_is_not_suggested(plane: ControlPlane, served: Served) -> None:
    """The namespace of nora does not exist; one with a similar name does."""
    fresh_namespaces(plane, "not-here")
    for user, suggested in (("admin", True), ("nora", False)):
        plan = served.call("POST", "/plan?namespace=not-there", user, json=sent(training("lost")))
        (error,) = plan["errors"]
        assert error.startswith("there is no namespace not-there, and no document names it: ")
        assert ("did you mean `not-here`?" in error) is suggested
    plane.kubectl("delete", "namespace", "not-here", "--wait=false")


def test_idempotency_keys_belong_to_their_sender(plane: ControlPlane, tmp_path: Path) -> None:
    """The key of another user has no effect; nor has the user's own key from a namespace that the token no longer
    includes.
    """
    key = {"Idempotency-Key": "one-key"}
    fresh_namespaces(plane, "keys-a", "keys-b")
    users = {"anna": ("user", ("keys-a",), None), "admin": ("admin", None, None)}
    path = tmp_path / "tokens.json"
    with serving(tmp_path, plane.kubeconfig(), users) as own:  # type: ignore[arg-type]
        body = sent(training("keyed"), namespace="keys-a")
        made = own.call("POST", "/jobs", "anna", status=201, json=body, headers=key)
        assert own.call("POST", "/jobs", "anna", status=201, json=body, headers=key)["jobId"] == made["jobId"]
        assert own.call("POST", "/jobs", status=409, json=body, headers=key)["error"] == "AlreadyExists"
        other = sent(training("other"), namespace="keys-b")
        assert own.call("POST", "/jobs", "anna", status=403, json=other, headers=key)["error"] == "Forbidden"
        write_tokens(path, [_with_other_namespace(entry) for entry in read_tokens(path)])
        again = own.call("POST", "/jobs", "anna", status=201, json=other, headers=key)
        assert again["name"] == "other"
        own.call("POST", "/jobs", "anna", status=403, json=body, headers=key)
    plane.kubectl("delete", "namespace", "keys-a", "keys-b", "--wait=false")


def _with_other_namespace(entry: TokenEntry) -> TokenEntry:
    """Return the token with another namespace if it is that of anna."""
    return entry if entry.name != "anna" else entry.model_copy(update={"namespaces": ("keys-b",)})


def test_cluster_wide_counts_need_access_to_all_namespaces(proxied_service: Served) -> None:
    """Counts of the whole cluster are returned only to users who see all of it."""
    address = f"{proxied_service.url}/readyz"
    told = httpx.get(address).json()
    assert told.keys() == {"ready", "heardSecondsAgo"}
    # In full minutes: seconds would tell of each change of a hidden object.
    assert told["heardSecondsAgo"] % 60 == 0
    for name, sees_all in (("user", False), ("local", False), ("admin", True), ("pooled", False)):
        token = {"Authorization": f"Bearer {proxied_service.tokens[name]}"}
        assert ("objects" in httpx.get(address, headers=token).json()) is sees_all
        measures = httpx.get(f"{proxied_service.url}/metrics", headers=token)
        assert measures.status_code == (200 if sees_all else 403)
        assert ("gpuctl_server_mirror_objects" in measures.text) is sees_all
    assert httpx.get(address, headers={"Authorization": "Bearer x"}).status_code == 401

"""The Python SDK where it needs no cluster: what is sent again, what errors say, what nobody gets to see."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx
import pytest
import sdk
import yaml
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from gpuctl_sdk import (
    NEVER,
    AsyncClient,
    Client,
    Forbidden,
    JobEnded,
    LogLine,
    NotFound,
    Retrying,
    ServiceError,
    TimedOut,
    UnexpectedAnswer,
    Unreachable,
)
from gpuctl_sdk.documents import as_yaml
from gpuctl_sdk.following import LogPlace, LogWish
from support.locked_releases import with_locked_releases

TOKEN = "gpuctl_very-secret-token"
SOON = Retrying(attempts=4, pause=0.001, longest=0.002)
JOB = {"jobId": "a-1", "status": "paused", "message": "paused"}
CREATED = {"jobId": "a-1", "name": "a", "namespace": "n", "kind": "training", "pool": "p", "status": "pending"} | {
    "createdAt": None,
    "message": "m",
}
PROBLEM = {"error": "NotFound", "message": "there is no job a", "details": [{"a": 1}], "hint": "look"}


class Answers:
    """Answers in their turn, the last for ever; ``requests`` is what was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, retrying: Retrying = SOON) -> Client:
        return Client("http://127.0.0.1:1", TOKEN, retrying=retrying, transport=httpx.MockTransport(self))


def broken(status: int = 503) -> httpx.Response:
    return httpx.Response(status, json={"error": "ServiceUnavailable", "message": "away", "details": []})


@with_locked_releases
def test_what_is_generated_is_what_the_document_says() -> None:
    assert sdk.main(["--check"]) == 0


@pytest.mark.parametrize(
    "trouble", [broken(503), broken(502), broken(429), httpx.ConnectError("x"), httpx.ReadError("x")]
)
def test_what_is_idempotent_is_sent_again(trouble: Any) -> None:
    """A creation too: each time with the same key and body, made by the client where none is given."""
    answers = Answers(trouble, trouble, httpx.Response(201, json=CREATED))
    assert answers.client().create_jobs("kind: training\n").job_id == "a-1"
    assert len(answers.requests) == 3
    assert len({(request.headers["idempotency-key"], request.content) for request in answers.requests}) == 1
    answers = Answers(httpx.Response(201, json=CREATED))
    with answers.client() as client:
        client.create_jobs({"kind": "training"})
        client.create_jobs({"kind": "training"})
        client.create_jobs({"kind": "training"}, idempotency_key="mine")
    keys = [request.headers["idempotency-key"] for request in answers.requests]
    assert keys[0] != keys[1]
    assert keys[2] == "mine"


@pytest.mark.parametrize("trouble", [broken(), httpx.ReadError("x")])
def test_what_is_not_idempotent_is_sent_once(trouble: Any) -> None:
    answers = Answers(trouble)
    with pytest.raises((ServiceError, Unreachable)):
        answers.client().rerun_job("a")
    assert len(answers.requests) == 1


def test_it_gives_up() -> None:
    """After so many attempts, with the last answer; never after a timeout, and what is wrong is wrong at once."""
    answers = Answers(broken())
    with pytest.raises(ServiceError) as caught:
        answers.client().list_jobs()
    assert (caught.value.status, len(answers.requests)) == (503, SOON.attempts)
    for retrying, trouble, error, count in (
        (SOON, httpx.ConnectError("refused"), Unreachable, SOON.attempts),
        (NEVER, httpx.ConnectError("refused"), Unreachable, 1),
        (SOON, httpx.ReadTimeout("x"), TimedOut, 1),
        (SOON, httpx.Response(404, json=PROBLEM), NotFound, 1),
    ):
        answers = Answers(trouble)
        with pytest.raises(error):
            answers.client(retrying).get_job("a")
        assert len(answers.requests) == count


@given(st.integers(1, 5000), st.none() | st.integers(0, 10**9).map(str) | st.just("Wed, 21 Oct 2026 07:28:00 GMT"))
def test_pauses(attempt: int, stated: str | None) -> None:
    retrying = Retrying(pause=0.25, longest=5.0)
    pause = retrying.after(attempt, stated)
    assert 0.125 <= pause <= 5.0
    if stated is not None and stated.isdecimal():
        assert pause >= min(float(stated), 5.0)


def test_errors() -> None:
    answers = Answers(httpx.Response(404, json=PROBLEM, headers={"X-Request-ID": "id-1"}))
    with pytest.raises(NotFound) as caught:
        answers.client().get_job("a")
    error = caught.value
    assert (error.status, error.error, error.message, error.details) == (
        404,
        "NotFound",
        "there is no job a",
        [{"a": 1}],
    )
    assert (error.hint, error.request_id, str(error)) == ("look", "id-1", "there is no job a (NotFound, 404); look")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), vars(again)) == (NotFound, vars(error))


@pytest.mark.parametrize("body", ["<html>secret page</html>", "", "[]", '{"message": 1}', "\xff", "null"])
def test_answers_that_are_not_the_services(body: str) -> None:
    """Of a proxy, say. What it sends is not passed on."""
    with pytest.raises(ServiceError, match="status 403") as caught:
        Answers(httpx.Response(403, content=body.encode("latin-1"))).client().get_job("a")
    assert isinstance(caught.value, Forbidden)
    assert "page" not in str(caught.value)
    with pytest.raises(UnexpectedAnswer, match="GET /jobs"):
        Answers(httpx.Response(200, content=body.encode("latin-1"))).client().list_jobs()


def test_fields_that_a_newer_service_has() -> None:
    found = Answers(httpx.Response(200, json={**JOB, "more": 1})).client().pause_job("a")
    assert (found.job_id, found.status) == ("a-1", "paused")


@pytest.mark.parametrize("name", ["a/b", "a b", "ä?#", "%2e"])
def test_names_are_one_part_of_a_path(name: str) -> None:
    answers = Answers(httpx.Response(200, json=JOB))
    answers.client().pause_job(name, namespace="x&y")
    (request,) = answers.requests
    assert request.url.raw_path.count(b"/") == 5
    assert request.url.params["namespace"] == "x&y"
    for bad in ("", ".", ".."):
        with pytest.raises(ValueError, match="no name"):
            answers.client().pause_job(bad)


@given(
    st.dictionaries(
        st.text(), st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
    )
)
def test_documents_as_values(value: dict[str, Any]) -> None:
    """What the service reads is what was given, whatever characters it has."""
    text = as_yaml([value, "kind: x", value])
    first, second, third = yaml.load_all(text, Loader=yaml.CSafeLoader)
    strings = {key: item for key, item in value.items() if isinstance(item, str)}
    assert second == {"kind": "x"}
    for found in (first, third):
        assert {key: found[key] for key in strings} == strings
        assert found.keys() == value.keys()


def test_the_token_is_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    """Not in what is printed of a client, in no error, with its causes, and in no log."""
    caplog.set_level(logging.DEBUG)
    troubles = [httpx.ConnectError("x"), httpx.ReadTimeout("x"), broken(401), httpx.Response(200, text="no JSON")]
    for trouble in troubles:
        client = Answers(trouble).client(NEVER)
        assert TOKEN not in repr(client) + str(client)
        with pytest.raises(Exception) as caught:  # noqa: PT011
            client.get_job("a")
        assert TOKEN not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__cause__ is None
    with followed(lambda socket: socket.close(1008, "gone")) as url, pytest.raises(Forbidden):
        list(Client(url, TOKEN).follow_logs("a"))
    ours = [record.getMessage() for record in caplog.records if record.name != "websockets.server"]
    assert ours
    assert TOKEN not in "".join(ours)
    for bad in ("", f"{TOKEN}\n", f"{TOKEN}ä", f"{TOKEN}\r\nHost: x"):
        with pytest.raises(ValueError, match="token") as wrong:
            Client("http://127.0.0.1:1", bad)
        assert TOKEN not in str(wrong.value)


def test_a_token_that_changes() -> None:
    answers = Answers(httpx.Response(200, json=JOB))
    tokens = iter(["first", "second", "third"])
    client = Client("http://127.0.0.1:1/api/v1/", lambda: next(tokens), transport=httpx.MockTransport(answers))
    client.pause_job("a")
    client.pause_job("a")
    assert [request.headers["authorization"] for request in answers.requests] == ["Bearer second", "Bearer third"]
    assert str(answers.requests[0].url) == "http://127.0.0.1:1/api/v1/jobs/a/pause"


@pytest.mark.parametrize("url", ["", "gpuctl", "ftp://x", "http://", "http://user:word@x", "http://x?a=1"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(url, TOKEN)


def test_all_pages() -> None:
    """They are asked for one by one, and only as far as they are used."""

    def page(request: httpx.Request) -> httpx.Response:
        asked.append(int(request.url.params["page"]))
        size = int(request.url.params["pageSize"])
        items = list(range(25))[(asked[-1] - 1) * size : asked[-1] * size]
        label = {"labelKey": "k", "labelValue": "v"}
        return httpx.Response(200, json={"total": 25, "items": [{"nodeName": str(item), **label} for item in items]})

    asked: list[int] = []
    client = Client("http://127.0.0.1:1", TOKEN, transport=httpx.MockTransport(page))
    names = [item.node_name for item in client.all_nodes_with_label(key="k", page_size=10)]
    assert (names, asked) == ([str(number) for number in range(25)], [1, 2, 3])
    asked.clear()
    next(client.all_nodes_with_label(key="k", page_size=10))
    assert asked == [1]

    async def asynchronous() -> list[str]:
        transport = httpx.MockTransport(page)
        async with AsyncClient("http://127.0.0.1:1", TOKEN, transport=transport) as other:
            return [item.node_name async for item in other.all_nodes_with_label(key="k", page_size=10)]

    assert asyncio.run(asynchronous()) == names


def test_asyncio_sends_again_too() -> None:
    async def asked() -> None:
        answers = Answers(broken(), httpx.ConnectError("x"), httpx.Response(200, json=JOB))
        transport = httpx.MockTransport(answers)
        async with AsyncClient("http://127.0.0.1:1", TOKEN, retrying=SOON, transport=transport) as client:
            assert (await client.pause_job("a")).status == "paused"
            assert len(answers.requests) == 3
            answers.answers = [httpx.Response(404, json=PROBLEM)]
            with pytest.raises(NotFound):
                await client.pause_job("a")

    asyncio.run(asked())


def described(status: str) -> httpx.Response:
    value = dict.fromkeys(
        ("description", "version", "yamlContent", "reason", "pool", "priority", "createdAt", "startedAt", "appliedBy")
    )
    value |= {"jobId": "a-1", "name": "a", "namespace": "n", "kind": "training", "ready": "1/1", "status": status}  # type: ignore[dict-item]
    value |= {"resources": {"gpu": 1, "gpuType": None, "cpu": None, "memory": None}, "images": [], "pods": []}  # type: ignore[dict-item]
    value |= {"metrics": dict.fromkeys(("gpuUtilization", "memoryUsage", "networkLatency", "throughput"))}  # type: ignore[dict-item]
    return httpx.Response(200, json={**value, "k8sResources": {"kind": "Job", "jobName": "a", "pods": []}})


def test_waiting() -> None:
    answers = Answers(described("pending"), described("running"), described("succeeded"))
    assert answers.client().wait_for_job("a", every=0.001) == "succeeded"
    assert len(answers.requests) == 3
    assert (
        Answers(described("pending"), described("running")).client().wait_for_job("a", "running", every=0.001)
        == "running"
    )
    with pytest.raises(JobEnded, match="a is failed"):
        Answers(described("pending"), described("failed")).client().wait_for_job("a", "running", every=0.001)
    with pytest.raises(TimedOut, match="a is still pending"):
        Answers(described("pending")).client().wait_for_job("a", timeout=0.01, every=0.002)


@contextmanager
def followed(*scenes: Callable[[ServerConnection], Any]) -> Iterator[str]:
    """A server of WebSockets that plays a scene for each connection, the last again and again."""
    left = list(scenes)

    def play(socket: ServerConnection) -> None:
        scene = left.pop(0) if len(left) > 1 else left[0]
        with suppress(ConnectionClosed):
            scene(socket)

    with serve(play, "127.0.0.1", 0, subprotocols=["gpuctl.logs.v1"]) as server:  # type: ignore[list-item]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def line(second: int, text: str, pod: str = "p", fraction: str = ".5") -> str:
    return json.dumps(
        {"pod": pod, "container": "main", "timestamp": f"2026-06-01T10:00:{second:02}{fraction}Z", "text": text}
    )


def test_a_log_that_breaks_is_read_on(caplog: pytest.LogCaptureFixture) -> None:
    """From a moment before, and no line is given twice, not even of those that were printed at the same time."""
    queries: list[str] = []

    def first(socket: ServerConnection) -> None:
        assert socket.request is not None
        assert socket.request.headers["Authorization"] == f"Bearer {TOKEN}"
        queries.append(socket.request.path)
        for text in (line(1, "a"), line(2, "b"), line(2, "c", fraction=".500000000"), line(1, "other", "q")):
            socket.send(text)
        socket.socket.close()

    def again(socket: ServerConnection) -> None:
        assert socket.request is not None
        queries.append(socket.request.path)
        for text in (line(1, "other", "q"), line(1, "a"), line(2, "b"), line(2, "c"), line(2, "c"), line(9, "d")):
            socket.send(text)
        socket.close(1000, "has finished")

    with followed(first, again) as url, Client(url, TOKEN, retrying=SOON).follow_logs("a", tail=5, grep="x y") as lines:
        assert [item.text for item in lines] == ["a", "b", "c", "other", "c", "d"]
    assert queries == [
        "/api/v1/jobs/a/logs?follow=true&tail=5&grep=x+y",
        "/api/v1/jobs/a/logs?follow=true&since=2026-06-01T10%3A00%3A01Z&grep=x+y",
    ]

    async def asynchronous() -> list[str]:
        async with AsyncClient(other, TOKEN, retrying=SOON) as client, client.follow_logs("a") as lines:
            return [item.text async for item in lines]

    with followed(first, again) as other:
        assert asyncio.run(asynchronous()) == ["a", "b", "c", "other", "c", "d"]


def test_a_log_that_cannot_be_followed() -> None:
    with followed(lambda socket: socket.close(1013, "away")) as url, pytest.raises(Unreachable, match="away"):
        list(Client(url, TOKEN, retrying=SOON).follow_logs("a"))
    with pytest.raises(Unreachable):
        list(Client("http://127.0.0.1:9", TOKEN, retrying=SOON).follow_logs("a"))
    with followed(lambda socket: socket.send("no line")) as url, pytest.raises(UnexpectedAnswer):
        list(Client(url, TOKEN, retrying=SOON).follow_logs("a"))


@given(st.data())
def test_places(data: st.DataObject) -> None:
    """However often it breaks, each line comes once and in the order of its container."""
    stamps = [data.draw(st.lists(st.integers(0, 50), max_size=30).map(sorted)) for _ in range(2)]
    logs = [
        [LogLine.model_validate_json(line(stamp, f"{pod}-{number}", str(pod))) for number, stamp in enumerate(column)]
        for pod, column in enumerate(stamps)
    ]
    together = sorted((item for column in logs for item in column), key=lambda item: item.timestamp)
    place = LogPlace(LogWish("a"))
    found: list[str] = []
    for part in [*data.draw(st.lists(st.floats(0, 1), max_size=4)), 1.0]:
        since = place.query().get("since", "").removesuffix("Z")
        rest = [item for item in together if item.timestamp >= since]
        found += [item.text for item in rest[: round(part * len(rest))] if place.takes(item)]
    for pod, column in enumerate(logs):
        assert [text for text in found if text.startswith(f"{pod}-")] == [item.text for item in column]

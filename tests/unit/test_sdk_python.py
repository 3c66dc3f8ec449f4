"""The Python SDK without a cluster: retries, errors, pages, logs, and secrecy of the token."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
import sdk
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.usecases.documents.change_options import LONGEST_BY_SERVICE
from gpuctl_sdk import (
    NEVER,
    AsyncClient,
    Client,
    Forbidden,
    JobEnded,
    NotFound,
    Retrying,
    ServiceError,
    TimedOut,
    UnexpectedAnswer,
    Unreachable,
)
from gpuctl_sdk.documents import as_yaml
from gpuctl_server.http.http_problems import Problem, answer
from support.locked_releases import with_locked_releases

TOKEN = "gpuctl_very-secret-token"
SOON = Retrying(attempts=4, pause=0.001, longest=0.002)
JOB = {"jobId": "a-1", "status": "paused", "message": "paused"}
CREATED = {"jobId": "a-1", "name": "a", "namespace": "n", "kind": "training", "pool": "p", "status": "pending"} | {
    "createdAt": None,
    "message": "m",
}
PROBLEM = {"error": "NotFound", "message": "there is no job a", "details": [{"a": 1}], "hint": "look"}


class FakeService:
    """A fake service that returns its answers in order and repeats the last; ``requests`` are those it received."""

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
def test_generated_code_matches_the_openapi_document() -> None:
    assert sdk.main(["--check"]) == 0


@pytest.mark.parametrize(
    "trouble", [broken(503), broken(502), broken(429), httpx.ConnectError("x"), httpx.ReadError("x")]
)
def test_idempotent_requests_are_retried(trouble: Any) -> None:
    """Creations too: each attempt has the same body and idempotency key, which the client generates if none is given."""
    answers = FakeService(trouble, trouble, httpx.Response(201, json=CREATED))
    assert answers.client().create_jobs("kind: training\n").job_id == "a-1"
    assert len(answers.requests) == 3
    assert len({(request.headers["idempotency-key"], request.content) for request in answers.requests}) == 1
    answers = FakeService(httpx.Response(201, json=CREATED))
    with answers.client() as client:
        client.create_jobs({"kind": "training"})
        client.create_jobs({"kind": "training"})
        client.create_jobs({"kind": "training"}, idempotency_key="mine")
    keys = [request.headers["idempotency-key"] for request in answers.requests]
    assert keys[0] != keys[1]
    assert keys[2] == "mine"


def test_deletion_whose_answer_was_lost_may_have_succeeded() -> None:
    """The second attempt does not find the job: the error says why."""
    with pytest.raises(NotFound) as caught:
        FakeService(httpx.ReadError("x"), httpx.Response(404, json=PROBLEM)).client().delete_job("a")
    assert "an earlier attempt of this deletion ended without a result: it may have succeeded" in str(caught.value)
    for answers in (
        FakeService(httpx.Response(404, json=PROBLEM)),
        FakeService(broken(), httpx.Response(409, json=PROBLEM)),
    ):
        with pytest.raises(ServiceError) as refused:
            answers.client().delete_job("a")
        assert refused.value.hint == PROBLEM.get("hint")


@pytest.mark.parametrize("trouble", [broken(), httpx.ReadError("x")])
def test_other_requests_are_sent_once(trouble: Any) -> None:
    answers = FakeService(trouble)
    with pytest.raises((ServiceError, Unreachable)):
        answers.client().rerun_job("a")
    assert len(answers.requests) == 1


def test_retries_end_after_the_last_attempt() -> None:
    """Retries end after the last attempt. Timeouts and client errors are not retried."""
    answers = FakeService(broken())
    with pytest.raises(ServiceError) as caught:
        answers.client().list_jobs()
    assert (caught.value.status, len(answers.requests)) == (503, SOON.attempts)
    for retrying, trouble, error, count in (
        (SOON, httpx.ConnectError("refused"), Unreachable, SOON.attempts),
        (NEVER, httpx.ConnectError("refused"), Unreachable, 1),
        (SOON, httpx.ReadTimeout("x"), TimedOut, 1),
        (SOON, httpx.DecodingError("x"), Unreachable, SOON.attempts),
        (SOON, httpx.Response(404, json=PROBLEM), NotFound, 1),
    ):
        answers = FakeService(trouble)
        with pytest.raises(error):
            answers.client(retrying).get_job("a")
        assert len(answers.requests) == count


@given(st.integers(1, 5000), st.none() | st.integers(0, 10**9).map(str) | st.just("Wed, 21 Oct 2026 07:28:00 GMT"))
def test_retry_pause_is_bounded(attempt: int, stated: str | None) -> None:
    retrying = Retrying(pause=0.25, longest=5.0)
    pause = retrying.after(attempt, stated)
    assert 0.125 <= pause <= 5.0
    if stated is not None and stated.isdecimal():
        assert pause >= min(float(stated), 5.0)


def test_changes_have_a_longer_timeout() -> None:
    """Unless the program states one: the service saves checkpoints, and waits for pods that end."""
    answers = FakeService(httpx.Response(200, json=JOB))
    short = Client("http://127.0.0.1:1", TOKEN, timeout=5, transport=httpx.MockTransport(answers))
    for client, read in ((answers.client(), LONGEST_BY_SERVICE + 60), (short, 5)):
        client.pause_job("a")
        with suppress(UnexpectedAnswer):
            client.list_jobs()
        changing, reading = (request.extensions["timeout"] for request in answers.requests[-2:])
        assert (changing["read"], changing["connect"], reading["read"]) == (read, min(read, 10), min(read, 75))


def test_error_has_the_fields_of_the_response() -> None:
    answers = FakeService(httpx.Response(404, json=PROBLEM, headers={"X-Request-ID": "id-1"}))
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


@pytest.mark.parametrize(
    ("problem", "name"),
    [
        (Problem(404, "there is no cluster a"), "NotFound"),
        (Problem(503, "there is no usage database", error="UsageNotConfigured"), "UsageNotConfigured"),
    ],
)
def test_errors_of_usage_have_a_name_and_a_message(problem: Problem, name: str) -> None:
    """The usage paths return the kind of error in `message`, and what is wrong in `error`."""
    response = answer(problem, "/api/v1/gpu-aggregation/clusters")
    answers = FakeService(httpx.Response(response.status_code, content=response.body))
    with pytest.raises(ServiceError) as caught:
        answers.client(NEVER).list_usage_clusters()
    assert (caught.value.error, caught.value.message) == (name, problem.message)


@pytest.mark.parametrize("body", ["<html>secret page</html>", "", "[]", '{"message": 1}', "\xff", "null"])
def test_responses_that_are_not_from_the_service_raise(body: str) -> None:
    """Such as those of a proxy; their content is not passed on."""
    with pytest.raises(ServiceError, match="status 403") as caught:
        FakeService(httpx.Response(403, content=body.encode("latin-1"))).client().get_job("a")
    assert isinstance(caught.value, Forbidden)
    assert "page" not in str(caught.value)
    with pytest.raises(UnexpectedAnswer, match="GET /jobs"):
        FakeService(httpx.Response(200, content=body.encode("latin-1"))).client().list_jobs()


def test_unknown_response_fields_are_ignored() -> None:
    found = FakeService(httpx.Response(200, json={**JOB, "more": 1})).client().pause_job("a")
    assert (found.job_id, found.status) == ("a-1", "paused")


@pytest.mark.parametrize("name", ["a/b", "a b", "ä?#", "%2e"])
def test_names_are_escaped_path_segments(name: str) -> None:
    answers = FakeService(httpx.Response(200, json=JOB))
    answers.client().pause_job(name, namespace="x&y")
    (request,) = answers.requests
    assert request.url.raw_path.count(b"/") == 5
    assert request.url.params["namespace"] == "x&y"
    for bad in ("", ".", ".."):
        with pytest.raises(ValueError, match="not a valid name"):
            answers.client().pause_job(bad)


@given(
    st.dictionaries(
        st.text(), st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
    )
)
def test_as_yaml_keeps_values(value: dict[str, Any]) -> None:
    """The service reads the values that were given, whatever characters they have."""
    text = as_yaml([value, "kind: x", value])
    first, second, third = yaml.load_all(text, Loader=yaml.CSafeLoader)
    strings = {key: item for key, item in value.items() if isinstance(item, str)}
    assert second == {"kind": "x"}
    for found in (first, third):
        assert {key: found[key] for key in strings} == strings
        assert found.keys() == value.keys()


def test_token_is_never_printed_raised_or_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The token is not in a client's repr, an error, its cause, or a log."""
    caplog.set_level(logging.DEBUG)
    troubles = [httpx.ConnectError("x"), httpx.ReadTimeout("x"), broken(401), httpx.Response(200, text="no JSON")]
    for trouble in troubles:
        client = FakeService(trouble).client(NEVER)
        assert TOKEN not in repr(client) + str(client)
        with pytest.raises(Exception) as caught:  # noqa: PT011
            client.get_job("a")
        assert TOKEN not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__cause__ is None
    with event_server(sends(end(1008, "gone"))) as url, pytest.raises(Forbidden):
        list(Client(url, TOKEN).follow_logs("a"))
    ours = [record.getMessage() for record in caplog.records]
    assert ours
    assert TOKEN not in "".join(ours)
    for bad in ("", f"{TOKEN}\n", f"{TOKEN}ä", f"{TOKEN}\r\nHost: x"):
        with pytest.raises(ValueError, match="token") as wrong:
            Client("http://127.0.0.1:1", bad)
        assert TOKEN not in str(wrong.value)


def test_token_function_is_called_for_each_request() -> None:
    answers = FakeService(httpx.Response(200, json=JOB))
    tokens = iter(["first", "second", "third"])
    client = Client("http://127.0.0.1:1/api/v1/", lambda: next(tokens), transport=httpx.MockTransport(answers))
    client.pause_job("a")
    client.pause_job("a")
    assert [request.headers["authorization"] for request in answers.requests] == ["Bearer second", "Bearer third"]
    assert str(answers.requests[0].url) == "http://127.0.0.1:1/api/v1/jobs/a/pause"


@pytest.mark.parametrize(
    "url", ["", "gpuctl", "ftp://x", "http://", "http://user:word@x", "http://x?a=1", "http://x/#/jobs"]
)
def test_invalid_addresses_are_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="address"):
        Client(url, TOKEN)


def test_pages_are_requested_when_used() -> None:
    """Pages are requested one by one, and only as far as the caller reads them."""

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


def test_async_client_retries() -> None:
    async def asked() -> None:
        answers = FakeService(broken(), httpx.ConnectError("x"), httpx.Response(200, json=JOB))
        transport = httpx.MockTransport(answers)
        async with AsyncClient("http://127.0.0.1:1", TOKEN, retrying=SOON, transport=transport) as client:
            assert (await client.pause_job("a")).status == "paused"
            assert len(answers.requests) == 3
            answers.answers = [httpx.Response(404, json=PROBLEM)]
            with pytest.raises(NotFound):
                await client.pause_job("a")

    asyncio.run(asked())


def job_details_response(status: str) -> httpx.Response:
    value = dict.fromkeys(
        ("description", "version", "yamlContent", "reason", "pool", "priority", "createdAt", "startedAt", "appliedBy")
    )
    value |= {
        "jobId": "a-1",
        "name": "a",
        "namespace": "n",
        "kind": "training",
        "ready": "1/1",
        "status": status,
        "phase": status,
    }  # type: ignore[dict-item]
    value |= {
        "resources": {"gpu": 1, "gpuType": None, "cpu": None, "memory": None, "memoryBytes": None},
        "images": [],
        "pods": [],
    }  # type: ignore[dict-item]
    value |= {"metrics": dict.fromkeys(("gpuUtilization", "memoryUsage", "networkLatency", "throughput"))}  # type: ignore[dict-item]
    return httpx.Response(200, json={**value, "k8sResources": {"kind": "Job", "jobName": "a", "pods": []}})


def test_wait_for_job() -> None:
    answers = FakeService(
        job_details_response("pending"), job_details_response("running"), job_details_response("succeeded")
    )
    assert answers.client().wait_for_job("a", every=0.001) == "succeeded"
    assert len(answers.requests) == 3
    assert (
        FakeService(job_details_response("pending"), job_details_response("running"))
        .client()
        .wait_for_job("a", "running", every=0.001)
        == "running"
    )
    with pytest.raises(JobEnded, match="a is failed") as ended:
        FakeService(job_details_response("pending"), job_details_response("failed")).client().wait_for_job(
            "a", "running", every=0.001
        )
    again = pickle.loads(pickle.dumps(ended.value))
    assert (type(again), str(again), again.status) == (JobEnded, "a is failed", "failed")
    with pytest.raises(TimedOut, match="a is still pending"):
        FakeService(job_details_response("pending")).client().wait_for_job("a", timeout=0.01, every=0.002)


def test_wait_for_job_ends_in_time_although_the_service_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timeout limits requests and the pauses between their attempts, too."""
    monkeypatch.setattr("gpuctl_sdk.exchange.LAST_REQUEST", 0.1)
    silence = threading.Event()

    async def asynchronous(url: str) -> str:
        async with AsyncClient(url, TOKEN) as client:
            return await client.wait_for_job("a", timeout=0.1)

    begun = time.monotonic()
    with event_server(lambda _: silence.wait(5) and None) as url:
        with pytest.raises(TimedOut), Client(url, TOKEN) as client:
            client.wait_for_job("a", timeout=0.1)
        with pytest.raises(TimedOut):
            asyncio.run(asynchronous(url))
        silence.set()
    slow = Retrying(attempts=3, pause=9.0)
    with pytest.raises(TimedOut, match="a is still running"):
        FakeService(job_details_response("running"), broken()).client(slow).wait_for_job("a", timeout=0.1, every=0.01)
    assert time.monotonic() < begun + 3


def test_wait_for_job_outlives_a_replaced_service(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers() -> FakeService:
        away = [trouble for _ in range(SOON.attempts) for trouble in (httpx.ConnectError("refused"), broken())]
        return FakeService(job_details_response("running"), *away, job_details_response("succeeded"))

    assert answers().client().wait_for_job("a", every=0.001) == "succeeded"

    async def asynchronous() -> str:
        transport = httpx.MockTransport(answers())
        async with AsyncClient("http://127.0.0.1:1", TOKEN, retrying=SOON, transport=transport) as client:
            return await client.wait_for_job("a", every=0.001)

    assert asyncio.run(asynchronous()) == "succeeded"
    # A service that never responded, one that does not come back, and a job that is gone.
    with pytest.raises(Unreachable):
        FakeService(httpx.ConnectError("refused")).client().wait_for_job("a")
    monkeypatch.setattr("gpuctl_sdk.retrying.OUTAGE", 0.0)
    for trouble, error in ((broken(), ServiceError), (httpx.Response(404, json=PROBLEM), NotFound)):
        with pytest.raises(error):
            FakeService(job_details_response("running"), trouble).client().wait_for_job("a", every=0.001)


Scene = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def event_server(*scenes: Scene) -> Iterator[str]:
    """Run an event stream server that plays one scene per connection and repeats the last; yield its address."""
    left = list(scenes)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            scene = left.pop(0) if len(left) > 1 else left[0]
            with suppress(OSError):
                scene(self)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def sends(*events: str, status: int = 200, kind: str = "text/event-stream; charset=utf-8") -> Scene:
    """Return a scene that sends events and then closes the connection."""

    def scene(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.end_headers()
        handler.wfile.write("".join(events).encode())

    return scene


def line(number: int, text: str) -> str:
    value = {"pod": "p", "container": "main", "timestamp": "2026-06-01T10:00:01.5Z", "text": text, "new": {}}
    return f"id: {number}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n"


def end(code: int, reason: str) -> str:
    return f"event: end\ndata: {json.dumps({'code': code, 'reason': reason})}\n\n"


def test_broken_log_stream_is_resumed() -> None:
    """Each connection resumes after the last line received; an incomplete event is ignored."""
    asked: list[tuple[str, str | None]] = []

    def noting(scene: Scene) -> Scene:
        def noted(handler: BaseHTTPRequestHandler) -> None:
            assert handler.headers["Authorization"] == f"Bearer {TOKEN}"
            assert handler.headers["Accept"] == "text/event-stream"
            asked.append((handler.path, handler.headers["Last-Event-ID"]))
            scene(handler)

        return noted

    scenes = [
        noting(
            sends("retry: 3000\n\n", ":\n\n", line(1, "a"), 'event: notice\ndata: {"message": "x"}\n\n', line(2, "b"))
        ),
        noting(sends(line(3, "c \u2028 d"), "id: 4\ndata: {")),
        noting(sends(json.dumps({"error": "TooManyRequests"}), status=429, kind="application/json")),
        noting(sends(line(4, "e"), end(1012, "the service is ending"))),
        noting(sends(line(5, "f"), end(1000, "has finished"), line(6, "never"))),
    ]
    expected = ["a", "b", "c \u2028 d", "e", "f"]
    with event_server(*scenes) as url, Client(url, TOKEN, retrying=SOON).follow_logs("a", tail=5, grep="x y") as lines:
        assert [item.text for item in lines] == expected
    assert asked == [("/api/v1/jobs/a/logs?follow=true&tail=5&grep=x+y", mark) for mark in (None, "2", "3", "3", "4")]

    async def asynchronous(url: str) -> list[str]:
        async with AsyncClient(url, TOKEN, retrying=SOON) as client, client.follow_logs("a") as lines:
            return [item.text async for item in lines]

    with event_server(*scenes) as url:
        assert asyncio.run(asynchronous(url)) == expected


def test_quiet_log_is_followed_through_any_number_of_breaks() -> None:
    """A connection that was alive ends a row of failures: proxies limit the time of a connection."""
    quiet = sends("retry: 3000\n\n", ":\n\n")
    scenes = [*([quiet] * 2 * SOON.attempts), sends(line(1, "a"), end(1000, "has finished"))]
    away = [sends("", status=503)] * 2 * SOON.attempts
    with event_server(quiet, *away, scenes[-1]) as url, Client(url, TOKEN, retrying=SOON) as client:
        # It has been alive, and is being replaced.
        assert [item.text for item in client.follow_logs("a")] == ["a"]
    with event_server(*scenes) as url, Client(url, TOKEN, retrying=SOON).follow_logs("a") as lines:
        assert [item.text for item in lines] == ["a"]


def test_errors_of_a_log_stream_are_raised() -> None:
    for scene, error, text in (
        (sends(end(1013, "away")), Unreachable, "away"),
        (sends(end(1011, "failed")), ServiceError, "failed"),
        (sends(), Unreachable, "ended before the log"),
        (sends("data: x\n\n"), UnexpectedAnswer, "not a log line"),
        (sends("<html>", kind="text/html"), UnexpectedAnswer, "not an event stream"),
        (sends(json.dumps(PROBLEM), status=404, kind="application/json"), NotFound, "there is no job a"),
        (sends("", status=503), ServiceError, "503"),
    ):
        with event_server(scene) as url, pytest.raises(error, match=text):
            list(Client(url, TOKEN, retrying=SOON).follow_logs("a"))
    with pytest.raises(Unreachable):
        list(Client("http://127.0.0.1:9", TOKEN, retrying=SOON).follow_logs("a"))


def test_log_is_closed_from_another_thread() -> None:
    over = threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        sends(line(1, "a"))(handler)
        handler.wfile.flush()
        over.wait(30)

    async def asynchronous(url: str) -> list[str]:
        async with AsyncClient(url, TOKEN, retrying=NEVER) as client:
            lines = client.follow_logs("a")
            asyncio.get_running_loop().call_later(0.2, lambda: asyncio.ensure_future(lines.close()))
            return [item.text async for item in lines]

    with event_server(silent) as url:
        lines = Client(url, TOKEN, retrying=NEVER).follow_logs("a")
        threading.Timer(0.2, lines.close).start()
        assert [item.text for item in lines] == ["a"]
        assert asyncio.run(asynchronous(url)) == ["a"]
        over.set()


def test_log_is_closed_while_it_connects() -> None:
    """The service has nothing to send at that time, so that nothing else ends the iteration."""
    asked, closed, over = threading.Event(), threading.Event(), threading.Event()

    def silent(handler: BaseHTTPRequestHandler) -> None:
        asked.set()
        closed.wait(30)
        sends("retry: 3000\n\n")(handler)
        handler.wfile.flush()
        over.wait(30)

    async def asynchronous(url: str) -> list[str]:
        async with AsyncClient(url, TOKEN, retrying=NEVER) as client:
            lines = client.follow_logs("a")

            async def close() -> None:
                await asyncio.to_thread(asked.wait, 30)
                await lines.close()
                closed.set()

            closing = asyncio.ensure_future(close())
            found = [item.text async for item in lines]
            await closing
            return found

    with event_server(silent) as url:
        lines = Client(url, TOKEN, retrying=NEVER).follow_logs("a")

        def close() -> None:
            asked.wait(30)
            lines.close()
            closed.set()

        thread = threading.Thread(target=close)
        thread.start()
        started = time.monotonic()
        assert [item.text for item in lines] == []
        thread.join()
        asked.clear()
        closed.clear()
        assert asyncio.run(asynchronous(url)) == []
        assert time.monotonic() - started < 20
        over.set()

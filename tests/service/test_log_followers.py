"""Following logs by WebSocket and Server-Sent Events: each line once, through every failure."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import socket as sockets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect as connect_async
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from control_plane import ControlPlane
from fault_tools.proxy import Proxy, Request, hang, meanwhile, nth, on
from gpuctl_server.access.tokens import read_tokens, write_tokens
from support.cluster_tools import Place, inference, notebook, training
from support.served import Served, serving

PROTOCOL = "gpuctl.logs.v1"
TIMEOUT = 60.0


def follow_url(served: Served, place: Place, name: str, **query: Any) -> str:
    parameters = httpx.QueryParams({"follow": "true", "namespace": place.namespace, **query})
    return f"{served.url.replace('http', 'ws', 1)}/api/v1/jobs/{name}/logs?{parameters}"


def bearer_header(served: Served, user: str = "admin") -> dict[str, str]:
    return {"Authorization": f"Bearer {served.tokens[user]}"}


def token_protocol(token: str) -> str:
    return "base64url.bearer.authorization.gpuctl." + base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


@contextmanager
def following(
    served: Served, place: Place, name: str, user: str = "admin", *, language: str = "en", **query: Any
) -> Iterator[ClientConnection]:
    with connect(
        follow_url(served, place, name, **query),
        additional_headers=bearer_header(served, user) | {"Accept-Language": language},
        max_size=None,
        # A test that does not read for a while does not receive pongs either.
        ping_interval=None,
    ) as socket:
        yield socket


def next_lines(socket: ClientConnection, count: int) -> list[str]:
    """Return the next `count` lines."""
    return [json.loads(socket.recv(TIMEOUT))["text"] for _ in range(count)]


def rest(socket: ClientConnection) -> tuple[list[str], int, str]:
    """Return all lines until the connection is closed, its close code and reason."""
    lines: list[str] = []
    with contextlib.suppress(ConnectionClosed):
        while True:
            lines.append(json.loads(socket.recv(TIMEOUT))["text"])
    end = socket.protocol.close_rcvd
    assert end is not None, "the connection broke"
    return lines, end.code, end.reason


def threads(served: Served) -> int:
    return len(list(Path(f"/proc/{served.process.pid}/task").iterdir()))


def memory(served: Served) -> int:
    """Return the resident memory of the service in bytes."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


def until(condition: Any, what: str) -> None:
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_each_line_is_sent_once_until_the_job_ends(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = served.pods_of(place, "train")
    place.plane.write_log(place.namespace, pod, "".join(f"old {number}\n" for number in range(150)))
    with (
        following(served, place, "train") as socket,
        following(served, place, "train", language="zh", tail=3, grep="7") as other,
    ):
        # A connected client may not have been added to the followers yet.
        assert next_lines(other, 1) == ["old 147"]
        frame = json.loads(socket.recv(TIMEOUT))
        assert frame.keys() == {"pod", "container", "timestamp", "text"}
        assert (frame["pod"], frame["container"], frame["text"]) == (pod, "main", "old 50")
        assert next_lines(socket, 99) == [f"old {number}" for number in range(51, 150)]
        place.plane.write_log(place.namespace, pod, "".join(f"new {number}\n" for number in range(100)))
        assert next_lines(socket, 100) == [f"new {number}" for number in range(100)]
        place.plane.annotate(place.namespace, pod, outcome="complete")
        assert rest(socket) == ([], 1000, "training/train has finished")
        lines = [f"new {number}" for number in range(100) if "7" in str(number)]
        assert rest(other) == (lines, 1000, "training/train 已结束")
    with following(served, place, "train", tail=1) as socket:
        assert rest(socket) == (["new 99"], 1000, "training/train has finished")


@pytest.mark.slow
@pytest.mark.parametrize("tail", [1, 1000, 1001, 5000])
def test_old_and_new_lines_join_without_gap(served: Served, place: Place, tail: int) -> None:
    """Lines older than the service's buffer are read from the cluster while new lines arrive."""
    place.apply(training())
    [pod] = served.pods_of(place, "train")
    place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(3000)))
    with following(served, place, "train", tail=tail) as socket:
        first = int(next_lines(socket, 1)[0])
        assert first == max(0, 3000 - tail)
        with writing(place, pod, 3000):
            expected = [str(number) for number in range(first + 1, 4000)]
            assert next_lines(socket, len(expected)) == expected


def test_tail_zero_sends_only_new_lines(served: Served, place: Place) -> None:
    """The first line depends on timing; after it no line is missing."""
    place.apply(training())
    [pod] = served.pods_of(place, "train")
    with writing(place, pod, 0), following(served, place, "train", tail=0) as socket:
        found = [int(text) for text in next_lines(socket, 300)]
    assert found == list(range(found[0], found[0] + 300))


@contextmanager
def writing(place: Place, pod: str, start: int) -> Iterator[None]:
    """While the block runs, write consecutive numbers, twenty lines at a time."""
    over = threading.Event()

    def write() -> None:
        numbers = itertools.count(start, 20)
        while not over.wait(0.02):
            first = next(numbers)
            place.plane.write_log(place.namespace, pod, "".join(f"{n}\n" for n in range(first, first + 20)))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_token_is_accepted_as_websocket_subprotocol(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = served.pods_of(place, "train")
    place.plane.write_log(place.namespace, pod, "line\n")
    where = follow_url(served, place, "train")
    token = token_protocol(served.tokens["admin"])
    for offered in ([PROTOCOL, token], [token, PROTOCOL], ["other", PROTOCOL, token]):
        with connect(where, subprotocols=offered) as socket:
            assert socket.subprotocol == PROTOCOL
            assert next_lines(socket, 1) == ["line"]
            assert socket.response is not None
            assert token not in str(socket.response.headers)
    with connect(where, additional_headers=bearer_header(served)) as socket:
        assert socket.subprotocol is None


def refused(where: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """Return status and body with which an upgrade is rejected."""
    with pytest.raises(InvalidStatus) as caught, connect(where, **options):
        pass
    body = caught.value.response.body
    return caught.value.response.status_code, json.loads(body or b"{}")


def test_unauthorized_upgrades_are_rejected(served: Served, place: Place) -> None:
    place.apply(training())
    served.pods_of(place, "train")
    where, good = follow_url(served, place, "train"), token_protocol(served.tokens["admin"])
    for offered in (
        [PROTOCOL],
        [PROTOCOL, token_protocol("gpuctl_wrong")],
        [PROTOCOL, token_protocol("")],
        [PROTOCOL, good + "A"],
        [PROTOCOL, good, good],
        [PROTOCOL, token_protocol(served.tokens["admin"] + "\n")],
        [PROTOCOL, token_protocol(" " + served.tokens["admin"])],
        [PROTOCOL, good.replace("gpuctl", "k8s.io")],
        [PROTOCOL, "base64url.bearer.authorization.gpuctl." + served.tokens["admin"]],
        [PROTOCOL, "base64url.bearer.authorization.gpuctl." + "A" * 8000],
    ):
        status, body = refused(where, subprotocols=offered)
        assert status == 401, offered
        assert body["error"] == "Unauthorized"
    assert refused(where)[0] == 401
    # Longer than a header line may be.
    assert refused(where, subprotocols=[PROTOCOL, "A" * 9000])[0] == 400
    wrong = {"Authorization": "Bearer gpuctl_wrong"}
    assert refused(where, subprotocols=[PROTOCOL, good], additional_headers=wrong)[0] == 401
    for name in ("token", "access_token", "authorization"):
        assert refused(f"{where}&{name}={served.tokens['admin']}")[0] == 401
    assert refused(where, subprotocols=[good])[0] == 400
    status, body = refused(where, additional_headers=bearer_header(served, "anna"))
    assert (status, body["error"]) == (403, "Forbidden")
    open_address = where.replace(f"&namespace={place.namespace}", "")
    assert refused(open_address, additional_headers=bearer_header(served, "anna"))[0] == 404
    assert refused(follow_url(served, place, "nothing"), additional_headers=bearer_header(served))[0] == 404
    assert refused(follow_url(served, place, "train", pod="zzz"), additional_headers=bearer_header(served))[0] == 404
    assert (
        refused(follow_url(served, place, "train", container="side"), additional_headers=bearer_header(served))[0]
        == 404
    )
    assert refused(follow_url(served, place, "train", tail=-1), additional_headers=bearer_header(served))[0] == 400
    assert (
        refused(follow_url(served, place, "train", previous="true"), additional_headers=bearer_header(served))[0] == 400
    )
    log = "".join(served.log)
    assert served.tokens["admin"] not in log
    assert good not in log
    assert "access_token" not in log


def test_follow_needs_a_stream(served: Served, place: Place) -> None:
    place.apply(training())
    served.pods_of(place, "train")
    answer = served.get("/jobs/train/logs", status=400, follow="true", namespace=place.namespace)
    assert "text/event-stream" in answer["message"]


class Events:
    """Server-Sent Events as a browser reads them."""

    def __init__(self, served: Served, place: Place, name: str, last: str = "", **query: Any) -> None:
        self._headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        self._query = {"follow": "true", "namespace": place.namespace, **query}
        self._served, self._name = served, name

    def __enter__(self) -> Events:
        self._client = httpx.Client(headers=bearer_header(self._served), timeout=TIMEOUT)
        self._stream = self._client.stream(
            "GET", f"{self._served.url}/api/v1/jobs/{self._name}/logs", params=self._query, headers=self._headers
        )
        response = self._stream.__enter__()
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        self._lines = response.iter_lines()
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.__exit__(None, None, None)
        self._client.close()

    def __iter__(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield name, id and data of each event."""
        name, identity, data = "message", "", ""
        for line in self._lines:
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                identity = value
            elif field == "data":
                data = value
            elif not line and data:
                yield name, identity, json.loads(data)
                name, identity, data = "message", "", ""


def test_last_event_id_resumes_the_stream(served: Served, place: Place) -> None:
    place.apply(training(resources={"nodes": 2}))
    pods = served.pods_of(place, "train", pods=2)
    for pod in pods:
        place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(1500)))
    seen: list[tuple[str, str]] = []
    last = ""
    # Reconnect several times: within the service's buffer, and before it.
    for length in (1, 30, 700, 1, 400, 5):
        with Events(served, place, "train", last, tail=1500) as events:
            for (name, identity, data), _ in zip(events, range(length), strict=False):
                assert name == "message"
                seen.append((data["pod"], data["text"]))
                last = identity
    for pod in pods:
        place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(1500, 1600)))
        place.plane.annotate(place.namespace, pod, outcome="complete")
    with Events(served, place, "train", last, tail=1500) as events:
        for name, _, data in events:
            if name == "end":
                assert data == {"code": 1000, "reason": "training/train has finished"}
                break
            if name == "message":
                seen.append((data["pod"], data["text"]))
    for pod in pods:
        assert [text for name, text in seen if name == pod] == [str(number) for number in range(1600)]
    wrong = {"Accept": "text/event-stream", "Last-Event-ID": "nonsense!"}
    path = f"/jobs/train/logs?follow=true&namespace={place.namespace}"
    assert served.call("GET", path, status=400, headers=wrong)["message"].startswith("Last-Event-ID")


def test_log_of_a_replacement_pod_is_followed(served: Served, place: Place) -> None:
    place.apply(inference())
    [old] = served.pods_of(place, "serve")
    place.plane.write_log(place.namespace, old, "old\n")
    with following(served, place, "serve") as socket, following(served, place, old) as one:
        assert next_lines(socket, 1) == ["old"]
        assert next_lines(one, 1) == ["old"]
        place.kubectl("delete", "pod", old)
        place.until(lambda: set(place.pods("serve")) - {old}, "the replacement pod")
        [new] = set(place.pods("serve")) - {old}
        lines = [f"new {number}" for number in range(2000)]
        place.plane.write_log(place.namespace, new, "".join(f"{line}\n" for line in lines))
        lines_of_one, code, reason = rest(one)
        assert (lines_of_one, code, reason.startswith(f"pod {old} ")) == ([], 1000, True)
        # The lines printed before the test writes the pod's log depend on timing.
        found = [text for text in iter(lambda: next_lines(socket, 1)[0], lines[-1]) if text.startswith("new ")]
        assert found == lines[len(lines) - 1 - len(found) : -1]
        assert len(found) > 1900
        place.gpuctl("delete", "job", "serve", "--yes")
        assert rest(socket)[1:] == (1000, "inference/serve is gone")


def test_pod_that_is_deleted_before_its_log_is_watched_has_ended(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    """The service has read the lines so far, and has not listed the pods to follow yet."""
    place.apply(inference())
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "proxy.kubeconfig"), USERS) as own:
        [old] = own.pods_of(place, "serve")
        place.plane.write_log(place.namespace, old, "old\n")

        def begins_to_follow(request: Request) -> bool:
            selector = request.query.get("labelSelector", "")
            return request.path.endswith(f"/{place.namespace}/pods") and "job-type=inference" in selector

        proxy.reset(on(nth(1, begins_to_follow), meanwhile(lambda: place.kubectl("delete", "pod", old))))
        with following(own, place, old) as socket:
            assert rest(socket) == (["old"], 1000, f"pod {old} is gone")


def test_slow_kubelet_delays_only_the_followers_of_its_pods(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    """Past lines of another job are read while many followers wait for a node that does not answer."""
    place.apply(training(job={"name": "sick"}), training(job={"name": "fine"}))
    with (
        serving(tmp_path, proxy.kubeconfig(tmp_path / "proxy.kubeconfig"), USERS) as own,
        contextlib.ExitStack() as waits,
    ):
        [sick], [fine] = (own.pods_of(place, name) for name in ("sick", "fine"))
        for pod in (sick, fine):
            place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(3000)))

        def reads_past_lines(request: Request) -> bool:
            return request.path.endswith(f"/pods/{sick}/log") and request.query.get("tailLines") == "5000"

        proxy.reset(on(reads_past_lines, hang))
        for _ in range(12):
            waits.enter_context(following(own, place, "sick", tail=5000))
        until(lambda: sum(reads_past_lines(item.request) for item in proxy.records) >= 4, "readings to hang")
        with following(own, place, "fine", tail=5000) as socket:
            assert int(next_lines(socket, 1)[0]) == 0
        assert sum(reads_past_lines(item.request) for item in proxy.records) == 4
        proxy.reset(None)


def test_unresponsive_client_is_disconnected(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """A client that answers no ping is disconnected, and its slot becomes free."""
    place.apply(inference())
    limits = {"follower_ping": "4", "followers": "1"}
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}, **limits) as own:  # type: ignore[arg-type]
        own.pods_of(place, "serve")
        where = urlsplit(own.url)
        query = f"/api/v1/jobs/serve/logs?follow=true&namespace={place.namespace}"
        key = base64.b64encode(bytes(16)).decode()
        lines = [f"GET {query} HTTP/1.1", f"Host: {where.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"Authorization: Bearer {own.tokens['admin']}", "", ""]
        with sockets.create_connection((where.hostname, where.port), timeout=TIMEOUT) as silent:
            silent.sendall("\r\n".join(lines).encode())
            # The client reads everything and sends nothing.
            with contextlib.suppress(ConnectionResetError):
                while silent.recv(65536):
                    pass
        with following(own, place, "serve", tail="1") as socket:
            assert next_lines(socket, 1)


def test_new_pod_of_the_same_name_is_followed(served: Served, place: Place) -> None:
    """The next pod of a StatefulSet has the same name and a log of its own."""
    place.apply(notebook())
    served.pods_of(place, "note")
    lines = [f"line {number}" for number in range(50)]
    place.plane.write_log(place.namespace, "note-0", "".join(f"{line}\n" for line in lines))
    with following(served, place, "note", tail=10) as socket:
        assert next_lines(socket, 10) == lines[-10:]
        for _ in range(3):
            old = place.get("Pod", "note-0")["metadata"]["uid"]
            place.kubectl("delete", "pod", "note-0")
            place.until(lambda old=old: place.pods("note").get("note-0") not in (None, old), "the replacement pod")
            place.running("note")
            assert next_lines(socket, 50) == lines
        place.plane.write_log(place.namespace, "note-0", "last\n")
        assert next_lines(socket, 1) == ["last"]


@pytest.mark.slow
def test_no_line_is_lost_when_the_api_server_is_killed(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = served.pods_of(place, "train")
    place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(10)))
    with following(served, place, "train") as socket, Events(served, place, "train") as events:
        first = iter(events)
        assert next_lines(socket, 10) == [str(number) for number in range(10)]
        assert [next(first)[2]["text"] for _ in range(10)] == [str(number) for number in range(10)]
        for round_ in range(3):
            start = 10 + 200 * round_
            place.plane.write_log(place.namespace, pod, "".join(f"{n}\n" for n in range(start, start + 100)))
            place.plane.stop_api_server(kill=True)
            place.plane.write_log(place.namespace, pod, "".join(f"{n}\n" for n in range(start + 100, start + 200)))
            place.plane.start_api_server()
            expected = [str(number) for number in range(start, start + 200)]
            assert next_lines(socket, 200) == expected
            assert [next(first)[2]["text"] for _ in range(200)] == expected
    served.until("/jobs", lambda value: value["total"] >= 1, namespace=place.namespace)


@pytest.mark.slow
def test_slow_client_is_disconnected_and_others_are_not(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    place.apply(training())
    # The slow client answers no ping while it does not read.
    with serving(tmp_path, plane.kubeconfig(), USERS, followers="2", follower_ping="600") as served:
        [pod] = served.pods_of(place, "train")
        place.plane.write_log(place.namespace, pod, "begin\n")
        host, port = served.url.removeprefix("http://").split(":")
        narrow = sockets.socket()
        narrow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        narrow.connect((host, int(port)))
        where, own = follow_url(served, place, "train"), bearer_header(served)
        before = memory(served)
        with (
            connect(where, additional_headers=own, sock=narrow, max_queue=1, max_size=None, ping_interval=None) as slow,
            following(served, place, "train") as fast,
        ):
            assert next_lines(fast, 1) == ["begin"]
            written = 0
            # Its slot becomes free. A client that does not read for 30 seconds after that gets no close reason.
            while not follows(served, place):
                assert written < 60_000, "the slow client is not disconnected"
                numbers = range(written, written + 1000)
                place.plane.write_log(place.namespace, pod, "".join(f"{number} {'x' * 500}\n" for number in numbers))
                assert [int(text.split()[0]) for text in next_lines(fast, 1000)] == list(numbers)
                written += 1000
            # The buffered lines arrive completely, then the reason of the close.
            found, code, reason = rest(slow)
            assert found[0] == "begin"
            assert [int(text.split()[0]) for text in found[1:]] == list(range(len(found) - 1))
            assert len(found) < written
            assert code == 1013
            assert reason.startswith("too slow: lines were dropped; connect again with since=")
            place.plane.write_log(place.namespace, pod, "end\n")
            assert next_lines(fast, 1) == ["end"]
        assert memory(served) < before + 100 * 2**20


def test_disconnected_clients_leave_no_threads(served: Served, place: Place) -> None:
    place.apply(training(), inference())
    pods = served.pods_of(place, "train") + served.pods_of(place, "serve")
    for pod in pods:
        place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(3000)))

    def disconnect_abruptly(tail: int) -> None:
        with (
            Events(served, place, "train", tail=tail) as events,
            following(served, place, "serve", tail=tail) as socket,
        ):
            next_lines(socket, min(5, tail))
            next(iter(events))
            # Abruptly, in the middle of the stream.
            socket.socket.shutdown(sockets.SHUT_RDWR)

    # The threads of thread pools remain, up to their maximum.
    for _ in range(3):
        disconnect_abruptly(3000)
        disconnect_abruptly(1)
    before = stable_thread_count(served)
    for _ in range(2):
        disconnect_abruptly(3000)
        disconnect_abruptly(1)
    # Each of these logs had five threads.
    until(lambda: threads(served) <= before + 3, "threads are left")


def stable_thread_count(served: Served) -> int:
    """Return the number of threads once it has not changed for three seconds."""
    last, since = threads(served), time.monotonic()
    while time.monotonic() < since + 3:
        time.sleep(0.1)
        if threads(served) != last:
            last, since = threads(served), time.monotonic()
    return last


USERS = {"admin": ("admin", None, None), "vera": ("viewer", None, None)}


@pytest.mark.slow
def test_two_hundred_followers_share_one_log_request(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    place.apply(training())
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "proxy.kubeconfig"), USERS, fresh=True) as own:
        [pod] = own.pods_of(place, "train")
        place.plane.write_log(place.namespace, pod, "".join(f"old {number}\n" for number in range(200)))
        before, threads_before = memory(own), threads(own)
        where, headers = follow_url(own, place, "train"), bearer_header(own)
        old = [f"old {number}" for number in range(100, 200)]
        new = [f"new {number}" for number in range(200)]

        async def one(opening: asyncio.Semaphore, ready: asyncio.Semaphore) -> list[str]:
            await opening.acquire()
            async with connect_async(where, additional_headers=headers, open_timeout=60, max_queue=None) as socket:
                opening.release()
                found = [json.loads(await socket.recv())["text"] for _ in old]
                ready.release()
                found += [json.loads(await socket.recv())["text"] for _ in new]
            return found

        async def all_of_them() -> list[list[str]]:
            # More concurrent requests than one token may have queued would be rejected (429).
            opening, ready = asyncio.Semaphore(100), asyncio.Semaphore(0)
            tasks = [asyncio.create_task(one(opening, ready)) for _ in range(200)]
            for _ in tasks:
                await ready.acquire()
            # Other requests are answered, however many clients follow.
            assert (await asyncio.to_thread(own.get, "/jobs"))["total"] >= 1
            assert memory(own) < before + 100 * 2**20
            assert threads(own) < threads_before + 60
            text = "".join(f"{line}\n" for line in new)
            await asyncio.to_thread(place.plane.write_log, place.namespace, pod, text)
            return await asyncio.gather(*tasks)

        for found in asyncio.run(all_of_them()):
            assert found == old + new
        reads = [record.request for record in proxy.records if record.request.path.endswith("/log")]
        assert [request.query for request in reads if "follow" in request.query][1:] == []
        # Apart from that, the old lines are read once, and the job list reads logs for progress.
        assert len([request for request in reads if request.query.get("tailLines") == "1000"]) == 1
        assert len(reads) < 10


@pytest.mark.slow
def test_follower_limits_hold_under_two_thousand_attempts(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """Some follow, some get 429 or 1013, and other requests are answered."""
    place.apply(training())
    with serving(tmp_path, plane.kubeconfig(), USERS, followers="50", followers_each="30") as own:
        [pod] = own.pods_of(place, "train")
        place.plane.write_log(place.namespace, pod, "line\n")
        where = follow_url(own, place, "train")
        before = threads(own)

        async def attempt(number: int, over: asyncio.Event) -> str:
            user = ("admin", "vera", "")[number % 3]
            headers = bearer_header(own, user) if user else {"Authorization": "Bearer gpuctl_wrong"}
            try:
                async with connect_async(where, additional_headers=headers, open_timeout=120) as socket:
                    try:
                        await socket.recv()
                        await over.wait()
                        return f"{user} follows"
                    except ConnectionClosed as closed:
                        return f"{user} {closed.rcvd.code if closed.rcvd else 'broke'}"
            except InvalidStatus as refusal:
                return f"{user} {refusal.response.status_code}"

        async def all_of_them() -> list[str]:
            over = asyncio.Event()
            tasks = [asyncio.create_task(attempt(number, over)) for number in range(2000)]
            while sum(task.done() for task in tasks) < 1950:
                assert (await asyncio.to_thread(own.client().get, "/jobs")).status_code in {200, 429}
                await asyncio.sleep(0.1)
            assert (await asyncio.to_thread(own.get, "/jobs"))["total"] >= 1
            over.set()
            return await asyncio.gather(*tasks)

        results = asyncio.run(all_of_them())
        counts = {result: results.count(result) for result in set(results)}
        assert counts.keys() <= {
            *(f"{user} {end}" for user in ("admin", "vera") for end in ("follows", "1013", "429")),
            " 401",
            " 429",
        }
        assert counts["admin follows"] + counts["vera follows"] == 50
        assert max(counts["admin follows"], counts["vera follows"]) <= 30
        assert counts[" 401"] > 0
        assert threads(own) < before + 60
        # A slot becomes free a moment after its client has disconnected.
        until(lambda: follows(own, place), "a place to be free")
        with Events(own, place, "train") as events:
            assert next(iter(events))[2]["text"] == "line"


def follows(served: Served, place: Place) -> bool:
    """Return True if one more client can follow and receives a line. One beyond the limit is accepted, then closed."""
    try:
        with following(served, place, "train", tail=1) as socket:
            return len(next_lines(socket, 1)) == 1
    except (InvalidStatus, ConnectionClosed):
        return False


def test_revoked_token_and_shutdown_end_streams(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    place.apply(training())
    limits = {"follower_check": "0.5", "followers": "2", "concurrency": "1", "shutdown_timeout": "600"}
    with serving(tmp_path, plane.kubeconfig(), USERS, **limits) as own:
        [pod] = own.pods_of(place, "train")
        place.plane.write_log(place.namespace, pod, "line\n")
        with (
            following(own, place, "train", "vera") as socket,
            following(own, place, "train", language="zh") as other,
        ):
            assert next_lines(socket, 1) == next_lines(other, 1) == ["line"]
            many = {"Accept": "text/event-stream"}
            path = f"/jobs/train/logs?follow=true&namespace={place.namespace}"
            assert own.call("GET", path, status=429, headers=many)["error"] == "TooManyRequests"
            tokens = tmp_path / "tokens.json"
            write_tokens(tokens, [entry for entry in read_tokens(tokens) if entry.name != "vera"])
            assert rest(socket)[1] == 1008
            with Events(own, place, "train") as events:
                heard = iter(events)
                assert next(heard)[2]["text"] == "line"
                # Long before shutdown_timeout.
                assert own.stop() == 0
                end = {"code": 1012, "reason": "the service is shutting down; connect again"}
                assert list(heard)[-1] == ("end", "", end)
            assert rest(other)[1:] == (1012, "服务正在关闭，请重新连接")

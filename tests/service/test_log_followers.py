"""Logs that are followed: WebSockets and Server-Sent Events, each line once, whatever happens."""

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
from fault_tools.proxy import Proxy
from gpuctl_server.access.tokens import read_tokens, write_tokens
from support.cluster_tools import Place, inference, notebook, training
from support.served import Served, serving

PROTOCOL = "gpuctl.logs.v1"
PATIENCE = 60.0


def address(served: Served, place: Place, name: str, **query: Any) -> str:
    parameters = httpx.QueryParams({"follow": "true", "namespace": place.namespace, **query})
    return f"{served.url.replace('http', 'ws', 1)}/api/v1/jobs/{name}/logs?{parameters}"


def bearer(served: Served, user: str = "admin") -> dict[str, str]:
    return {"Authorization": f"Bearer {served.tokens[user]}"}


def encoded(token: str) -> str:
    return "base64url.bearer.authorization.gpuctl." + base64.urlsafe_b64encode(token.encode()).rstrip(b"=").decode()


@contextmanager
def following(served: Served, place: Place, name: str, user: str = "admin", **query: Any) -> Iterator[ClientConnection]:
    with connect(
        address(served, place, name, **query),
        additional_headers=bearer(served, user),
        max_size=None,
        # Who does not read for a while does not hear that the service is there either.
        ping_interval=None,
    ) as socket:
        yield socket


def texts(socket: ClientConnection, count: int) -> list[str]:
    """So many lines that come next."""
    return [json.loads(socket.recv(PATIENCE))["text"] for _ in range(count)]


def rest(socket: ClientConnection) -> tuple[list[str], int, str]:
    """All lines until the end; its code and reason."""
    lines: list[str] = []
    with contextlib.suppress(ConnectionClosed):
        while True:
            lines.append(json.loads(socket.recv(PATIENCE))["text"])
    end = socket.protocol.close_rcvd
    assert end is not None, "the connection broke"
    return lines, end.code, end.reason


def running(served: Served, place: Place, name: str, pods: int = 1) -> list[str]:
    """The pods of a job, once the service knows them to run."""
    found = sorted(place.running(name, pods=pods))
    served.until_running(name, place.namespace, pods)
    return found


def threads(served: Served) -> int:
    return len(list(Path(f"/proc/{served.process.pid}/task").iterdir()))


def memory(served: Served) -> int:
    """Resident bytes of the service."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


def until(condition: Any, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_each_line_once_up_to_the_end(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = running(served, place, "train")
    place.plane.write_log(place.namespace, pod, "".join(f"old {number}\n" for number in range(150)))
    with following(served, place, "train") as socket, following(served, place, "train", tail=3, grep="7") as other:
        # Whoever has been let in may not follow yet.
        assert texts(other, 1) == ["old 147"]
        frame = json.loads(socket.recv(PATIENCE))
        assert frame.keys() == {"pod", "container", "timestamp", "text"}
        assert (frame["pod"], frame["container"], frame["text"]) == (pod, "main", "old 50")
        assert texts(socket, 99) == [f"old {number}" for number in range(51, 150)]
        place.plane.write_log(place.namespace, pod, "".join(f"new {number}\n" for number in range(100)))
        assert texts(socket, 100) == [f"new {number}" for number in range(100)]
        place.plane.annotate(place.namespace, pod, outcome="complete")
        assert rest(socket) == ([], 1000, "training/train has finished")
        assert rest(other)[0] == [f"new {number}" for number in range(100) if "7" in str(number)]
    with following(served, place, "train", tail=1) as socket:
        assert rest(socket) == (["new 99"], 1000, "training/train has finished")


@pytest.mark.slow
@pytest.mark.parametrize("tail", [1, 1000, 1001, 5000])
def test_the_past_and_what_follows_meet(served: Served, place: Place, tail: int) -> None:
    """More than is kept is read from the cluster, while lines go on coming."""
    place.apply(training())
    [pod] = running(served, place, "train")
    place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(3000)))
    with following(served, place, "train", tail=tail) as socket:
        first = int(texts(socket, 1)[0])
        assert first == max(0, 3000 - tail)
        with writing(place, pod, 3000):
            expected = [str(number) for number in range(first + 1, 4000)]
            assert texts(socket, len(expected)) == expected


def test_without_the_past(served: Served, place: Place) -> None:
    """Where it begins depends on time; from there on nothing is left out."""
    place.apply(training())
    [pod] = running(served, place, "train")
    with writing(place, pod, 0), following(served, place, "train", tail=0) as socket:
        found = [int(text) for text in texts(socket, 300)]
    assert found == list(range(found[0], found[0] + 300))


@contextmanager
def writing(place: Place, pod: str, start: int) -> Iterator[None]:
    """Numbers are written, from one on, twenty at a time, until the block ends."""
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


def test_how_a_browser_sends_its_token(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = running(served, place, "train")
    place.plane.write_log(place.namespace, pod, "line\n")
    where = address(served, place, "train")
    token = encoded(served.tokens["admin"])
    for offered in ([PROTOCOL, token], [token, PROTOCOL], ["other", PROTOCOL, token]):
        with connect(where, subprotocols=offered) as socket:
            assert socket.subprotocol == PROTOCOL
            assert texts(socket, 1) == ["line"]
            assert socket.response is not None
            assert token not in str(socket.response.headers)
    with connect(where, additional_headers=bearer(served)) as socket:
        assert socket.subprotocol is None


def refused(where: str, **options: Any) -> tuple[int, dict[str, Any]]:
    """The status and the body with which an upgrade is refused before it is accepted."""
    with pytest.raises(InvalidStatus) as caught, connect(where, **options):
        pass
    body = caught.value.response.body
    return caught.value.response.status_code, json.loads(body or b"{}")


def test_who_is_not_let_in(served: Served, place: Place) -> None:
    place.apply(training())
    running(served, place, "train")
    where, good = address(served, place, "train"), encoded(served.tokens["admin"])
    for offered in (
        [PROTOCOL],
        [PROTOCOL, encoded("gpuctl_wrong")],
        [PROTOCOL, encoded("")],
        [PROTOCOL, good + "A"],
        [PROTOCOL, good, good],
        [PROTOCOL, encoded(served.tokens["admin"] + "\n")],
        [PROTOCOL, encoded(" " + served.tokens["admin"])],
        [PROTOCOL, good.replace("gpuctl", "k8s.io")],
        [PROTOCOL, "base64url.bearer.authorization.gpuctl." + served.tokens["admin"]],
        [PROTOCOL, "base64url.bearer.authorization.gpuctl." + "A" * 8000],
    ):
        status, body = refused(where, subprotocols=offered)
        assert status == 401, offered
        assert body["error"] == "Unauthorized"
    assert refused(where)[0] == 401
    # Longer than a line of a head may be.
    assert refused(where, subprotocols=[PROTOCOL, "A" * 9000])[0] == 400
    wrong = {"Authorization": "Bearer gpuctl_wrong"}
    assert refused(where, subprotocols=[PROTOCOL, good], additional_headers=wrong)[0] == 401
    for name in ("token", "access_token", "authorization"):
        assert refused(f"{where}&{name}={served.tokens['admin']}")[0] == 401
    assert refused(where, subprotocols=[good])[0] == 400
    status, body = refused(where, additional_headers=bearer(served, "anna"))
    assert (status, body["error"]) == (403, "Forbidden")
    open_address = where.replace(f"&namespace={place.namespace}", "")
    assert refused(open_address, additional_headers=bearer(served, "anna"))[0] == 404
    assert refused(address(served, place, "nothing"), additional_headers=bearer(served))[0] == 404
    assert refused(address(served, place, "train", pod="zzz"), additional_headers=bearer(served))[0] == 404
    assert refused(address(served, place, "train", container="side"), additional_headers=bearer(served))[0] == 404
    assert refused(address(served, place, "train", tail=-1), additional_headers=bearer(served))[0] == 400
    assert refused(address(served, place, "train", previous="true"), additional_headers=bearer(served))[0] == 400
    log = "".join(served.log)
    assert served.tokens["admin"] not in log
    assert good not in log
    assert "access_token" not in log


def test_without_a_stream_there_is_nothing_to_follow(served: Served, place: Place) -> None:
    place.apply(training())
    running(served, place, "train")
    answer = served.get("/jobs/train/logs", status=400, follow="true", namespace=place.namespace)
    assert "text/event-stream" in answer["message"]


class Events:
    """Server-Sent Events as a browser reads them."""

    def __init__(self, served: Served, place: Place, name: str, last: str = "", **query: Any) -> None:
        self._headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
        self._query = {"follow": "true", "namespace": place.namespace, **query}
        self._served, self._name = served, name

    def __enter__(self) -> Events:
        self._client = httpx.Client(headers=bearer(self._served), timeout=PATIENCE)
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
        """Name, id and data of each."""
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


def test_events_go_on_where_they_were(served: Served, place: Place) -> None:
    place.apply(training(resources={"nodes": 2}))
    pods = running(served, place, "train", pods=2)
    for pod in pods:
        place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(1500)))
    seen: list[tuple[str, str]] = []
    last = ""
    # Cut off again and again: within what is kept, and before it.
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


def test_a_pod_that_another_takes_the_place_of(served: Served, place: Place) -> None:
    place.apply(inference())
    [old] = running(served, place, "serve")
    place.plane.write_log(place.namespace, old, "old\n")
    with following(served, place, "serve") as socket, following(served, place, old) as one:
        assert texts(socket, 1) == ["old"]
        assert texts(one, 1) == ["old"]
        place.kubectl("delete", "pod", old)
        place.until(lambda: set(place.pods("serve")) - {old}, "another pod")
        [new] = set(place.pods("serve")) - {old}
        lines = [f"new {number}" for number in range(2000)]
        place.plane.write_log(place.namespace, new, "".join(f"{line}\n" for line in lines))
        lines_of_one, code, reason = rest(one)
        assert (lines_of_one, code, reason.startswith(f"pod {old} ")) == ([], 1000, True)
        # What a pod says before the test writes its log depends on time.
        found = [text for text in iter(lambda: texts(socket, 1)[0], lines[-1]) if text.startswith("new ")]
        assert found == lines[len(lines) - 1 - len(found) : -1]
        assert len(found) > 1900
        place.gpuctl("delete", "job", "serve", "--yes")
        assert rest(socket)[1:] == (1000, "inference/serve is gone")


def test_a_client_that_is_there_no_more(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """One that does not answer when it is asked whether it is there is let go, and its place is another's."""
    place.apply(inference())
    limits = {"follower_ping": "4", "followers": "1"}
    with serving(tmp_path, plane.kubeconfig(), {"admin": ("admin", None, None)}, **limits) as own:  # type: ignore[arg-type]
        running(own, place, "serve")
        where = urlsplit(own.url)
        query = f"/api/v1/jobs/serve/logs?follow=true&namespace={place.namespace}"
        key = base64.b64encode(bytes(16)).decode()
        lines = [f"GET {query} HTTP/1.1", f"Host: {where.netloc}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"]
        lines += [f"Authorization: Bearer {own.tokens['admin']}", "", ""]
        with sockets.create_connection((where.hostname, where.port), timeout=PATIENCE) as silent:
            silent.sendall("\r\n".join(lines).encode())
            # It takes what comes, and never says anything.
            with contextlib.suppress(ConnectionResetError):
                while silent.recv(65536):
                    pass
        with following(own, place, "serve", tail="1") as socket:
            assert texts(socket, 1)


def test_a_pod_of_the_same_name(served: Served, place: Place) -> None:
    """A StatefulSet's next pod has the name of the last one, and a log of its own."""
    place.apply(notebook())
    running(served, place, "note")
    lines = [f"line {number}" for number in range(50)]
    place.plane.write_log(place.namespace, "note-0", "".join(f"{line}\n" for line in lines))
    with following(served, place, "note", tail=10) as socket:
        assert texts(socket, 10) == lines[-10:]
        for _ in range(3):
            old = place.get("Pod", "note-0")["metadata"]["uid"]
            place.kubectl("delete", "pod", "note-0")
            place.until(lambda old=old: place.pods("note").get("note-0") not in (None, old), "another pod")
            place.running("note")
            assert texts(socket, 50) == lines
        place.plane.write_log(place.namespace, "note-0", "last\n")
        assert texts(socket, 1) == ["last"]


@pytest.mark.slow
def test_the_api_server_is_killed_meanwhile(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = running(served, place, "train")
    place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(10)))
    with following(served, place, "train") as socket, Events(served, place, "train") as events:
        first = iter(events)
        assert texts(socket, 10) == [str(number) for number in range(10)]
        assert [next(first)[2]["text"] for _ in range(10)] == [str(number) for number in range(10)]
        for round_ in range(3):
            start = 10 + 200 * round_
            place.plane.write_log(place.namespace, pod, "".join(f"{n}\n" for n in range(start, start + 100)))
            place.plane.stop_api_server(kill=True)
            place.plane.write_log(place.namespace, pod, "".join(f"{n}\n" for n in range(start + 100, start + 200)))
            place.plane.start_api_server()
            expected = [str(number) for number in range(start, start + 200)]
            assert texts(socket, 200) == expected
            assert [next(first)[2]["text"] for _ in range(200)] == expected
    served.until("/jobs", lambda value: value["total"] >= 1, namespace=place.namespace)


@pytest.mark.slow
def test_who_reads_slowly_is_cut_off_and_nobody_else(served: Served, place: Place) -> None:
    place.apply(training())
    [pod] = running(served, place, "train")
    place.plane.write_log(place.namespace, pod, "begin\n")
    host, port = served.url.removeprefix("http://").split(":")
    narrow = sockets.socket()
    narrow.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
    narrow.connect((host, int(port)))
    where, own = address(served, place, "train"), bearer(served)
    before = memory(served)
    with (
        connect(where, additional_headers=own, sock=narrow, max_queue=1, max_size=None, ping_interval=None) as slow,
        following(served, place, "train") as fast,
    ):
        assert texts(fast, 1) == ["begin"]
        # More than the service and the kernel keep for one. Whoever does not read after that is not told why: the
        # connection breaks some seconds later.
        for start in range(0, 16_000, 1000):
            lines = "".join(f"{number} {'x' * 500}\n" for number in range(start, start + 1000))
            place.plane.write_log(place.namespace, pod, lines)
            assert [int(text.split()[0]) for text in texts(fast, 1000)] == list(range(start, start + 1000))
        # What it had been sent comes whole, then why there is no more.
        found, code, reason = rest(slow)
        numbers = [int(text.split()[0]) for text in found[1:]]
        assert found[0] == "begin"
        assert numbers == list(range(len(numbers)))
        assert len(numbers) < 15_000
        assert code == 1013
        assert reason.startswith("too slow: lines were dropped; connect again with since=")
        place.plane.write_log(place.namespace, pod, "end\n")
        assert texts(fast, 1) == ["end"]
    assert memory(served) < before + 100 * 2**20


def test_a_client_that_goes_away_leaves_nothing(served: Served, place: Place) -> None:
    place.apply(training(), inference())
    pods = running(served, place, "train") + running(served, place, "serve")
    for pod in pods:
        place.plane.write_log(place.namespace, pod, "".join(f"{number}\n" for number in range(3000)))

    def go_away(tail: int) -> None:
        with (
            Events(served, place, "train", tail=tail) as events,
            following(served, place, "serve", tail=tail) as socket,
        ):
            texts(socket, min(5, tail))
            next(iter(events))
            # Without a word, in the middle.
            socket.socket.shutdown(sockets.SHUT_RDWR)

    # The threads of pools stay, as many as there may be.
    for _ in range(5):
        go_away(3000)
        go_away(1)
    before = settled(served)
    for _ in range(15):
        go_away(3000)
        go_away(1)
    # Each of these logs had five threads.
    until(lambda: threads(served) <= before + 3, "threads are left")


def settled(served: Served) -> int:
    """How many threads there are, once their number stays the same."""
    last, since = threads(served), time.monotonic()
    while time.monotonic() < since + 3:
        time.sleep(0.1)
        if threads(served) != last:
            last, since = threads(served), time.monotonic()
    return last


USERS = {"admin": ("admin", None, None), "vera": ("viewer", None, None)}


@pytest.mark.slow
def test_two_hundred_followers_are_one_reader(proxy: Proxy, place: Place, tmp_path: Path) -> None:
    place.apply(training())
    with serving(tmp_path, proxy.kubeconfig(tmp_path / "proxy.kubeconfig"), USERS, fresh=True) as own:
        [pod] = running(own, place, "train")
        place.plane.write_log(place.namespace, pod, "".join(f"old {number}\n" for number in range(200)))
        before, threads_before = memory(own), threads(own)
        where, headers = address(own, place, "train"), bearer(own)
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
            # More requests at a time than one token may have waiting would be refused (429).
            opening, ready = asyncio.Semaphore(100), asyncio.Semaphore(0)
            tasks = [asyncio.create_task(one(opening, ready)) for _ in range(200)]
            for _ in tasks:
                await ready.acquire()
            # Requests are for whoever asks, however many follow.
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
        # Beside it what was there before is read once, and the list of jobs looks for progress.
        assert len([request for request in reads if request.query.get("tailLines") == "1000"]) == 1
        assert len(reads) < 10


@pytest.mark.slow
def test_thousands_of_attempts(plane: ControlPlane, place: Place, tmp_path: Path) -> None:
    """Some follow, some are told to come back later, and nobody else has to wait."""
    place.apply(training())
    with serving(tmp_path, plane.kubeconfig(), USERS, followers="50", followers_each="30") as own:
        [pod] = running(own, place, "train")
        place.plane.write_log(place.namespace, pod, "line\n")
        where = address(own, place, "train")
        before = threads(own)

        async def attempt(number: int, over: asyncio.Event) -> str:
            user = ("admin", "vera", "")[number % 3]
            headers = bearer(own, user) if user else {"Authorization": "Bearer gpuctl_wrong"}
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
        # Those who have left give their places back a moment later.
        until(lambda: follows(own, place), "a place to be free")
        with Events(own, place, "train") as events:
            assert next(iter(events))[2]["text"] == "line"


def follows(served: Served, place: Place) -> bool:
    """Whether there is a place for one more, who is told the line."""
    try:
        with following(served, place, "train") as socket:
            return texts(socket, 1) == ["line"]
    except (InvalidStatus, ConnectionClosed):
        return False


def test_a_token_that_is_taken_back_and_the_end_of_the_service(
    plane: ControlPlane, place: Place, tmp_path: Path
) -> None:
    place.apply(training())
    limits = {"follower_check": "0.5", "followers": "2", "concurrency": "1", "shutdown_timeout": "600"}
    with serving(tmp_path, plane.kubeconfig(), USERS, **limits) as own:
        [pod] = running(own, place, "train")
        place.plane.write_log(place.namespace, pod, "line\n")
        with following(own, place, "train", "vera") as socket, following(own, place, "train") as other:
            assert texts(socket, 1) == texts(other, 1) == ["line"]
            many = {"Accept": "text/event-stream"}
            path = f"/jobs/train/logs?follow=true&namespace={place.namespace}"
            assert own.call("GET", path, status=429, headers=many)["error"] == "TooManyRequests"
            tokens = tmp_path / "tokens.json"
            write_tokens(tokens, [entry for entry in read_tokens(tokens) if entry.name != "vera"])
            assert rest(socket)[1] == 1008
            with Events(own, place, "train") as events:
                heard = iter(events)
                assert next(heard)[2]["text"] == "line"
                # Long before the time is over that requests are given.
                assert own.stop() == 0
                assert list(heard)[-1][0] == "end"
            assert rest(other)[1:] == (1012, "the service is shutting down; connect again")

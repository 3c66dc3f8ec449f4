"""One caller can take neither all slots of the service nor all compile time."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from gpuctl.usecases.queries.job_logs import LogQuery
from gpuctl_server.console.sessions import Sessions
from gpuctl_server.http import heavy_requests
from gpuctl_server.http.http_problems import Problem
from gpuctl_server.http.request_middleware import RequestMiddleware
from gpuctl_server.limits import compile_limits
from gpuctl_server.limits.change_slots import ChangeSlots
from gpuctl_server.limits.compile_limits import CompiledTooLong, CompileLocks, StillCompiling, processor_limit
from gpuctl_server.limits.fair_slots import FairSlots, NoFreeSlot
from gpuctl_server.lookups import log_responses
from gpuctl_server.lookups.log_responses import LogFilter, logs_answer
from gpuctl_server.mirror.mirror import Mirror
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.service_metrics import ServiceMetrics


def test_one_caller_cannot_take_all_slots_and_queue_places() -> None:
    """After 50 requests of one caller, a second caller gets a slot at once, and a third can queue."""

    async def run() -> None:
        slots = FairSlots(4, 4)
        refused = 0
        greedy = [asyncio.ensure_future(slots.acquire("greedy")) for _ in range(50)]
        await asyncio.sleep(0)
        for request in greedy:
            if request.done() and isinstance(request.exception(), NoFreeSlot):
                assert request.exception().is_own  # type: ignore[union-attr]
                refused += 1
        assert refused == 50 - 2 - 2
        await asyncio.wait_for(slots.acquire("modest"), 1)
        await asyncio.wait_for(slots.acquire("modest"), 1)
        waiting = asyncio.ensure_future(slots.acquire("other"))
        await asyncio.sleep(0)
        assert not waiting.done()
        # `other` holds no slot, so it is next, although requests of `greedy` have waited longer.
        slots.release("greedy")
        await asyncio.wait_for(waiting, 1)
        for request in greedy:
            request.cancel()

    asyncio.run(run())


def test_single_slot_without_queue_is_released() -> None:
    async def run() -> None:
        slots = FairSlots(1, 0)
        await slots.acquire("a")
        with pytest.raises(NoFreeSlot) as found:
            await slots.acquire("b")
        assert not found.value.is_own
        slots.release("a")
        await slots.acquire("b")

    asyncio.run(run())


def test_cancelled_requests_lose_no_slot() -> None:
    """One request is cancelled before its turn, one at the moment of its turn."""

    async def run() -> None:
        slots = FairSlots(1, 10)
        await slots.acquire("a")
        early, late = (asyncio.ensure_future(slots.acquire(name)) for name in "bc")
        await asyncio.sleep(0)
        early.cancel()
        await asyncio.sleep(0)
        slots.release("a")
        late.cancel()
        await asyncio.gather(early, late, return_exceptions=True)
        await asyncio.wait_for(slots.acquire("d"), 1)

    asyncio.run(run())


def test_one_caller_gets_three_quarters_of_the_change_slots() -> None:
    changes = ChangeSlots(4)
    for _ in range(3):
        changes.begin("a")
    with pytest.raises(NoFreeSlot) as own:
        changes.begin("a")
    assert own.value.is_own
    changes.begin("b")
    with pytest.raises(NoFreeSlot) as all_taken:
        changes.begin("d")
    assert not all_taken.value.is_own
    changes.done("a")
    changes.begin("d")


def test_one_caller_may_take_the_only_change_slot() -> None:
    changes = ChangeSlots(1)
    changes.begin("a")
    with pytest.raises(NoFreeSlot):
        changes.begin("b")
    changes.done("a")
    changes.begin("b")


def test_processor_limit_counts_cpu_time_of_its_thread() -> None:
    check = processor_limit(0.05)
    time.sleep(0.1)
    check()
    end = time.thread_time() + 0.1
    while time.thread_time() < end:
        pass
    with pytest.raises(CompiledTooLong):
        check()


def test_documents_of_one_caller_are_compiled_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_limits, "QUEUE_TIMEOUT", 0.05)
    turns = CompileLocks()
    results: list[str] = []

    def compile_for(caller: str) -> None:
        try:
            with turns.of(caller):
                results.append(caller)
        except StillCompiling:
            results.append(f"{caller} waits")

    with turns.of("viewer"):
        threads = [threading.Thread(target=compile_for, args=(name,)) for name in ("viewer", "admin")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == ["admin", "viewer waits"]
    compile_for("viewer")
    assert results[-1] == "viewer"


def test_bodies_of_unknown_clients_do_not_fill_the_memory() -> None:
    """Bodies are read before a token is checked. Those of one caller may have half of the room."""
    settings = ServerSettings(concurrency=4, body_limit=1024, body_timeout=0.5)
    held = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await held.wait()
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def request(middleware: RequestMiddleware, token: str, *parts: bytes) -> int:
        """Return the status of the answer to a request whose body ends with an empty part, and else never."""
        sent = iter(parts)
        statuses: list[int] = []

        async def receive() -> Message:
            part = next(sent, None)
            if part is None:
                await asyncio.sleep(60)
            return {"type": "http.request", "body": part, "more_body": part != b""}

        async def send(message: Message) -> None:
            statuses.append(message.get("status", 0))

        headers = [(b"authorization", token.encode()), (b"transfer-encoding", b"chunked")]
        scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
        await middleware(scope, receive, send)
        return statuses[0]

    async def run() -> None:
        middleware = RequestMiddleware(app, settings, ServiceMetrics(Mirror(None, ())), Sessions(secure=False))  # type: ignore[arg-type]
        slow = [asyncio.ensure_future(request(middleware, "", b"x" * 1000)) for _ in range(20)]
        await asyncio.sleep(0.1)
        refused = [item.result() for item in slow if item.done()]
        assert refused == [429] * 18, "two of them have half of 4 x 1024 bytes"
        whole = [asyncio.ensure_future(request(middleware, "anna", b"x" * 1000, b"")) for _ in range(2)]
        await asyncio.sleep(0.1)
        assert not any(item.done() for item in whole), "others are served"
        # A body is held until its request is answered.
        assert await request(middleware, "anna", b"x" * 1000, b"") == 429
        held.set()
        assert await asyncio.gather(*whole) == [200, 200]
        assert sorted(await asyncio.gather(*slow)) == [408] * 2 + [429] * 18
        # All of it is free again.
        assert await request(middleware, "", b"x" * 1000, b"x" * 24, b"") == 200

    asyncio.run(run())


def test_rejected_bodies_are_freed_at_once() -> None:
    """Not by the next garbage collection of old objects, which a service with large lists runs rarely."""
    settings = ServerSettings(body_timeout=0.01)

    async def app(scope: Scope, receive: Receive, send: Send) -> None: ...

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": True}
        await asyncio.sleep(60)
        raise AssertionError

    async def send(message: Message) -> None: ...

    async def run() -> None:
        middleware = RequestMiddleware(app, settings, ServiceMetrics(Mirror(None, ())), Sessions(secure=False))  # type: ignore[arg-type]
        for number in range(30):
            # The body stays away, or is too large.
            parts.extend([bytes(600_000)] * (1 + number % 2))
            headers = [(b"transfer-encoding", b"chunked")]
            scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
            await middleware(scope, receive, send)
        assert tracemalloc.get_traced_memory()[0] < 3_000_000

    parts: list[bytes] = []
    gc.disable()
    tracemalloc.start()
    try:
        asyncio.run(run())
    finally:
        tracemalloc.stop()
        gc.enable()


def test_few_long_logs_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer may need 45 MB. The logs of most requests are short, and do not wait for long ones."""
    service: Any = SimpleNamespace(long_logs=threading.BoundedSemaphore(1))
    job: Any = SimpleNamespace(job=SimpleNamespace(pods=[{}, {}]))
    caller: Any = None
    monkeypatch.setattr(heavy_requests, "_PATIENCE", 0.01)
    monkeypatch.setattr(log_responses, "_present_logs", lambda *_: {"logs": []})

    def status(tail: int | None) -> int:
        try:
            return logs_answer(service, caller, job, LogFilter(LogQuery(tail=tail))).status_code
        except Problem as problem:
            return problem.status

    assert [status(tail) for tail in (100, 6000, None)] == [200, 200, 200]
    with service.long_logs:
        assert [status(tail) for tail in (100, 4000, 6000, None)] == [200, 200, 429, 429]
    assert status(None) == 200

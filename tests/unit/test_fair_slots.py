"""One caller can take neither all slots of the service nor all compile time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from gpuctl_server import compile_limits
from gpuctl_server.change_slots import ChangeSlots
from gpuctl_server.compile_limits import CompiledTooLong, CompileLocks, StillCompiling, processor_limit
from gpuctl_server.fair_slots import FairSlots, NoFreeSlot


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
    monkeypatch.setattr(compile_limits, "PATIENCE", 0.05)
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

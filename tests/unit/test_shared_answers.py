"""Answers that several requests share."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from gpuctl_server.access.caller import TokenCaller
from gpuctl_server.access.rights import Rights
from gpuctl_server.limits.shared_answers import SharedAnswers

ANNA, OTTO = (TokenCaller(name, Rights("viewer", frozenset({"team-a"}))) for name in ("anna", "otto"))
ADMIN = TokenCaller("root", Rights("admin"))


def test_answer_is_shared_by_callers_with_the_same_rights() -> None:
    answers, numbers = SharedAnswers(), count()

    def find(caller: TokenCaller, question: str = "fit", max_age: float = 60) -> int:
        return int(answers.find(caller, question, max_age, lambda: next(numbers)))

    assert [find(ANNA), find(OTTO), find(ANNA)] == [0, 0, 0]
    assert [find(ADMIN), find(ANNA, "gpu-use"), find(ANNA)] == [1, 2, 0]
    # Without an age, the answer is computed for this request alone.
    assert [find(ANNA, max_age=0), find(OTTO)] == [3, 0]
    time.sleep(0.02)
    assert [find(ANNA, max_age=0.01), find(OTTO)] == [4, 4]


def test_full_cache_drops_the_oldest_answer() -> None:
    answers, numbers = SharedAnswers(), count()

    def find(question: int, max_age: float = 60) -> int:
        return int(answers.find(ANNA, question, max_age, lambda: next(numbers)))

    assert [find(question) for question in range(64)] == list(range(64))
    time.sleep(0.02)
    # Computed again, question 0 has the newest answer.
    assert find(0, max_age=0.01) == 64
    assert [find(64), find(0), find(2), find(63), find(1)] == [65, 64, 2, 63, 66]


def test_concurrent_requests_wait_for_one_computation() -> None:
    answers, computed, begun = SharedAnswers(), [], threading.Event()

    def compute() -> int:
        begun.set()
        computed.append(threading.get_ident())
        time.sleep(0.05)
        return len(computed)

    with ThreadPoolExecutor(4) as threads:
        first = threads.submit(answers.find, ANNA, "fit", 60, compute)
        begun.wait(10)
        others = [threads.submit(answers.find, OTTO, "fit", 60, compute) for _ in range(3)]
        assert [one.result() for one in (first, *others)] == [1, 1, 1, 1]

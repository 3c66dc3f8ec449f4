"""Concurrent calls: results in order, and the exception of the first item that failed."""

from __future__ import annotations

import threading

import pytest

from gpuctl.kube.thread_map import start_each


def test_calls_run_concurrently_and_return_results_in_order() -> None:
    meeting = threading.Barrier(4, timeout=60)

    def meet(number: int) -> int:
        meeting.wait()
        return number

    results = start_each(meet, [1, 2, 3])
    # All three calls run at the same time, or the barrier would time out.
    meeting.wait()
    assert results() == [1, 2, 3]
    assert start_each(meet, [])() == []


def test_exception_of_the_first_failed_item_is_raised() -> None:
    late = threading.Event()

    def fail(number: int) -> int:
        if number == 2:
            assert late.wait(60)
            raise KeyError(number)
        if number == 3:
            late.set()
            raise ValueError(number)
        return number

    with pytest.raises(KeyError):
        start_each(fail, [1, 2, 3])()


def test_exception_does_not_wait_for_later_items() -> None:
    release = threading.Event()

    def fail(number: int) -> int:
        if number == 1:
            raise ValueError("the first")
        release.wait(60)
        return number

    try:
        with pytest.raises(ValueError, match="the first"):
            start_each(fail, [1, 2])()
        assert not release.is_set()
    finally:
        release.set()

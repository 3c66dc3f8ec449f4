"""Calls at the same time: their results in order, and the exception of the first that failed."""

from __future__ import annotations

import threading

import pytest

from gpuctl.kube.thread_map import start_each


def test_calls_run_at_the_same_time_and_their_results_are_in_order() -> None:
    meeting = threading.Barrier(4, timeout=60)

    def meet(number: int) -> int:
        meeting.wait()
        return number

    results = start_each(meet, [1, 2, 3])
    # All three have start_each, or nobody would be met here.
    meeting.wait()
    assert results() == [1, 2, 3]
    assert start_each(meet, [])() == []


def test_the_exception_is_that_of_the_first_item_that_failed() -> None:
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


def test_an_exception_does_not_wait_for_what_stands_behind_it() -> None:
    going_on = threading.Event()

    def fail(number: int) -> int:
        if number == 1:
            raise ValueError("the first")
        going_on.wait(60)
        return number

    try:
        with pytest.raises(ValueError, match="the first"):
            start_each(fail, [1, 2])()
        assert not going_on.is_set()
    finally:
        going_on.set()

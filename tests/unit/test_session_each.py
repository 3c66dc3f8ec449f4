"""Concurrent calls of a session: results in order, and the exception of the first item that failed."""

from __future__ import annotations

import threading

import pytest

from gpuctl.kube.connection import Connection
from gpuctl.kube.credentials import Credential, StaticCredential
from gpuctl.kube.session import Session
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import ServerAccess, Transport


@pytest.fixture
def session() -> Session:
    access = ServerAccess(
        "https://10.0.0.1:6443", TlsSettings(None, "", True, ""), StaticCredential(Credential("")), (), None, "context"
    )
    return Session(Connection(Transport(access), "default", "context"))


@pytest.mark.parametrize("number", [3, 16])
def test_calls_run_concurrently_and_return_results_in_order(session: Session, number: int) -> None:
    # All calls run at the same time, or the barrier would time out.
    meeting = threading.Barrier(number, timeout=60)

    def meet(item: int) -> int:
        meeting.wait()
        return item

    assert session.each(meet, range(number)) == list(range(number))
    assert session.each(meet, []) == []


def test_tasks_of_the_executor_may_wait_for_few_calls(session: Session) -> None:
    tasks = [session.executor.submit(session.each, str, [task, task]) for task in range(16)]
    assert [task.result(60) for task in tasks] == [[str(task)] * 2 for task in range(16)]


def test_exception_of_the_first_failed_item_is_raised(session: Session) -> None:
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
        session.each(fail, [1, 2, 3])


def test_exception_does_not_wait_for_later_items(session: Session) -> None:
    release = threading.Event()

    def fail(number: int) -> int:
        if number == 1:
            raise ValueError("the first")
        release.wait(60)
        return number

    try:
        with pytest.raises(ValueError, match="the first"):
            session.each(fail, [1, 2])
        assert not release.is_set()
    finally:
        release.set()

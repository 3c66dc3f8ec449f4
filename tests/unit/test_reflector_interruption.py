"""Whether a reflector knows that its lists are not being watched."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from gpuctl.kube import backoff
from gpuctl.kube.api_errors import ApiError, ClusterError, ConnectionFailed
from gpuctl.kube.reflector import Event, Reflector, WatchedList
from gpuctl.kube.session import Session


class ScriptedSession:
    """A session whose list is empty, and whose watches fail with these errors; the last one repeats."""

    def __init__(self, *errors: ClusterError) -> None:
        self.errors = list(errors)
        self.watched = 0
        self.enough = threading.Event()

    def pages(self, *arguments: Any, on_version: Callable[[str], None], **more: Any) -> Iterator[list[Any]]:
        on_version("1")
        yield []

    def watch(self, *arguments: Any, **more: Any) -> Any:
        error = self.errors[min(self.watched, len(self.errors) - 1)]
        self.watched += 1
        if self.watched > 4:
            self.enough.set()
        raise error

    def shows(self, obj: Any) -> bool:
        return True


class AbsentKind(ScriptedSession):
    """A session without the kind, whose server fails afterwards."""

    def pages(self, *arguments: Any, on_version: Callable[[str], None], **more: Any) -> Iterator[list[Any]]:
        raise self.watch()


def test_outage_is_not_reported_for_a_kind_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service would no longer be ready, and not answer from its copy."""
    monkeypatch.setattr(backoff, "delay_after", lambda failures: 0.01)
    session = AbsentKind(ApiError(404, "NotFound", "the server could not find it"), ConnectionFailed("no route"))
    reported: list[Event | ClusterError] = []
    watched = WatchedList("ClusterQueue", None, is_needed=False)
    reflector = Reflector(cast(Session, session), [watched], reported.append, retry_after=0.01)
    reflector.start()
    assert session.enough.wait(20)
    reflector.stop()
    assert [item.type for item in reported if isinstance(item, Event)] == ["LISTED"]
    assert len(reported) == 1
    assert isinstance(reflector.interruption, ConnectionFailed)


@pytest.mark.parametrize(
    ("last", "is_interrupted"),
    [(ConnectionFailed("no route"), True), (ApiError(404, "NotFound", "the server could not find it"), False)],
)
def test_interruption_lasts_until_the_kind_is_gone(
    monkeypatch: pytest.MonkeyPatch, last: ClusterError, is_interrupted: bool
) -> None:
    monkeypatch.setattr(backoff, "delay_after", lambda failures: 0.01)
    session = ScriptedSession(ConnectionFailed("no route"), last)
    watched = WatchedList("ClusterQueue", None, is_needed=False)
    reflector = Reflector(cast(Session, session), [watched], lambda event: None, retry_after=0.01)
    assert reflector.interruption is None
    reflector.start()
    assert session.enough.wait(20)
    reflector.stop()
    assert (reflector.interruption is not None) == is_interrupted

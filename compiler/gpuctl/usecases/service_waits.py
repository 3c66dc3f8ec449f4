"""Waiting and watching by the service: a minute at a time, however long it takes, though it is replaced meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from gpuctl.apply.plan.plan import Plan
from gpuctl.apply.run.wait_running import awaited
from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.pauses import jittered
from gpuctl.reading.job_rows import Identity, Row
from gpuctl.reading.wait_until import WaitedJob, WaitResult
from gpuctl.reading.watching import changed_rows
from gpuctl.usecases.looking import Reader
from gpuctl.usecases.service_client import OUTAGE, Refusal, ServiceClient, ServiceRefusal, error_of

_SLICES = (3.0, 15.0, 60.0)
"""Seconds of the first questions, and of all that come after: whoever waits is soon told for what."""
_BUSY = 2.0
_LOOK = 1.0
Value = TypeVar("Value")


class ToldWait(NamedTuple):
    """What came of waiting so far, and which are waited for still; ``said`` is what is being waited for."""

    results: list[WaitResult]
    waiting: list[WaitedJob]
    said: str


class ToldRunning(NamedTuple):
    """Does what was applied run? ``said`` is what is being waited for, "" for nothing; ``refusal`` why it does not."""

    said: str
    refusal: Refusal | None


def wait_by_service(
    reader: Reader, names: Sequence[str], condition: str, timeout: float | None, tell: Callable[[str], None]
) -> Iterator[WaitResult]:
    """As :func:`gpuctl.reading.wait_until.wait_for`."""
    assert reader.service is not None
    service, clock = reader.service, _Clock(timeout)
    named, known = list(dict.fromkeys(names)), list[WaitedJob]()

    def ask() -> ToldWait:
        arguments = {"names": named, "known": known, "condition": condition, "timeout": timeout, **clock.now()}
        return service.ask("wait-for-jobs", ToldWait, reader.scope, **arguments)

    while True:
        told = _patiently(service, ask, tell, clock)
        yield from told.results
        named, known = [], told.waiting
        if not known:
            return
        tell(told.said)
        clock.asked += 1


def wait_until_running_by_service(
    service: ServiceClient, plan: Plan, timeout: float, tell: Callable[[str], None]
) -> None:
    """As :func:`gpuctl.apply.run.wait_running.wait_until_running`.

    :raises ServiceRefusal: one failed, or ``timeout`` seconds were not enough.
    """
    clock, keys = _Clock(timeout), awaited(plan)

    def ask() -> ToldRunning:
        return service.ask("wait-until-running", ToldRunning, waiting=keys, timeout=timeout, **clock.now())

    while True:
        told = _patiently(service, ask, tell, clock)
        if told.refusal is not None:
            raise error_of(told.refusal, plan)
        if not told.said:
            return
        tell(told.said)
        clock.asked += 1


def watch_by_service(
    service: ServiceClient, read: Callable[[], Iterable[Row]], takes: Callable[[Row], bool]
) -> Iterator[list[Row]]:
    """As :func:`gpuctl.reading.watching.changes`, of rows that are read every second: the service watches by itself.

    :param takes: whether a row is wanted; those that are no more are not told of, and once more when they are again.
    """
    clock, shown, is_first = _Clock(None), dict[tuple[Identity, str], Row](), True
    while True:
        news = changed_rows(_patiently(service, read, lambda text: None, clock), shown)
        if news or is_first:
            yield [row for row in news if takes(row)]
        is_first = False
        time.sleep(_LOOK)


class _Clock:
    """How much is left of a timeout (None: there is no end), and how long the service may wait each time: ``asked`` is
    how often it has."""

    def __init__(self, timeout: float | None) -> None:
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self.asked = 0

    def now(self) -> dict[str, Any]:
        """The arguments of a question about time."""
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        return {"left": left, "within": _SLICES[min(self.asked, len(_SLICES) - 1)]}

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self._deadline is not None and time.monotonic() > self._deadline


def _patiently(service: ServiceClient, ask: Callable[[], Value], tell: Callable[[str], None], clock: _Clock) -> Value:
    """An answer, asked for again while the service is busy or away; nothing is changed by these questions.

    :raises ClusterError: it fails, or stays away.
    """
    end = time.monotonic() + OUTAGE
    while True:
        try:
            return ask()
        except (ConnectionFailed, ServiceRefusal) as error:
            busy = isinstance(error, ServiceRefusal) and error.status == 429
            over = clock.is_over if busy else not service.is_away(error) or time.monotonic() > end
            if over:
                raise
            tell("waiting until the service has time" if busy else "waiting until the service answers")
        time.sleep(jittered(_BUSY))

"""Failing servers and networks, in cases that take time: the command waits for a server, a lease or a timeout.

All cases run at the same time, started by the first of these tests; each test then checks its own result. The
conditions after a failure are those of ``test_server``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from fault_tools.documents import NEW, OLD
from fault_tools.expectations import (
    CLUSTER,
    assert_clear,
    assert_converges,
    assert_recoverable,
    assert_unchanged,
    assert_wanted,
)
from fault_tools.proxy import (
    Action,
    Exchange,
    Policy,
    Predicate,
    Request,
    cut_after,
    cut_before,
    delay,
    first_of,
    from_the_first,
    hang,
    hang_after,
    html,
    matching,
    nth,
    on,
    refuse,
    truncate,
)
from fault_tools.site import TIMEOUT, Base, Site, ends_workload, makes_job, site
from fault_tools.world import Snapshot
from fault_tools.zygote import Result, shared
from properties.scale import part_of

WORKERS = 6

Check = Callable[[Site, Snapshot], None]
"""The cases that start with the old documents running and a file with the new ones; they also get the expected objects.
"""


class Begun:
    """The checks of the tests that are run, under way."""

    def __init__(self, pool: ThreadPoolExecutor, run: Callable[[Check], None], checks: list[Check]) -> None:
        self._begin = partial(pool.submit, run)
        self._first = {check: self._begin(check) for check in checks}

    def result(self, check: Check) -> None:
        """Wait for a test's check; when the test is run again, so is the check."""
        (self._first.pop(check, None) or self._begin(check)).result()


@pytest.fixture(scope="module")
def begun(
    base: Base,
    shared_objects: None,
    wanted: Snapshot,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Begun]:
    """The checks, of which some are waited for at a time."""
    items = (item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path)
    # Of two threads that ask for it first, one would lose it.
    shared("gpuctl_usage")

    def run(check: Check) -> None:
        with site(base, "waiting", tmp_path_factory.mktemp("waiting")) as place:
            place.prepare(OLD)
            place.file.write_text(NEW)
            check(place, wanted)

    with ThreadPoolExecutor(WORKERS) as pool:
        yield Begun(pool, run, [item.callspec.params["check"] for item in items])


# Hung: the client's own timeout is a minute; here it is longer than passing failures are retried, as that is.

IMPATIENCE = 8
_IMPATIENT = f"""
import sys
from gpuctl.cli.main import run
from gpuctl.kube import api_requests
api_requests.READ_TIMEOUT = {IMPATIENCE}
sys.exit(run(sys.argv[1:]))
"""


def _impatient_apply(place: Site) -> Result:
    """Apply the file with a client whose timeout is shorter."""
    command = [_IMPATIENT, *place.apply_arguments]
    environment = {"KUBECONFIG": place.config}
    return shared("gpuctl_usage").start(command, env=environment, cwd=place.directory).wait(TIMEOUT)


def _hung_read(place: Site, wanted: Snapshot) -> None:
    old = place.snapshot()
    place.proxy.reset(on(matching("GET", "/jobs", watch=False), hang))
    assert_clear(_impatient_apply(place), CLUSTER, f"gave no answer within {IMPATIENCE} s")
    assert_unchanged(place, old)


def _hung_create(place: Site, wanted: Snapshot) -> None:
    old = place.snapshot()
    place.proxy.reset(on(nth(1, makes_job("v2")), hang_after))
    result = _impatient_apply(place)
    assert result.code == 0, result.stderr
    assert_wanted(place, old, wanted)
    assert_converges(place, old, wanted)


# A lease that is held for longer than the other waits.


def _second_apply(place: Site, wanted: Snapshot) -> None:
    old = place.snapshot()
    place.proxy.reset(on(ends_workload, hang))
    first = place.start(place.apply_arguments)
    place.base.api.wait(
        lambda: any(ends_workload(record.request) for record in place.proxy.records), "the first delete"
    )
    second = place.apply(place.direct)
    assert_clear(second, 1, f"process {first.pid}", "is applying in")
    first.kill()
    first.wait()
    place.proxy.reset()
    assert_recoverable(place, old, wanted)


# Failures that do not pass, in the middle: what was deleted is remembered.


LASTING: dict[str, tuple[Action, tuple[str, ...]]] = {
    "unauthorized": (refuse(401, "Unauthorized", "Unauthorized"), ("401",)),
    "503": (refuse(503, "ServiceUnavailable", "not now"), ("not now",)),
    "html": (html(200), ()),
    "cut": (cut_before, ()),
}


def _lasting(form: str, place: Site, wanted: Snapshot) -> None:
    old = place.snapshot()
    action, words = LASTING[form]
    place.proxy.reset(from_the_first(ends_workload, action))
    assert_clear(place.apply(None, "--timeout", "4s"), CLUSTER, "recover", *words)
    assert_recoverable(place, old, wanted)


def _away_at_the_end(place: Site, wanted: Snapshot) -> None:
    """All deletes were answered, and it is unknown whether the objects are gone: the output does not claim that they
    exist.
    """
    old = place.snapshot()
    place.proxy.reset(first_of(on(matching(watch=True), hang), from_the_first(nth(2, ends_workload), cut_before)))
    result = place.apply(None, "--timeout", "1s")
    assert_clear(result, CLUSTER, "whether it is gone is unknown", "cannot be reached", "recover")
    assert "still exists" not in result.stdout
    assert_recoverable(place, old, wanted)


def _unnoticed(place: Site, wanted: Snapshot) -> None:
    """A watch that says nothing, and too little time for the look that is taken now and then."""
    old = place.snapshot()
    place.proxy.reset(on(matching(watch=True), hang))
    # Long enough for the pods to end on a machine with other work; the look comes after ten seconds.
    result = place.apply(None, "--timeout", "8s")
    assert result.code == 0, f"{result.stderr}{result.stdout}"
    assert_wanted(place, old, wanted)
    assert_converges(place, old, wanted)


# Temporary failures: the command continues.


def _half(request: Request) -> bool:
    return request.number % 2 == 1


def _for_a_while(predicate: Predicate, action: Action, seconds: float = 3) -> Policy:
    """From the first request that a predicate finds, all fail for some seconds."""
    lock = threading.Lock()
    end: list[float] = []

    def policy(request: Request) -> Action | None:
        with lock:
            if not end and predicate(request):
                end.append(time.monotonic() + seconds)
        return action if end and time.monotonic() < end[0] else None

    return policy


def _acted(status: int, reason: str) -> Action:
    """The server acts, and the answer is an error of something before it."""

    def act(exchange: Exchange) -> None:
        exchange.forward()
        refuse(status, reason, "the server is currently unable to handle the request")(exchange)

    return act


PASSING: dict[str, Policy] = {
    "429-burst": _for_a_while(matching(), refuse(429, "TooManyRequests", "too many requests", Retry_After="1")),
    "503-burst": _for_a_while(ends_workload, refuse(503, "ServiceUnavailable", "not now")),
    "429-write": on(nth(1, matching(writes=True), last=6), refuse(429, "TooManyRequests", "try again")),
    "500": on(_half, refuse(500, "InternalError", "etcdserver: leader changed")),
    "503": on(_half, refuse(503, "ServiceUnavailable", "not now")),
    "503-html": on(_half, html(503)),
    "504": on(_half, refuse(504, "Timeout", "request did not complete within the allotted timeout")),
    "504-acted": on(lambda request: request.is_write and _half(request), _acted(504, "Timeout")),
    "cut-before": on(_half, cut_before),
    "cut-after": on(_half, cut_after),
    "cut-in-the-middle": on(_half, truncate(framed=False)),
    "slow": on(lambda request: True, delay(0.3)),
    "no-watch": on(matching(watch=True), cut_before),
    "silent-watch": on(matching(watch=True), hang),
    "expired-watch": on(matching(watch=True), refuse(410, "Expired", "too old resource version")),
}


def _passing(form: str, place: Site, wanted: Snapshot) -> None:
    old = place.snapshot()
    place.proxy.reset(PASSING[form])
    result = place.apply()
    assert result.code == 0, f"{result.stderr}{result.stdout}"
    assert_wanted(place, old, wanted)
    assert_converges(place, old, wanted)


CASES = [
    # The longest are the first.
    pytest.param(_hung_read, id="read-without-an-answer"),
    pytest.param(_hung_create, id="create-without-an-answer"),
    pytest.param(_second_apply, id="second-apply"),
    *(pytest.param(partial(_lasting, form), id=f"lasting-{form}", marks=pytest.mark.slow) for form in LASTING),
    pytest.param(_away_at_the_end, id="server-away-at-the-timeout", marks=pytest.mark.slow),
    pytest.param(_unnoticed, id="deletions-without-a-watch", marks=pytest.mark.slow),
    *(pytest.param(partial(_passing, form), id=f"passing-{form}") for form in part_of(PASSING, 3)),
]


@pytest.mark.parametrize("check", CASES)
def test_failure_that_takes_time(begun: Begun, check: Check) -> None:
    begun.result(check)

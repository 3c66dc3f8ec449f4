"""The API calls of a command, told apart by their kind, to disturb it at one of them."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Literal, NamedTuple, Protocol, TypeVar

from fault_tools.proxy import Action, Predicate, Request, after, before, meanwhile
from fault_tools.site import Victim
from properties.scale import part_of

Kind = Literal["call", "look", "write", "read"]
"""Which requests are counted: all, the reads before the first write, the writes, or the reads from then on."""
PARTS = 4
"""Of how many parts of the calls `make test` takes one: see :func:`properties.scale.part_of`."""


class Call(NamedTuple):
    """Which request is the one to kill at, the ``number``-th of its kind, and how: a key of :data:`MOMENTS`."""

    kind: Kind
    number: int
    moment: str

    @property
    def name(self) -> str:
        """For namespaces and directories."""
        return f"{self.kind}-{self.number}-{self.moment}"


MOMENTS: dict[str, Callable[[Victim], Action]] = {
    "before": lambda victim: before(lambda: victim().kill()),
    "after": lambda victim: after(lambda: victim().kill()),
    "interrupt": lambda victim: meanwhile(lambda: victim().signal(signal.SIGINT)),
}


class Counter:
    """Tells the kinds of requests, and where the one to kill at is, as they come in."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.found: Request | None = None
        self._seen: dict[Kind, int] = {"call": 0, "look": 0, "write": 0, "read": 0}
        self._lock = threading.Lock()

    def is_the_call(self, request: Request) -> bool:
        """Whether it is this request."""
        with self._lock:
            own: Kind = "write" if request.is_write else "read" if self._seen["write"] else "look"
            for kind in ("call", own):
                self._seen[kind] += 1
                if kind == self.call.kind and self._seen[kind] == self.call.number:
                    self.found = request
            return self.found is request

    @property
    def seen(self) -> dict[Kind, int]:
        """How many there were of each kind."""
        return dict(self._seen)


class First:
    """Tells the first request that a predicate finds, as :class:`Counter` tells the n-th of a kind."""

    def __init__(self, predicate: Predicate) -> None:
        self.found: Request | None = None
        self._predicate = predicate
        self._lock = threading.Lock()

    def is_the_call(self, request: Request) -> bool:
        """Whether it is this request."""
        with self._lock:
            if self.found is None and self._predicate(request):
                self.found = request
            return self.found is request


class Reaching(Protocol):
    """How a run went, as far as :func:`to_the_last` needs it."""

    @property
    def reached(self) -> bool:
        """Whether there was the call at which the run was to be disturbed."""
        ...


Outcome = TypeVar("Outcome", bound=Reaching)


def to_the_last(run: Callable[[int], list[Outcome]], expected: int, workers: int, parts: int = 1) -> list[Outcome]:
    """Runs disturbed at the first call, at the second, and so on, until one is not reached.

    :param expected: how many calls there are, about: a slow machine renews its leases more often. They go side by side.
    :param parts: of how many parts of these calls a smaller run takes one.
    """
    numbers = [*part_of(range(1, expected + 1), parts), expected + 1]
    with ThreadPoolExecutor(workers) as pool:
        outcomes = [outcome for several in pool.map(run, numbers) for outcome in several]
    for number in count(expected + 2):
        if not outcomes[-1].reached:
            break
        outcomes += run(number)
    return outcomes

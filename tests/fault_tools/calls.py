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
"""The requests that are counted: all, reads before the first write, writes, or reads after the first write."""
PARTS = 4
"""`make test` takes one of this many parts of the calls: see :func:`properties.scale.part_of`."""


class Call(NamedTuple):
    """The request at which a command is killed: the ``number``-th of its kind. ``how`` is a key of :data:`MOMENTS`."""

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
    """Counts requests by kind, and recognizes the one to kill at."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.found: Request | None = None
        self._seen: dict[Kind, int] = {"call": 0, "look": 0, "write": 0, "read": 0}
        self._lock = threading.Lock()

    def is_the_call(self, request: Request) -> bool:
        """Return True for the request to kill at."""
        with self._lock:
            own: Kind = "write" if request.is_write else "read" if self._seen["write"] else "look"
            for kind in ("call", own):
                self._seen[kind] += 1
                if kind == self.call.kind and self._seen[kind] == self.call.number:
                    self.found = request
            return self.found is request

    @property
    def seen(self) -> dict[Kind, int]:
        """Return the number of requests of each kind."""
        return dict(self._seen)


class First:
    """Recognizes the first request that a predicate accepts, as :class:`Counter` does for the n-th of a kind."""

    def __init__(self, predicate: Predicate) -> None:
        self.found: Request | None = None
        self._predicate = predicate
        self._lock = threading.Lock()

    def is_the_call(self, request: Request) -> bool:
        """Return True for the request to kill at."""
        with self._lock:
            if self.found is None and self._predicate(request):
                self.found = request
            return self.found is request


class Reaching(Protocol):
    """The result of a run, as far as :func:`to_the_last` needs it."""

    @property
    def reached(self) -> bool:
        """True if the run made the call at which it was to be disturbed."""
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

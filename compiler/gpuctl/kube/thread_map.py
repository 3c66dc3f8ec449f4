"""A few concurrent calls, each in its own thread.

``concurrent.futures`` imports logging, which takes longer than a small cluster needs to respond.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Call(threading.Thread, Generic[Item, Result]):
    def __init__(self, function: Callable[[Item], Result], item: Item) -> None:
        super().__init__(name="gpuctl")
        self._function = function
        self._item = item
        self._context = copy_context()
        self._results: list[Result] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._results.append(self._context.run(self._function, self._item))
        except BaseException as error:
            # Raised again in the caller's thread, by `result`.
            self._error = error

    def result(self) -> Result:
        self.join()
        if self._error is not None:
            raise self._error
        return self._results[0]


def start_each(function: Callable[[Any], Result], items: Sequence[Any]) -> Callable[[], list[Result]]:
    """Start ``function`` for every item. The returned callable waits and returns the results in order.

    If several calls fail, it raises the exception of the first item, without waiting for the later ones.
    """
    calls = [_Call(function, item) for item in items]
    for call in calls:
        call.start()
    return lambda: [call.result() for call in calls]

"""A few calls at the same time, each in a thread of its own.

Python's own pools of threads bring logging along, which takes longer to import than a small cluster to answer.
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
            # It is the caller's, who waits for the result.
            self._error = error

    def result(self) -> Result:
        self.join()
        if self._error is not None:
            raise self._error
        return self._results[0]


def start_each(function: Callable[[Any], Result], items: Sequence[Any]) -> Callable[[], list[Result]]:
    """Begin with ``function`` of every item. What is returned waits for the results, and has them in order.

    Of several exceptions it raises that of the first item, without waiting for those behind it.
    """
    calls = [_Call(function, item) for item in items]
    for call in calls:
        call.start()
    return lambda: [call.result() for call in calls]

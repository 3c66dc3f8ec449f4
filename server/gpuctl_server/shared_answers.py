"""Answers that take long to compute, shared by requests that accept an older one."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Query

from gpuctl.language.sentences import request_translation
from gpuctl_server.access.caller import Caller, TokenCaller

LONGEST = 300.0
_MOST = 64
MaxAge = Annotated[
    float,
    Query(
        alias="maxAge",
        ge=0,
        le=LONGEST,
        description="Maximum age of the answer, seconds: that of another request with the same rights may be returned. "
        "Default: it is computed now.",
    ),
]


@dataclass
class _Slot:
    """An answer, and the time at which its computation began (monotonic)."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    begun: float = float("-inf")
    answer: Any = None


class SharedAnswers:
    """The last answers by question. Requests for the same question wait for one computation. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[Hashable, _Slot] = OrderedDict()

    def find(self, caller: Caller, question: Hashable, max_age: float, compute: Callable[[], Any]) -> Any:
        """Return an answer whose computation began at most ``max_age`` seconds ago.

        :param question: identifies what is computed, together with the rights and the language of the caller. Rights
            that only the API server knows are not compared: the answer is computed for each of these callers.
        """
        if not max_age or not isinstance(caller, TokenCaller):
            return compute()
        with self._lock:
            key = (caller.rights, caller.home, request_translation() is None, question)
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            while len(self._slots) > _MOST:
                self._slots.popitem(last=False)
        with slot.lock:
            if slot.begun < time.monotonic() - max_age:
                begun = time.monotonic()
                slot.answer, slot.begun = compute(), begun
            return slot.answer

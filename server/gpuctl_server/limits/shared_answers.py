"""Answers that take long to compute, shared by requests that accept an older one."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Annotated, Any

from fastapi import Query

from gpuctl.hints import wording
from gpuctl.language.sentences import current_translation
from gpuctl_server.access.caller import Caller, TokenCaller
from gpuctl_usage.ttl_cache import TtlCache

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


class SharedAnswers:
    """The last answers by question. Requests for the same question wait for one computation. Safe for threads."""

    def __init__(self) -> None:
        self._answers: TtlCache[Hashable, Any] = TtlCache(LONGEST, _MOST)

    def find(self, caller: Caller, question: Hashable, max_age: float, compute: Callable[[], Any]) -> Any:
        """Return an answer whose computation began at most ``max_age`` seconds ago.

        :param question: identifies what is computed, together with the rights, the language and the surface of the
            caller. Rights that only the API server knows are not compared: the answer is computed for each of these
            callers.
        """
        if not max_age or not isinstance(caller, TokenCaller):
            return compute()
        translation = current_translation()

        def made() -> tuple[Any, bool]:
            return compute(), translation is not None and translation.is_used

        key = (caller.rights, caller.home, translation is None, wording(), question)
        answer, is_translated = self._answers.get(key, made, max_age)
        if translation is not None and is_translated:
            translation.is_used = True
        return answer

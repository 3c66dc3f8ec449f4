"""The schema library without what it imports to read one date: when it was built, which nobody here asks for.

For that it imports a parser of mail, and with it sockets and calendars: a twentieth of a cold start. So a module that
reads no dates stands in the parser's place meanwhile.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gpuctl.standing_in import StandIn

_PARSER = "email.utils"


class _NoDates(StandIn):
    def parsedate_to_datetime(self, data: str) -> None:
        """No date, whatever ``data`` says."""


@contextmanager
def without_mail() -> Iterator[None]:
    """Within it the library may be imported. Another thread could meet the stand-in, so beside one there is none."""
    if _PARSER in sys.modules or threading.active_count() > 1:
        yield
        return
    stand_in = _NoDates(_PARSER)
    sys.modules[_PARSER] = stand_in
    try:
        yield
    finally:
        if sys.modules.get(_PARSER) is stand_in:
            del sys.modules[_PARSER]

"""One who follows a log: what is theirs of it, and what waits for them. Lives on the event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuctl_server.logs.log_entries import AfterPosition, LogEntry, LogPosition, LogPositions

MOST_WAITING = 5000
MOST_BYTES = 4 * 1024 * 1024
"""What may wait for a follower who reads slower than is written: lines, and bytes of them."""
_BEHIND_LINES = 500
_BEHIND_BYTES = 512 * 1024
_WAITED_FOR = 2.0
"""Seconds for which everybody waits for one who is behind: a burst cuts off nobody who reads."""
_MOST_PLACES = 256


class LogSelection(NamedTuple):
    """What of a log somebody wants: its last ``tail`` lines of each pod, since a time (nanoseconds since 1970), of the
    pod with this uid alone, only lines that contain ``grep``; or what comes after ``marks``, wherever they had come."""

    tail: int | None = None
    since: int | None = None
    uid: str | None = None
    grep: str = ""
    marks: LogPositions | None = None


class LogEnd(NamedTuple):
    """Nothing more will come: ``code`` is a WebSocket's (RFC 6455), ``reason`` a sentence."""

    code: int
    reason: str


class LogNote(NamedTuple):
    """Something to know beside the lines: ``kind`` is notice or problem; ``uid`` the pod's that it is about, None where
    that is not said."""

    kind: str
    pod: str | None
    message: str
    uid: str | None = None


FollowedItem = LogEntry | LogNote
TOO_SLOW = 1013
HAS_ENDED = 1000


class LogFollower:
    """``cut`` is set when more has come than may wait for them."""

    def __init__(self, selection: LogSelection) -> None:
        self.selection = selection
        self.cut = asyncio.Event()
        self.places: dict[bytes, LogPosition] = dict(selection.marks.places) if selection.marks else {}
        self.whole = selection.marks is not None and selection.marks.whole
        self.overflowed = False
        self._last = ""
        self._catching_up = False
        self._after: dict[bytes, AfterPosition] = {}
        self._past: deque[LogEntry] = deque()
        self._waiting: deque[FollowedItem] = deque()
        self._size = 0
        self._behind_since: float | None = None
        self._end: LogEnd | None = None
        self._news = asyncio.Event()

    @property
    def marks(self) -> LogPositions:
        """How far they have come."""
        return LogPositions(self.places, self.whole)

    def too_slow(self) -> LogEnd:
        """What is told to one who was cut off."""
        since = f"since={self._last}" if self._last else "tail"
        return LogEnd(TOO_SLOW, f"too slow: lines were left out; connect again with {since} to go on")

    def begin(self, entries: Iterable[LogEntry], places: Mapping[bytes, LogPosition]) -> None:
        """Give them the past, which is theirs to read at their own speed; ``places`` are where each log begins."""
        self.places |= places
        self.whole = True
        self._past.extend(entries)
        self._news.set()

    def collect(self) -> None:
        """The past is being read: what comes meanwhile waits, as far as there is room."""
        self._catching_up, self.overflowed = True, False
        self._waiting.clear()
        self._size = 0

    def go_live(self, heads: Mapping[bytes, LogPosition]) -> None:
        """The past was read, up to :attr:`places`: of what has come since :meth:`collect`, and of what comes, the rest
        is new. ``heads`` is how far the stream was then."""
        self._catching_up, self.whole = False, True
        for key, head in heads.items():
            self.places.setdefault(key, head)
        self._after = {key: AfterPosition(place) for key, place in self.places.items() if place != heads.get(key)}
        kept = [item for item in self._waiting if not isinstance(item, LogEntry) or self._is_new(item)]
        self._waiting = deque(kept)
        self._size = sum(_size(item) for item in kept)
        self._news.set()

    def wants(self, entry: LogEntry) -> bool:
        """Whether a line is theirs."""
        return self.selection.uid in (None, entry.uid) and self.selection.grep in entry.text

    def offer(self, item: FollowedItem) -> None:
        """Something has come."""
        if self.cut.is_set() or self.overflowed or self._end is not None:
            return
        if isinstance(item, LogNote) and self.selection.uid is not None and item.uid not in (None, self.selection.uid):
            return
        if isinstance(item, LogEntry):
            if not self._catching_up and not self._is_new(item):
                return
            if not self.wants(item):
                if not (self._past or self._waiting or self._catching_up) and self.selection.uid in (None, item.uid):
                    self.reached(item)
                return
        self._waiting.append(item)
        self._size += _size(item)
        if (self._size > MOST_BYTES and len(self._waiting) > 1) or len(self._waiting) > MOST_WAITING:
            self._waiting.clear()
            self._size = 0
            self.overflowed = self._catching_up
            if not self._catching_up:
                self.cut.set()
        self._news.set()

    def is_waited_for(self, now: float) -> bool:
        """Whether they are behind, but not for long."""
        behind = len(self._waiting) > _BEHIND_LINES or self._size > _BEHIND_BYTES
        if not behind or self._catching_up or self.cut.is_set():
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = now
        return now < self._behind_since + _WAITED_FOR

    def finish(self, end: LogEnd) -> None:
        """Nothing more comes after what waits."""
        self._end = self._end or end
        self._news.set()

    def reached(self, entry: LogEntry) -> None:
        """They have come as far as this."""
        self.places[entry.source] = entry.mark
        self._last = entry.second
        if len(self.places) > _MOST_PLACES:
            del self.places[next(iter(self.places))]

    async def next(self, patience: float) -> FollowedItem | LogEnd | None:
        """What comes next; None when nothing has for some seconds."""
        if not (self._past or self._waiting) and self._end is None:
            self._news.clear()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), patience)
        if self.cut.is_set():
            return self.too_slow()
        if self._past:
            item: FollowedItem = self._past.popleft()
        elif self._waiting:
            item = self._waiting.popleft()
            self._size -= _size(item)
        else:
            return self._end
        if isinstance(item, LogEntry):
            self.reached(item)
        return item

    def _is_new(self, entry: LogEntry) -> bool:
        after = self._after.get(entry.source)
        return after is None or after.takes(entry)


def _size(item: FollowedItem) -> int:
    return item.size if isinstance(item, LogEntry) else 0

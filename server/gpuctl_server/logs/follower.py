"""A follower of a log: its selection, and the lines that wait for it. Used on the event loop only."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpuctl.language.sentences import say
from gpuctl_server.logs.log_entries import MOST_POSITIONS, AfterPosition, LogEntry, LogPosition, LogPositions

MOST_WAITING = 5000
MOST_BYTES = 4 * 1024 * 1024
"""Maximum number of lines, and of their bytes, that wait for a slow client."""
_BEHIND_LINES = 500
_BEHIND_BYTES = 512 * 1024
_WAITED_FOR = 2.0
"""Maximum number of seconds for which the stream waits for a slow client, so that a burst does not cut it off."""
_REMEMBERED = 10_000
"""Number of containers whose positions are kept. A log whose position is forgotten is read again."""


class LogSelection(NamedTuple):
    """The requested lines.

    :param tail: number of last lines of each pod; None: all.
    :param since: earliest time, nanoseconds since 1970; None: no limit.
    :param uid: only the pod with this uid; None: all pods.
    :param grep: only lines that contain this text.
    :param resume_from: only lines after these positions, regardless of ``tail`` and ``since``.
    """

    tail: int | None = None
    since: int | None = None
    uid: str | None = None
    grep: str = ""
    resume_from: LogPositions | None = None

    def position_in(self, key: bytes) -> LogPosition | None:
        """Return the position after which the lines of a log are requested; None if its lines are not limited so."""
        return self.resume_from.position_in(key) if self.resume_from is not None else None


class LogEnd(NamedTuple):
    """The end of the stream. ``code`` is a close code of WebSockets (RFC 6455), ``reason`` a sentence."""

    code: int
    reason: str


class LogNote(NamedTuple):
    """A message beside the lines.

    :param kind: notice or problem.
    :param uid: uid of the pod; None if unknown.
    :param interruption: why the log of the pod cannot be read at the moment; "" when it can be read again; None for
        other messages.
    """

    kind: str
    pod: str | None
    message: str
    uid: str | None = None
    interruption: str | None = None


FollowedItem = LogEntry | LogNote
TOO_SLOW = 1013
HAS_ENDED = 1000


class LogSubscription:
    """The lines that wait for a client that follows a log. ``cut`` is set when more lines wait than allowed."""

    def __init__(self, selection: LogSelection) -> None:
        self.selection = selection
        self.cut = asyncio.Event()
        self.positions: dict[bytes, LogPosition] = (
            dict(selection.resume_from.positions) if selection.resume_from else {}
        )
        self.whole = selection.resume_from is not None and selection.resume_from.whole
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
    def resume_positions(self) -> LogPositions:
        """The positions at which the client can resume: those of the latest lines, if there are too many."""
        return LogPositions(dict([*self.positions.items()][-MOST_POSITIONS:]), self.whole)

    def too_slow(self) -> LogEnd:
        """Return the end for a client that was cut off."""
        since = f"since={self._last}" if self._last else "tail"
        return LogEnd(
            TOO_SLOW, say("too slow: lines were dropped; connect again with {since} to continue", since=since)
        )

    def begin(self, entries: Iterable[LogEntry], positions: Mapping[bytes, LogPosition]) -> None:
        """Add past lines, which the client reads at its own speed. ``positions`` are those before the first of them."""
        self.positions |= positions
        self.whole = True
        self._past.extend(entries)
        self._news.set()

    def begin_catch_up(self) -> None:
        """Collect new lines, up to a limit, while past lines are being read."""
        self._catching_up, self.overflowed = True, False
        self._waiting.clear()
        self._size = 0

    def go_live(self, heads: Mapping[bytes, LogPosition]) -> None:
        """Continue with new lines, after past lines were read up to :attr:`positions`.

        :param heads: positions of the stream when :meth:`begin_catch_up` was called. Lines between them are not
        repeated.
        """
        self._catching_up, self.whole = False, True
        for key, head in heads.items():
            self.positions.setdefault(key, head)
        self._after = {
            key: AfterPosition(position) for key, position in self.positions.items() if position != heads.get(key)
        }
        kept = [item for item in self._waiting if not isinstance(item, LogEntry) or self._is_new(item)]
        self._waiting = deque(kept)
        self._size = sum(_size(item) for item in kept)
        self._news.set()

    def wants(self, entry: LogEntry) -> bool:
        """Return True if the selection has a line."""
        return self.selection.uid in (None, entry.uid) and self.selection.grep in entry.text

    def offer(self, item: FollowedItem) -> None:
        """Add a new item, if the selection has it."""
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
        """Return True if the client has recently fallen behind, so that the stream should wait for it."""
        behind = len(self._waiting) > _BEHIND_LINES or self._size > _BEHIND_BYTES
        if not behind or self._catching_up or self.cut.is_set():
            self._behind_since = None
            return False
        if self._behind_since is None:
            self._behind_since = now
        return now < self._behind_since + _WAITED_FOR

    def finish(self, end: LogEnd) -> None:
        """End after the waiting items."""
        self._end = self._end or end
        self._news.set()

    def reached(self, entry: LogEntry) -> None:
        """Note that the client has received a line."""
        # The positions stand in the order of their lines.
        self.positions.pop(entry.source, None)
        self.positions[entry.source] = entry.position
        self._last = entry.second
        if len(self.positions) > _REMEMBERED:
            del self.positions[next(iter(self.positions))]

    async def next(self, patience: float) -> FollowedItem | LogEnd | None:
        """Return the next item; None if none arrived within ``patience`` seconds."""
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

"""Lines of followed logs, and positions in logs at which a client can resume."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from gpuctl.api.log_answers import log_event
from gpuctl.language.sentences import say
from gpuctl.objects.timestamps import format_timestamp
from gpuctl.reading.logs.log_parsing import LogLine, instant
from gpuctl.reading.logs.log_streams import ContainerLog

LONGEST = 128 * 1024
"""Maximum size of a line that is sent in one piece, bytes."""
MOST_POSITIONS = 360
"""Maximum number of positions that a client gets. Proxies reject headers of more than 8 KB."""
_KEY = 6
_RECENT = 512
"""Number of times of a log that are remembered. Lines of standard output and standard error are nearly in order."""
_SECOND = 1_000_000_000
_LATE = 60 * _SECOND
"""Nanoseconds by which clocks of nodes may differ, or a line may arrive late."""


class InvalidPositions(ValueError):
    """A text does not encode positions."""


class LogPosition(NamedTuple):
    """A position in the log of one container: after the ``number``-th line (from 1) of a time (nanoseconds since 1970).

    Several lines may have the same time, and times are not strictly ascending, because standard output and standard
    error are two streams. The order of a log's lines never changes, so that a position identifies one line.
    """

    time: int
    number: int


BEGINNING = LogPosition(0, 0)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A line, shared by all followers. ``source`` is the :func:`source_key` of its container."""

    source: bytes
    uid: str
    position: LogPosition
    text: str
    frame: str

    @property
    def size(self) -> int:
        """Approximate size in memory, bytes."""
        return 2 * len(self.frame) + 400

    @property
    def second(self) -> str:
        """Time of the line to the second, RFC 3339."""
        return format_timestamp(self.position.time // _SECOND)


def source_key(uid: str, container: str) -> bytes:
    """Return the short key of a container of a pod."""
    return hashlib.sha256(f"{uid}/{container}".encode()).digest()[:_KEY]


class LogEntries:
    """Makes entries of a container's lines. A long line is always split at the same places."""

    def __init__(self, source: ContainerLog) -> None:
        self.uid = str(source.pod["metadata"]["uid"])
        self.key = source_key(self.uid, source.container)
        self._pod = source.name
        self._container = source.container
        self._numbers: dict[int, int] = {}
        self._stamp = ""
        self._rest = b""

    def of(self, lines: Iterable[LogLine]) -> Iterator[LogEntry]:
        """Yield the entries that these lines complete."""
        for line in lines:
            if self._rest and line.stamp != self._stamp:
                yield self._entry(self._stamp, self._rest)
                self._rest = b""
            data, self._stamp = self._rest + line.text, line.stamp
            while len(data) > LONGEST:
                cut = LONGEST
                # Do not split within a UTF-8 character.
                while cut > LONGEST - 4 and data[cut] & 0xC0 == 0x80:
                    cut -= 1
                yield self._entry(line.stamp, data[:cut], ends=False)
                data = data[cut:]
            if line.ends:
                yield self._entry(line.stamp, data)
                data = b""
            self._rest = data

    def _entry(self, stamp: str, data: bytes, *, ends: bool = True) -> LogEntry:
        time = instant(stamp)
        number = self._numbers[time] = self._numbers.get(time, 0) + 1
        if len(self._numbers) > _RECENT:
            for old in list(self._numbers)[: _RECENT // 2]:
                del self._numbers[old]
        value = log_event(self._pod, self._container, LogLine(stamp, data, ends))
        return LogEntry(
            self.key, self.uid, LogPosition(time, number), value["text"], json.dumps(value, ensure_ascii=False)
        )


class AfterPosition:
    """Filters the entries of a container: keeps those after a position. The first entry must not come after it by more
    than one line.
    """

    def __init__(self, position: LogPosition) -> None:
        self._position = position
        self._reached = position == BEGINNING
        self._begun = False

    def takes(self, entry: LogEntry) -> bool:
        """Return True if an entry comes after the position. Must be called for all entries in order."""
        if self._reached:
            return True
        if entry.position == self._position:
            self._reached = True
            return False
        # The position is no longer in the log: it was rotated, or another run of the container has begun.
        lost = (
            entry.position.time > self._position.time + _SECOND
            if self._begun
            else entry.position.time > self._position.time
        )
        self._begun, self._reached = True, lost
        return lost


class LogPositions(NamedTuple):
    """Positions in several logs. ``whole`` is True if a log without a position is new, and is read from its start.

    If there are :data:`MOST_POSITIONS`, those of the logs without a line for the longest time were left out.
    """

    positions: Mapping[bytes, LogPosition]
    whole: bool

    def position_in(self, key: bytes) -> LogPosition | None:
        """Return the position in a log; if it may have been left out, one before the first line that is missing."""
        if key in self.positions or len(self.positions) < MOST_POSITIONS:
            return self.positions.get(key)
        times = [position.time for position in self.positions.values() if position != BEGINNING]
        return LogPosition(min(times) - _LATE, 0) if times else None

    def text(self) -> str:
        """Encode the positions for a client. :func:`parse_positions` decodes them."""
        parts = [
            struct.pack(f">{_KEY}sQH", key, position.time, min(position.number, 0xFFFF))
            for key, position in self.positions.items()
        ]
        return base64.urlsafe_b64encode(bytes([1, self.whole]) + b"".join(parts)).rstrip(b"=").decode()


def parse_positions(text: str) -> LogPositions:
    """Decode the text of :meth:`LogPositions.text`.

    :raises InvalidPositions: the text is not such an encoding.
    """
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        if data[:1] != b"\1" or data[1:2] not in (b"\0", b"\1"):
            raise InvalidPositions
        parts = struct.iter_unpack(f">{_KEY}sQH", data[2:])
        return LogPositions({key: LogPosition(time, number) for key, time, number in parts}, bool(data[1]))
    except (binascii.Error, struct.error, ValueError):
        raise InvalidPositions(say("it is not the id of an event of this service")) from None

"""Parse the timestamped lines of a log stream, and find where to continue after a stream breaks."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from gpuctl.objects.timestamps import format_timestamp, parse_timestamp

_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ?")
_BAR = 16 * 1024
"""An unfinished line of this length (bytes) is passed on up to its last carriage return: a progress bar may never end
its line.
"""
LONGEST = 4 * 1024 * 1024
"""An unfinished line of this length (bytes) is passed on in pieces."""
_RECENT = 10_000
"""Number of recent timestamps kept to recognize repeated lines after a stream is reopened."""


class LogLine(NamedTuple):
    """A line of a log, without its line end.

    :param stamp: time at which the node received it (RFC 3339, nanoseconds); "" for a message from the kubelet.
    :param ends: False for a piece of a long line that the next LogLine continues.
    """

    stamp: str
    text: bytes
    ends: bool = True


def instant(stamp: str) -> int:
    """Return a timestamp as nanoseconds since 1970, whatever its time zone; 0 for ""."""
    match = _STAMP.match(stamp.encode())
    if match is None:
        return 0
    fraction = (match[2] or b"0").ljust(9, b"0")
    return _second(match[1].decode(), match[3].decode()) * 1_000_000_000 + int(fraction)


@lru_cache(maxsize=4096)
def _second(text: str, zone: str) -> int:
    return int(parse_timestamp(text + zone).timestamp())


def parse(portions: Iterable[bytes]) -> Iterator[list[LogLine]]:
    """Yield the lines of each chunk of a stream with timestamps.

    An unfinished last line is returned if the stream ends in order, and dropped if it breaks.
    """
    rest = b""
    stamp: str | None = None
    for portion in portions:
        *whole, rest = (rest + portion).split(b"\n")
        found = []
        for data in whole:
            line = _line(data) if stamp is None else LogLine(stamp, data)
            stamp = None
            found.append(line)
        cut = _cut(rest)
        if cut:
            piece = _line(rest[:cut]) if stamp is None else LogLine(stamp, rest[:cut])
            found.append(piece._replace(ends=False))
            stamp, rest = piece.stamp, rest[cut:]
        if found:
            yield found
    if rest or stamp is not None:
        yield [_line(rest) if stamp is None else LogLine(stamp, rest)]


def _line(data: bytes) -> LogLine:
    match = _STAMP.match(data)
    if match is None:
        return LogLine("", data)
    return LogLine(match[0].decode().rstrip(" "), data[match.end() :])


def _cut(rest: bytes) -> int:
    """Return how many bytes of an unfinished line to pass on now, without splitting a character."""
    if len(rest) >= _BAR:
        bar = rest.rfind(b"\r") + 1
        if bar:
            return bar
    if len(rest) < LONGEST:
        return 0
    cut = len(rest)
    while cut > len(rest) - 4 and rest[cut - 1] & 0xC0 == 0x80:
        cut -= 1
    return cut - 1 if rest[cut - 1] & 0xC0 == 0xC0 else len(rest)


class Position:
    """The position in a log up to which lines were passed on, so that a new stream neither repeats nor skips lines.

    The API's ``sinceTime`` has whole seconds, so repeated lines must be recognized by their timestamps. Many lines may
    share a second or a timestamp, and stdout and stderr may be slightly out of order.
    """

    def __init__(self) -> None:
        self._recent: deque[str] = deque(maxlen=_RECENT)
        self._open: tuple[str, int] | None = None
        self._known: Counter[str] | None = None
        self._oldest = self._until = 0
        self._skip: tuple[str, int] | None = None

    @property
    def since(self) -> str | None:
        """Return ``sinceTime`` for a new stream, one second early for lines out of order; None at the start."""
        if not self._recent and self._open is None:
            return None
        stamp = self._open[0] if self._open is not None else self._recent[-1]
        return format_timestamp(instant(stamp) // 1_000_000_000 - 1)

    def resume(self) -> None:
        """Prepare for a new stream that starts at :attr:`since`."""
        self._known = Counter(self._recent) if self._recent else None
        self._oldest = instant(self._recent[0]) if self._recent else 0
        self._until = max(map(instant, self._recent), default=0)
        self._skip = self._open

    def fresh(self, lines: Iterable[LogLine]) -> list[LogLine]:
        """Return the lines that were not passed on before, and mark them as passed on."""
        result = []
        for line in lines:
            if self._is_repeated(line):
                continue
            left = self._unseen(line)
            if left is None:
                continue
            if line.stamp and left.ends:
                self._recent.append(line.stamp)
                self._open = None
            elif line.stamp:
                before = self._open[1] if self._open is not None and self._open[0] == line.stamp else 0
                self._open = (line.stamp, before + len(left.text))
            result.append(left)
        return result

    def _is_repeated(self, line: LogLine) -> bool:
        if self._known is None or not line.stamp:
            return False
        if self._known[line.stamp]:
            # The pieces of a long line share one timestamp; only the last piece uses it up.
            self._known[line.stamp] -= line.ends
            return True
        time = instant(line.stamp)
        if time > self._until + 1_000_000_000:
            self._known = None
        return time < self._oldest

    def _unseen(self, line: LogLine) -> LogLine | None:
        """Return the rest of a line whose beginning was passed on before the stream broke; None if nothing is left."""
        if self._skip is None or line.stamp != self._skip[0]:
            return line
        stamp, length = self._skip
        text = line.text[length:]
        self._skip = (stamp, length - len(line.text)) if len(line.text) < length else None
        if line.ends:
            self._skip = None
            return line._replace(text=text)
        return line._replace(text=text) if text else None

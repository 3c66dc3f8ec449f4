"""Printing log lines: prefixes, colours and matches. Escape sequences of containers cannot control the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gpuctl.api.log_answers import log_line
from gpuctl.reading.logs.log_parsing import LogLine

_COLOURS = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
_RESET, _FOUND, _GONE_ON = "\x1b[0m", "\x1b[1;31m", "\x1b[22;39m"
_WIDEST = 40
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
# ECMA-48: control sequences, control strings (titles, links) up to their terminator, other escapes, control characters.
_CONTROLS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"
)


def strip_controls(text: str) -> str:
    """Remove everything that configures the terminal or moves the cursor out of its line; colours stay."""
    return _CONTROLS.sub(lambda match: match[0] if _SGR.fullmatch(match[0]) else "", text)


def pod_colour(number: int) -> str:
    """Return the SGR code of the colour of the pod with this number."""
    return _COLOURS[number % len(_COLOURS)]


@dataclass
class LinePrinter:
    """Formats log lines as bytes.

    ``pattern`` selects lines. With ``terminal`` control sequences are removed; ``coloured`` adds colours. Without both,
    the bytes of a line are printed unchanged.
    """

    pattern: re.Pattern[str] | None = None
    timestamps: bool = False
    terminal: bool = False
    coloured: bool = False
    _numbers: dict[str, int] = field(default_factory=dict)
    _width: int = 0

    def text(self, label: str, lines: Iterable[LogLine]) -> bytes:
        """Return the lines of one pod as bytes, each prefixed with ``label`` if it is not empty."""
        head = self._head(label) if label else b""
        found = []
        for line in lines:
            data = self._body(line, prefixed=bool(label))
            if data is None:
                continue
            stamp = f"{line.stamp} ".encode() if self.timestamps else b""
            # With a prefix or a pattern, each piece of a long line becomes a line.
            end = b"\n" if line.ends or head or stamp or self.pattern else b""
            found.append(head + stamp + data + end)
        return b"".join(found)

    def json(self, pod: str, container: str, lines: Iterable[LogLine]) -> list[dict[str, Any]]:
        """Return the selected lines as JSON values."""
        values = [log_line(pod, container, line) for line in lines]
        return [value for value in values if self.pattern is None or self.pattern.search(value["text"])]

    def _head(self, label: str) -> bytes:
        if label not in self._numbers:
            self._numbers[label] = len(self._numbers)
            self._width = min(_WIDEST, max(self._width, len(label)))
        padded = f"{label:<{self._width}} |"
        if self.coloured:
            padded = f"\x1b[{pod_colour(self._numbers[label])}m{padded}{_RESET}"
        return f"{padded} ".encode()

    def _body(self, line: LogLine, *, prefixed: bool) -> bytes | None:
        if self.pattern is None and not self.terminal:
            return line.text
        text = line.text.decode("utf-8", "surrogateescape")
        if self.pattern is not None and not self.pattern.search(text):
            return None
        if not self.terminal:
            return line.text
        text = strip_controls(text.encode("utf-8", "replace").decode("utf-8"))
        if prefixed or self.timestamps:
            # The last state of a progress bar; the text before the carriage return would be written over the prefix.
            text = text.rstrip("\r").rpartition("\r")[2]
        if self.coloured and self.pattern is not None:
            text = self.pattern.sub(lambda match: f"{_FOUND}{match[0]}{_GONE_ON}" if match[0] else "", text)
        if "\x1b" in text:
            text += _RESET
        return text.encode()

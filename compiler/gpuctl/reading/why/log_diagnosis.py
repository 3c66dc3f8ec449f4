"""Find the cause of a program's end in the last lines of its log."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuctl.language.display_text import visible
from gpuctl.language.masking import masked_log_line
from gpuctl.reading.why.log_patterns import (
    AFTERMATH,
    GPU_DRIVER,
    GPU_HARDWARE,
    GPU_MEMORY,
    NCCL,
    NO_GPU,
    SHARED_MEMORY,
    cause_in_line,
    message_of,
    without_colours,
)

_LONGEST = 240
_LINE_END = re.compile("\r\n|\n|\r")
_VERSION = re.compile(r"insufficient|mismatch|NOT_SUPPORTED|unsupported|too old", re.IGNORECASE)
# Messages that imply that a driver was found.
_FOUND = re.compile(r"too old|mismatch|unsupported|NOT_SUPPORTED", re.IGNORECASE)
_LAST_ERROR = re.compile(r"Last error:\s*(?P<text>.*)", re.IGNORECASE)
_TRIED = re.compile(r"Tried to allocate (?P<tried>[\d.]+ [KMGT]iB)")
_TOTAL = re.compile(r"total capac(?:ity|ty) of (?P<total>[\d.]+ [KMGT]iB)")
_FREE = re.compile(r"of which (?P<free>[\d.]+ [KMGT]iB) is free")
_ERROR = re.compile(r"(?P<name>(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Interrupt))\b(?::|\s*$)")
_FATAL = re.compile(r"\b(?:fatal|panic|error)\b|^E\d{4} |Segmentation fault|core dumped", re.IGNORECASE)
_FINAL = frozenset({"gpu-hardware-error", "gpu-driver-error"})


class LogDiagnosis(NamedTuple):
    """The cause in a log: a GPU error, shared memory, NCCL or a known program error; "" for others. ``line`` is the
    most specific line.
    """

    cause: str
    line: str
    numbers: dict[str, str]


def lines_of(text: str) -> list[str]:
    """Return the lines of a log. Carriage returns end lines too (progress bars); other Unicode line ends do not."""
    *lines, rest = _LINE_END.split(text)
    return [*lines, rest] if rest else lines


def diagnose(lines: Sequence[str]) -> LogDiagnosis:
    """Diagnose the end of a log.

    Programs may catch an out-of-memory error and continue, so it counts only if no other error follows. Errors of the
    hardware or the driver always count. A communication error counts only without any of these, which cause it.
    """
    kept = [line for line in (visible(without_colours(line)).strip() for line in lines) if line]
    last: str | None = None
    cause, telling, quotes_next = "", "", False
    for line in kept:
        if cause in _FINAL:
            break
        last_error = _LAST_ERROR.match(message_of(line))
        if cause == "nccl-error" and (quotes_next or last_error is not None):
            # NCCL names the link and the peer on this line; the error before it is always the same.
            text = message_of(line) if last_error is None else last_error["text"]
            telling, quotes_next = text or telling, not text
        elif GPU_HARDWARE.search(line):
            cause, telling = "gpu-hardware-error", line
        elif GPU_DRIVER.search(line) or NO_GPU.match(message_of(line)):
            cause, telling = "gpu-driver-error", line
        elif GPU_MEMORY.search(line):
            cause, telling = "cuda-out-of-memory", line
        elif SHARED_MEMORY.search(line):
            # The program reports the lack of shared memory beside the signal: both lines have one cause.
            cause, telling = "shm-exhausted", line
        elif own := cause_in_line(line):
            cause, telling = own, line
        elif NCCL.search(line):
            if not cause:
                cause, telling = "nccl-error", line
        elif AFTERMATH.search(line):
            continue
        elif _ERROR.search(line):
            cause, telling, last = "", line, line
    if cause:
        return LogDiagnosis(cause, masked_excerpt(telling), _numbers(telling) if cause == "cuda-out-of-memory" else {})
    fatal = next((line for line in reversed(kept) if _FATAL.search(line) and not AFTERMATH.search(line)), None)
    return LogDiagnosis("", masked_excerpt(last or fatal or (kept[-1] if kept else "")), {})


def has_driver(line: str) -> bool:
    """Return True if a line about the driver implies that one was found, so that the pod has a GPU."""
    return bool(_FOUND.search(line))


def is_driver_too_old(line: str) -> bool:
    """Return True if a line says that the driver is too old for the program, or does not match it."""
    return bool(_VERSION.search(line))


def _numbers(line: str) -> dict[str, str]:
    found = {}
    for pattern in (_TRIED, _TOTAL, _FREE):
        match = pattern.search(line)
        if match is not None:
            found.update(match.groupdict())
    return found


def masked_excerpt(line: str) -> str:
    """Return a line for output: shortened, and with likely secrets masked."""
    # Masked before it is cut: a part of a secret has no known form.
    line = masked_log_line(" ".join(line.split()))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"

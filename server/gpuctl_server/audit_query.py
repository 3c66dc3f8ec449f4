"""Search in the audit: newest lines first, from the end of its file, or from memory if it has no file."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuctl.objects.timestamps import format_timestamp
from gpuctl_server.audit import BEGUN, FIELDS, INTERRUPTED, RUNNING, WRITE, AuditMemory

READ = 16 * 1024 * 1024
"""Maximum number of bytes that one search reads from the end of the file."""
_CHUNK = 256 * 1024
_BASE = "/api/v1"
_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{3}Z", re.ASCII)


class AuditFilter(NamedTuple):
    """Conditions on lines; "" and None match all.

    ``action`` is a method, or method and path, ``object`` part of an object's name, ``namespace`` that of an object,
    ``result`` an HTTP status or the name of an error.
    """

    caller: str = ""
    action: str = ""
    object: str = ""
    namespace: str = ""
    result: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, line: dict[str, Any]) -> bool:
        """Return True if a line matches."""
        objects = line["objects"]
        return (
            self.caller in ("", line["caller"])
            and (not self.action or self._is_action(line["action"]))
            and (not self.object or any(self.object in item for item in objects))
            and (not self.namespace or any(_namespace_of(item) == self.namespace for item in objects))
            and (not self.result or self.result in (line["result"], *line["result"].split()))
            and (self.since is None or line["time"] >= _as_written(self.since))
            and (self.until is None or line["time"] < _as_written(self.until))
        )

    def _is_action(self, action: str) -> bool:
        method, _, path = action.partition(" ")
        return self.action in (method, action, f"{method} {path.removeprefix(_BASE)}")


class AuditMatches(NamedTuple):
    """The matching lines, newest first.

    ``complete`` is False if lines may be missing: those of other replicas, from before the start of the service, in
    rotated files, or before the part of the file that was read. ``left_out`` counts lines that cannot be parsed.
    """

    lines: list[dict[str, Any]]
    source: Literal["file", "memory"]
    complete: bool
    left_out: int


def read_audit(path: Path | None, memory: AuditMemory, wanted: AuditFilter, most: int = READ) -> AuditMatches:
    """Return the matching lines of the audit.

    :param path: file of the audit; None, or not a regular file, such as a pipe: search the memory.
    :param most: maximum number of bytes to read from the end of the file.
    :raises OSError: the file cannot be read.
    """
    path = None if path is None else path.expanduser()
    if path is None or (path.exists() and not stat.S_ISREG(path.stat().st_mode)):
        lines, left_out = _chosen(memory.lines(), wanted)
        return AuditMatches(lines, "memory", False, left_out)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return AuditMatches([], "file", False, 0)
    try:
        size = os.fstat(descriptor).st_size
        lines, left_out = _chosen(_from_end(descriptor, size, max(0, size - most)), wanted)
    finally:
        os.close(descriptor)
    return AuditMatches(lines, "file", size <= most and not left_out and not _is_rotated(path), left_out)


def _is_rotated(path: Path) -> bool:
    """Return True if rotated files exist, or the directory cannot be read."""
    try:
        return any(item.name.startswith((f"{path.name}.", f"{path.name}-")) for item in path.parent.iterdir())
    except OSError:
        return True


def _from_end(descriptor: int, end: int, begin: int) -> Iterator[bytes]:
    """Yield the lines between two offsets of a file, last first. Incomplete lines at both ends are left out."""
    rest, place, is_last = b"", end, True
    while place > begin:
        size = min(_CHUNK, place - begin)
        place -= size
        first, *whole = (os.pread(descriptor, size, place) + rest).split(b"\n")
        rest = first
        if is_last and whole:
            # The last line has no line break yet: it is being written.
            whole.pop()
            is_last = False
        yield from reversed(whole)
    if begin == 0 and not is_last:
        yield rest


def _chosen(texts: Iterable[str | bytes], wanted: AuditFilter) -> tuple[list[dict[str, Any]], int]:
    """Return the matching lines, and the number of invalid ones. ``texts`` begin with the newest line.

    Each write yields one line: its result; :data:`BEGUN` if it is running, else :data:`INTERRUPTED`.
    """
    chosen, left_out = [], 0
    ended: set[str] = set()
    for text in texts:
        line = _line(text)
        if line is None:
            left_out += 1
            continue
        write = line.pop(WRITE)
        if line["result"] != BEGUN:
            ended.add(write)
        elif write in ended:
            continue
        elif write not in RUNNING:
            line["result"] = INTERRUPTED
        if wanted.takes(line):
            chosen.append(line)
    return chosen, left_out


def _line(text: str | bytes) -> dict[str, Any] | None:
    """Return a parsed line; None if it is not a line of the audit."""
    try:
        value = json.loads(text)
        objects, found = value["objects"], {name: value[name] for name in ("time", *FIELDS)}
        if not isinstance(objects, list) or not _TIME.fullmatch(value["time"]):
            return None
        found[WRITE] = value.get(WRITE, "")
        texts = [item for name, item in found.items() if name != "objects"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if all(isinstance(item, str) for item in (*texts, *objects)) else None


def _as_written(when: datetime) -> str:
    """Return a time in the format of the lines, so that they compare as text. Digits below a millisecond are cut
    off."""
    return format_timestamp(when, "milliseconds")


def _namespace_of(title: str) -> str:
    """Return the namespace of an object's title: the part after ``in``; of a quota its name."""
    kind, _, name = title.partition("/")
    return name if kind == "quota" else title.rpartition(" in ")[2] if " in " in title else ""

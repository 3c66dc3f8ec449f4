"""The lines of the audit, read again: the newest first, from a file as far as it is read, or from memory."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gpuctl_server.audit import BEGUN, FIELDS, INTERRUPTED, UNDER_WAY, WRITE, AuditMemory

READ = 16 * 1024 * 1024
"""Bytes of the end of a file that are looked through for an answer."""
_CHUNK = 256 * 1024
_BASE = "/api/v1"
_TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-6]\d\.\d{3}Z", re.ASCII)


class AuditFilter(NamedTuple):
    """Which lines are meant; "" and None take all.

    ``action`` is a method, or method and path, ``object`` part of a name, ``namespace`` where an object is, ``result``
    a status or the name of an error.
    """

    caller: str = ""
    action: str = ""
    object: str = ""
    namespace: str = ""
    result: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def takes(self, line: dict[str, Any]) -> bool:
        """Whether a line is meant."""
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
    """The lines that are meant, the newest first.

    ``source`` is where they are from, ``complete`` whether nothing is known to be missing: lines of other replicas, of
    the time before the service was started, of files that were rotated away, or older than what was looked through.
    ``left_out`` counts lines that are none.
    """

    lines: list[dict[str, Any]]
    source: Literal["file", "memory"]
    complete: bool
    left_out: int


def read_audit(path: Path | None, memory: AuditMemory, wanted: AuditFilter, most: int = READ) -> AuditMatches:
    """The lines of the audit that are meant.

    :param path: the file that they are added to, if any; what cannot be read again, such as a pipe, is none.
    :param most: how many bytes of its end are looked through.
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
    """Whether older lines are, or may be, in other files."""
    try:
        return any(item.name.startswith((f"{path.name}.", f"{path.name}-")) for item in path.parent.iterdir())
    except OSError:
        return True


def _from_end(descriptor: int, end: int, begin: int) -> Iterator[bytes]:
    """The lines of a file between two places, backwards; half a line at either end is none."""
    rest, place, is_last = b"", end, True
    while place > begin:
        size = min(_CHUNK, place - begin)
        place -= size
        first, *whole = (os.pread(descriptor, size, place) + rest).split(b"\n")
        rest = first
        if is_last and whole:
            # Behind the last line break: what is being written.
            whole.pop()
            is_last = False
        yield from reversed(whole)
    if begin == 0 and not is_last:
        yield rest


def _chosen(texts: Iterable[str | bytes], wanted: AuditFilter) -> tuple[list[dict[str, Any]], int]:
    """The lines that are meant, of lines from the newest on; a write has one line: its result, or that it has none."""
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
        elif write not in UNDER_WAY:
            line["result"] = INTERRUPTED
        if wanted.takes(line):
            chosen.append(line)
    return chosen, left_out


def _line(text: str | bytes) -> dict[str, Any] | None:
    """A line as a value; None where it is none of ours."""
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
    """A time as lines have it, so that texts can be compared: what is of a millisecond counts as its beginning."""
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _namespace_of(title: str) -> str:
    """Where an object is, as titles of jobs say it; a quota is of the namespace of its name."""
    kind, _, name = title.partition("/")
    return name if kind == "quota" else title.rpartition(" in ")[2] if " in " in title else ""

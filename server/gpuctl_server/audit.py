"""Who changed what: a line of JSON before each write, and one with the result of every write, refused or not."""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from gpuctl_server.request_log import LOG, request_id

AUDIT = logging.getLogger("gpuctl_server.audit")
"""Where the lines go: to the log, or where :func:`audit_to` sends them."""
FIELDS = ("caller", "action", "objects", "result", "requestId")
WRITE = "write"
"""The field with the id of a write, which its lines have in common."""
BEGUN, INTERRUPTED = "begun", "interrupted"
"""Results: of the line before a write, and of a write whose end nobody has noted."""
UNDER_WAY: set[str] = set()
"""The ids of the writes that this process has begun and not ended."""
_LONGEST = 300
REMEMBERED = 1024 * 1024
"""Characters of lines that are remembered."""
_MOST_HELD = 1024 * 1024
"""Bytes of lines that are kept until their file can be written again."""


class AuditLines(logging.Formatter):
    """A line of the audit as JSON, without anything else."""

    def format(self, record: logging.LogRecord) -> str:
        """As :meth:`logging.Formatter.format`."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        fields = {name: getattr(record, name) for name in (*FIELDS, WRITE)}
        return json.dumps({"time": moment, **fields}, ensure_ascii=False)


class AuditMemory(logging.Handler):
    """Remembers the last lines, so many as have room; safe to use from several threads."""

    def __init__(self, room: int = REMEMBERED) -> None:
        super().__init__()
        self.setFormatter(AuditLines())
        self._room = room
        self._taken = 0
        self._lines: deque[str] = deque()
        self._own = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        """As :meth:`logging.Handler.emit`."""
        line = self.format(record)
        with self._own:
            self._lines.append(line)
            self._taken += len(line)
            while self._taken > self._room:
                self._taken -= len(self._lines.popleft())

    def lines(self) -> list[str]:
        """They, the newest first."""
        with self._own:
            return list(reversed(self._lines))


class AuditFile(logging.Handler):
    """Adds lines to a file. One that cannot be written goes to the log at once, and to the file once that is possible.

    Only its owner can read the file. One that was moved away, as for rotation, is made again.

    :raises OSError: it cannot be written.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.setFormatter(AuditLines())
        self._path = path
        self._held = b""
        self._broken = False
        self._writing = threading.Lock()
        self._flush()

    def emit(self, record: logging.LogRecord) -> None:
        """As :meth:`logging.Handler.emit`."""
        line = self.format(record)
        with self._writing:
            if len(self._held) < _MOST_HELD:
                self._held += line.encode(errors="replace") + b"\n"
            problem = self._try()
        if problem is not None:
            LOG.error("the audit cannot be written", extra={"problem": problem, "line": line})

    def problem(self) -> str | None:
        """Why lines cannot be written, None when they can: what is held back is tried again."""
        with self._writing:
            return self._try() if self._broken else None

    def _try(self) -> str | None:
        try:
            self._flush()
        except OSError as error:
            self._broken = True
            return (error.strerror or str(error)).lower()
        self._broken = False
        return None

    def _flush(self) -> None:
        """Write what is held, as far as there is room for it."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while self._held:
                self._held = self._held[os.write(file, self._held) :]
        finally:
            os.close(file)


def audit(caller: str, action: str, objects: Sequence[str], result: str, write: str = "") -> None:
    """Write a line.

    :param caller: who asked, "" where nobody was recognised.
    :param action: what was asked for, such as ``POST /jobs``.
    :param objects: what it is about, by name: never what a document contains.
    :param result: :data:`BEGUN`, or the status, and the name of the error if it was refused.
    :param write: the id of the write.
    """
    named = [item[:_LONGEST] for item in objects]
    fields = {"caller": caller, "action": action, "objects": named, "result": result, "requestId": request_id()}
    if result == BEGUN:
        UNDER_WAY.add(write)
    else:
        UNDER_WAY.discard(write)
    AUDIT.info("audit", extra={**fields, WRITE: write})


class AuditTrail(list[str]):
    """The objects of a write, by name; and the lines that the audit has of the write before it is done.

    :param preview: nothing will be written.
    """

    def __init__(self, caller: str = "", action: str = "", *, preview: bool = False) -> None:
        super().__init__()
        self._preview = preview
        self._caller = caller
        self._action = action
        self._noted: int | None = None
        self.write = secrets.token_hex(8)

    def begin(self) -> None:
        """Note that what follows is about to be written: a line with the objects that have none yet.

        :raises AuditFailed: the line cannot be written, and nothing may be changed.
        """
        if self._preview or self._noted == len(self):
            return
        audit(self._caller, self._action, self[self._noted or 0 :], BEGUN, self.write)
        self._noted = len(self)
        problem = audit_problem()
        if problem is not None:
            raise AuditFailed(problem)


class AuditFailed(Exception):
    """The audit cannot be written."""


def audit_to(path: Path | None, memory: AuditMemory) -> None:
    """Add the lines to a file, which only its owner can read, and no more to the log; and remember the last of them.

    :param path: None: they go to the log.
    :raises OSError: it cannot be written.
    """
    AUDIT.handlers[:] = [memory]
    AUDIT.propagate = path is None
    if path is not None:
        AUDIT.addHandler(AuditFile(path.expanduser()))


def audit_problem() -> str | None:
    """Why the audit cannot be written at the moment, None when it can."""
    return next((why for item in AUDIT.handlers if isinstance(item, AuditFile) and (why := item.problem())), None)

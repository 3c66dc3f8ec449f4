"""The audit: a line of JSON before each write, and one with the result of every write, rejected or not."""

from __future__ import annotations

import json
import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from gpuctl.objects.timestamps import format_timestamp
from gpuctl_server.request_log import LOG, request_id

AUDIT = logging.getLogger("gpuctl_server.audit")
"""Logger of the audit. Its lines go to the log of the service, or where :func:`audit_to` directs them."""
FIELDS = ("caller", "action", "objects", "result", "requestId")
WRITE = "write"
"""Field with the id that all lines of one write share."""
BEGUN, INTERRUPTED = "begun", "interrupted"
"""Results: of the line before a write, and of a write that has no result line."""
RUNNING: set[str] = set()
"""Ids of the writes that this process has started and not finished."""
_LONGEST = 300
REMEMBERED = 1024 * 1024
"""Maximum size of the lines in memory, bytes."""
_MOST_HELD = 1024 * 1024
"""Maximum size of the lines that are held while their file cannot be written, bytes."""


class AuditLines(logging.Formatter):
    """Formats a line of the audit as JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = format_timestamp(record.created, "milliseconds")
        fields = {name: getattr(record, name) for name in (*FIELDS, WRITE)}
        return json.dumps({"time": moment, **fields}, ensure_ascii=False)


class AuditMemory(logging.Handler):
    """Holds the newest lines, up to ``room`` bytes. Safe to use from several threads."""

    def __init__(self, room: int = REMEMBERED) -> None:
        super().__init__()
        self.setFormatter(AuditLines())
        self._room = room
        self._taken = 0
        self._lines: deque[str] = deque()
        self._own = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        with self._own:
            self._lines.append(line)
            self._taken += len(line.encode())
            while self._taken > self._room:
                self._taken -= len(self._lines.popleft().encode())

    def lines(self) -> list[str]:
        """Return the lines, newest first."""
        with self._own:
            return list(reversed(self._lines))


class AuditFile(logging.Handler):
    """Appends lines to a file. A line that cannot be written is logged at once, and held until the file can be written.

    Only its owner can read the file. The file is created again after a rotation has moved it.

    :raises OSError: the file cannot be written.
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
        line = self.format(record)
        with self._writing:
            if len(self._held) < _MOST_HELD:
                self._held += line.encode(errors="replace") + b"\n"
            problem = self._try()
        if problem is not None:
            LOG.error("the audit cannot be written", extra={"problem": problem, "line": line})

    def problem(self) -> str | None:
        """Return why lines cannot be written, or None. Retries the held lines first."""
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
        """Write the held lines, as far as the disk has space."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            while self._held:
                self._held = self._held[os.write(file, self._held) :]
        finally:
            os.close(file)


def audit(caller: str, action: str, objects: Sequence[str], result: str, write: str = "") -> None:
    """Write a line.

    :param caller: name of the caller, "" if authentication failed.
    :param action: method and path, such as ``POST /jobs``.
    :param objects: names of the objects; never content of a document.
    :param result: :data:`BEGUN`, or the HTTP status, followed by the error name if the request was rejected.
    :param write: id of the write.
    """
    named = [item[:_LONGEST] for item in objects]
    fields = {"caller": caller, "action": action, "objects": named, "result": result, "requestId": request_id()}
    if result == BEGUN:
        RUNNING.add(write)
    else:
        RUNNING.discard(write)
    AUDIT.info("audit", extra={**fields, WRITE: write})


class AuditTrail(list[str]):
    """The names of the objects of a write, and its lines before the result.

    :param preview: the request writes nothing.
    """

    def __init__(self, caller: str = "", action: str = "", *, preview: bool = False) -> None:
        super().__init__()
        self._preview = preview
        self._caller = caller
        self._action = action
        self._noted: int | None = None
        self.write = secrets.token_hex(8)

    def begin(self) -> None:
        """Write a line with the objects that are about to be written and have none yet.

        :raises AuditFailed: the line cannot be written; the caller must not change anything.
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
    """Write the audit to a file that only its owner can read instead of to the log, and keep the newest lines in
    memory.

    :param path: None: the log.
    :raises OSError: the file cannot be written.
    """
    AUDIT.handlers[:] = [memory]
    AUDIT.propagate = path is None
    if path is not None:
        AUDIT.addHandler(AuditFile(path.expanduser()))


def audit_problem() -> str | None:
    """Return why the audit cannot be written, or None."""
    return next((why for item in AUDIT.handlers if isinstance(item, AuditFile) and (why := item.problem())), None)

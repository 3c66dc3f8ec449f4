"""Who changed what: a line of JSON for every write, also for those that were refused."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from gpuctl_server.request_log import LOG, request_id

AUDIT = logging.getLogger("gpuctl_server.audit")
"""Where the lines go: to the log, or where :func:`audit_to` sends them."""
FIELDS = ("caller", "action", "objects", "result", "requestId")
REMEMBERED = 1024 * 1024
"""Characters of lines that are remembered."""
_MOST_HELD = 1024 * 1024
"""Bytes of lines that are kept until their file can be written again."""


class AuditLines(logging.Formatter):
    """A line of the audit as JSON, without anything else."""

    def format(self, record: logging.LogRecord) -> str:
        """As :meth:`logging.Formatter.format`."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        return json.dumps({"time": moment, **{name: getattr(record, name) for name in FIELDS}}, ensure_ascii=False)


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


def audit(caller: str, action: str, object: str | Sequence[str], result: str) -> None:
    """Note a write.

    :param caller: who asked, "" where nobody was recognised.
    :param action: what was asked for, such as ``POST /jobs``.
    :param object: what it was about, by name: never what a document contains.
    :param result: the status, and the name of the error if it was refused.
    """
    objects = [object] if isinstance(object, str) else list(object)
    fields = {"caller": caller, "action": action, "objects": objects, "result": result, "requestId": request_id()}
    AUDIT.info("audit", extra=fields)


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

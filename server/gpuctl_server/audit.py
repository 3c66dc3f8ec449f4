"""Who changed what: a line of JSON for every write, also for those that were refused."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from gpuctl_server.request_log import request_id

AUDIT = logging.getLogger("gpuctl_server.audit")
"""Where the lines go: to the log, or where :func:`audit_to` sends them."""
FIELDS = ("caller", "action", "objects", "result", "requestId")
REMEMBERED = 1024 * 1024
"""Characters of lines that are remembered."""


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


class _PrivateFile(logging.handlers.WatchedFileHandler):
    """A file that only its owner can read; one that was rotated away is begun anew, and that one is private as well."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(self.baseFilename, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


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
        handler = _PrivateFile(path.expanduser(), encoding="utf-8")
        handler.setFormatter(AuditLines())
        AUDIT.addHandler(handler)

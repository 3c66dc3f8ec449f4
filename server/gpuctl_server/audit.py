"""Who changed what: a line of JSON for every write, also for those that were refused."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from gpuctl_server.request_log import request_id

AUDIT = logging.getLogger("gpuctl_server.audit")
"""Where the lines go: to the log, or where :func:`audit_to` sends them."""


class AuditLines(logging.Formatter):
    """A line of the audit as JSON, without anything else."""

    def format(self, record: logging.LogRecord) -> str:
        """As :meth:`logging.Formatter.format`."""
        fields = ("caller", "action", "objects", "result", "requestId")
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        return json.dumps({"time": moment, **{name: getattr(record, name) for name in fields}}, ensure_ascii=False)


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


def audit_to(path: Path) -> None:
    """Add the lines to a file, which only its owner can read, and no more to the log.

    :raises OSError: it cannot be written.
    """
    path = path.expanduser()
    path.touch(mode=0o600, exist_ok=True)
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(AuditLines())
    AUDIT.handlers[:] = [handler]
    AUDIT.propagate = False

"""The log: one JSON object a line, with the id of the request."""

from __future__ import annotations

import json
import logging
import secrets
import sys
from contextvars import ContextVar
from typing import Any

from gpuctl.language.display_text import visible_json
from gpuctl.language.masking import redact
from gpuctl.objects.timestamps import format_timestamp

LOG = logging.getLogger("gpuctl_server")
_ID: ContextVar[str] = ContextVar("request_id", default="")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


def request_id() -> str:
    """Return the id of the current request; "" outside of a request."""
    return _ID.get()


def begin_request(given: str = "") -> str:
    """Set the id of the current request: that of the client if it is short and has safe characters only, else a new
    one.
    """
    harmless = 0 < len(given) <= 64 and all(char.isascii() and (char.isalnum() or char in "-_.") for char in given)
    found = given if harmless else secrets.token_hex(8)
    _ID.set(found)
    return found


class JsonLines(logging.Formatter):
    """Formats a log record as JSON, and masks credentials."""

    def format(self, record: logging.LogRecord) -> str:
        value: dict[str, Any] = {
            "time": format_timestamp(record.created, "milliseconds"),
            "level": record.levelname.lower(),
            "message": redact(record.getMessage()),
        }
        if request_id():
            value["requestId"] = request_id()
        value |= {key: item for key, item in record.__dict__.items() if key not in _STANDARD}
        if record.exc_info and record.exc_info[1] is not None:
            value["exception"] = redact(self.formatException(record.exc_info))
        return visible_json(json.dumps(value, ensure_ascii=False, default=str))


def set_up() -> None:
    """Send all logs, including those of uvicorn, to standard error in this format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # uvicorn's lines about WebSockets have the complete query. The request middleware logs them without it.
    logging.getLogger("uvicorn.error").addFilter(lambda record: '"WebSocket ' not in str(record.msg))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"

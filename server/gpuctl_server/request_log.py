"""The log: one JSON object a line, each with the id of the request that it is about."""

from __future__ import annotations

import json
import logging
import secrets
import sys
import time
from contextvars import ContextVar
from typing import Any

from gpuctl.language.display_text import visible_json
from gpuctl.language.masking import redact

LOG = logging.getLogger("gpuctl_server")
_ID: ContextVar[str] = ContextVar("request_id", default="")
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName", "color_message"}


def request_id() -> str:
    """The id of the request at hand, "" outside of one."""
    return _ID.get()


def begin_request(given: str = "") -> str:
    """Give the request at hand an id: the client's own where that is harmless."""
    harmless = 0 < len(given) <= 64 and all(char.isascii() and (char.isalnum() or char in "-_.") for char in given)
    found = given if harmless else secrets.token_hex(8)
    _ID.set(found)
    return found


class JsonLines(logging.Formatter):
    """A record as JSON; credentials that it quotes are masked."""

    def format(self, record: logging.LogRecord) -> str:
        value: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
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
    """Send everything to standard error in this form, uvicorn's lines too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Its lines on WebSockets have the whole query; the gate writes better ones.
    logging.getLogger("uvicorn.error").addFilter(lambda record: '"WebSocket ' not in str(record.msg))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = name != "uvicorn.access"

"""The body of an answer as it comes: logs that may be long, or without an end, and watches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from urllib3.exceptions import HTTPError

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.http_client import Reply, failure_text
from gpuctl.objects.api_resources import Object

_LONGEST_EVENT = 64 * 1024 * 1024


class ResponseStream:
    """Bytes of an answer, in portions as they arrive, until the server ends it; :meth:`close` ends it from here.

    :raises ConnectionFailed: it broke, or nothing came for longer than the connection's read timeout.
    """

    def __init__(self, response: Reply, what: str) -> None:
        self._response = response
        self._what = what

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.portions()
        except HTTPError as error:
            raise ConnectionFailed(f"{self._what} broke off: {failure_text(error)}") from None
        finally:
            self._response.close()

    def close(self) -> None:
        """End it, from any thread: who reads finds it broken off."""
        self._response.abort()


class WatchStream:
    """Events of a watch as they come, until the server ends it; :meth:`close` ends it from here.

    :raises ConnectionFailed: it broke, told what is no event, or nothing came for longer than the server's time for it.
    """

    def __init__(self, response: Reply, what: str) -> None:
        self._response = response
        self._what = what

    def __iter__(self) -> Iterator[Object]:
        buffer = b""
        try:
            for portion in self._response.portions():
                buffer += portion
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if line.strip():
                        yield _event(line)
                if len(buffer) > _LONGEST_EVENT:
                    raise ValueError("an event has no end")
        except (HTTPError, ValueError, RecursionError) as error:
            raise ConnectionFailed(f"{self._what} ended: {failure_text(error)}") from None
        finally:
            self._response.close()

    def close(self) -> None:
        """End it, from any thread: who reads finds it broken off."""
        self._response.abort()


def is_object(value: Any) -> bool:
    """Whether it has what all objects have: without, it is no API server that answers."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and all(isinstance(metadata.get(name), str) for name in ("name", "uid"))


def _event(line: bytes) -> Object:
    """An event of a watch: of an object, of how far the watch is (BOOKMARK), or that it cannot go on (ERROR)."""
    value = json.loads(line)
    of_type = value.get("type") if isinstance(value, dict) else None
    obj = value.get("object") if isinstance(of_type, str) else None
    if of_type != "ERROR":
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
            raise ValueError("what came is no event")
        if of_type != "BOOKMARK" and not is_object(obj):
            raise ValueError("what came is no event")
    return dict(value)

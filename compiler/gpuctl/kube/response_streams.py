"""Bodies of responses that are read while they arrive: logs, which may be long or endless, and watches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from urllib3.exceptions import HTTPError

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.http_client import Reply, failure_text
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object

_LONGEST_EVENT = 64 * 1024 * 1024


class _Stream:
    """A response whose body is read while it arrives."""

    def __init__(self, response: Reply, what: str) -> None:
        self._response = response
        self._what = what

    def close(self) -> None:
        """End the stream from any thread; the reading thread gets ConnectionFailed."""
        self._response.abort()


class ResponseStream(_Stream):
    """The bytes of a response as they arrive, until the server ends it or :meth:`close` is called.

    :raises ConnectionFailed: the connection broke, or a read timed out.
    """

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._response.portions()
        except HTTPError as error:
            raise ConnectionFailed(
                say("{what} broke off: {reason}", what=self._what, reason=failure_text(error))
            ) from None
        finally:
            self._response.close()


class WatchStream(_Stream):
    """The events of a watch as they arrive, until the server ends it or :meth:`close` is called.

    :raises ConnectionFailed: the connection broke, a read timed out, or the server sent something that is not an event.
    """

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
                    raise ValueError(say("an event is too large"))
        except (HTTPError, ValueError, RecursionError) as error:
            raise ConnectionFailed(say("{what} ended: {reason}", what=self._what, reason=failure_text(error))) from None
        finally:
            self._response.close()


def is_object(value: Any) -> bool:
    """Return True if a value has the metadata of every API object: name and uid."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return isinstance(metadata, dict) and all(isinstance(metadata.get(name), str) for name in ("name", "uid"))


def _event(line: bytes) -> Object:
    """Parse a watch event: a change of an object, a BOOKMARK or an ERROR."""
    value = json.loads(line)
    of_type = value.get("type") if isinstance(value, dict) else None
    obj = value.get("object") if isinstance(of_type, str) else None
    if of_type != "ERROR":
        metadata = obj.get("metadata") if isinstance(obj, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("resourceVersion"), str):
            raise ValueError("the server sent something that is not a watch event")
        if of_type != "BOOKMARK" and not is_object(obj):
            raise ValueError("the server sent something that is not a watch event")
    return dict(value)

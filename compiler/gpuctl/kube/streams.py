"""The body of an answer as it comes: logs that may be long, or without an end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuctl.kube.api_errors import ConnectionFailed

_PORTION = 65536


class Stream:
    """Bytes of an answer, in portions as they arrive, until the server ends it; :meth:`close` ends it from here.

    :raises ConnectionFailed: it broke, or nothing came for longer than the connection's read timeout.
    """

    def __init__(self, response: Any, what: str) -> None:
        self._response = response
        self._what = what

    def __iter__(self) -> Iterator[bytes]:
        from urllib3.exceptions import HTTPError

        from gpuctl.kube.reasons import innermost

        try:
            yield from self._portions()
        except (OSError, ValueError, HTTPError) as error:
            raise ConnectionFailed(f"{self._what} broke off: {innermost(error)}") from None
        finally:
            self.close()

    def close(self) -> None:
        """Let go of the connection; it is not used again."""
        self._response.close()

    def _portions(self) -> Iterator[bytes]:
        if self._response.chunked:
            yield from self._response.stream(_PORTION)
            return
        # An answer that ends with its connection: `stream` would wait until a portion is full.
        while data := self._response.read1(_PORTION):
            yield data

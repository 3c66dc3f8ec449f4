"""The body of an answer as it comes: logs that may be long, or without an end."""

from __future__ import annotations

from collections.abc import Iterator

from gpuctl.kube.api_errors import ConnectionFailed
from gpuctl.kube.http1 import Reply


class Stream:
    """Bytes of an answer, in portions as they arrive, until the server ends it; :meth:`close` ends it from here.

    :raises ConnectionFailed: it broke, or nothing came for longer than the connection's read timeout.
    """

    def __init__(self, response: Reply, what: str) -> None:
        self._response = response
        self._what = what

    def __iter__(self) -> Iterator[bytes]:
        from gpuctl.kube.reasons import reason_of

        try:
            yield from self._response.portions()
        except (OSError, ValueError) as error:
            raise ConnectionFailed(f"{self._what} broke off: {reason_of(error)}") from None
        finally:
            self._response.close()

    def close(self) -> None:
        """End it, from any thread: who reads finds it broken off."""
        self._response.abort()

"""A uvicorn server with limits on connections, and on requests before the application receives them. Its responses are
dated by the API server's clock.
"""

from __future__ import annotations

import functools
import socket
from collections.abc import Callable
from email.utils import formatdate

import uvicorn

from gpuctl_server.http.connections import Connections, connection_limit
from gpuctl_server.http.http_protocols import LimitedHttp


class LimitedServer(uvicorn.Server):
    """A server for bound sockets.

    :param connections: maximum number of connections.
    :param head_timeout: time limit for a TLS handshake, and for the head of a request, seconds.
    :param clock: returns the time for the header ``Date``, seconds since 1970. Clients compute ages of objects with it.
    """

    def __init__(
        self, config: uvicorn.Config, connections: int, head_timeout: float, clock: Callable[[], float]
    ) -> None:
        super().__init__(config)
        self._clock = clock
        self._head_timeout = head_timeout
        self._connections = Connections(connection_limit(connections), head_timeout, self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections."""
        # uvicorn's own listener has no limits, so it gets no sockets.
        await super().startup([])
        if self.started and sockets is not None:
            protocol = functools.partial(
                LimitedHttp,
                self._connections,
                self._head_timeout,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )
            self._connections.listen(sockets, protocol, self.config.ssl, self.config.backlog)

    async def on_tick(self, counter: int) -> bool:
        """Replace uvicorn's date of responses. Called ten times a second."""
        ends = await super().on_tick(counter)
        date = formatdate(self._clock(), usegmt=True).encode()
        self.server_state.default_headers = [(b"date", date), *self.config.encoded_headers]
        return ends

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting connections, then shut down as uvicorn does."""
        self._connections.stop()
        await super().shutdown(sockets)

"""A uvicorn server with limits on its connections, and on what a client sends before the application sees it."""

from __future__ import annotations

import functools
import socket

import uvicorn

from gpuctl_server.connections import Connections, connection_limit
from gpuctl_server.http_protocols import LimitedHttp


class LimitedServer(uvicorn.Server):
    """Serves sockets that are bound already.

    :param connections: most connections at a time.
    :param head_timeout: seconds in which a TLS handshake, and then the head of a request have to arrive.
    """

    def __init__(self, config: uvicorn.Config, connections: int, head_timeout: float) -> None:
        super().__init__(config)
        self._head_timeout = head_timeout
        self._connections = Connections(connection_limit(connections), head_timeout, self.server_state.connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, then accept connections."""
        # uvicorn's own way to accept them has no limits.
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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and end as uvicorn does."""
        self._connections.stop()
        await super().shutdown(sockets)

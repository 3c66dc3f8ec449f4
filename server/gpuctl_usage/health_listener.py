"""HTTP server for ``/metrics``, ``/healthz`` and ``/readyz`` of a stand-alone collector."""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from gpuctl_usage.collector_health import CollectorHealth
from gpuctl_usage.collector_metrics import CONTENT_TYPE, metrics_of

LOG = logging.getLogger("gpuctl_usage")
_CLIENT_TIMEOUT = 10.0
"""Timeout in seconds for a client's request and for reading the response."""
_JSON = "application/json"
_LISTENED = r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:\[\]/]*):(?P<port>[0-9]{1,5})"
"""HOST:PORT. The host may be empty; an IPv6 address is in brackets."""


class ListenError(Exception):
    """The address cannot be listened on; ``str()`` is the message for the user."""


class HealthListener:
    """Serves metrics and probes in its own threads until :meth:`close`.

    :param address: ``HOST:PORT``, or ``:PORT`` for all addresses of the machine; port 0 selects a free port.
    :raises ListenError: the address is invalid, in use or not available.
    """

    def __init__(self, address: str, health: CollectorHealth) -> None:
        found = re.fullmatch(_LISTENED, address)
        if found is None or int(found["port"]) > 65535:
            raise ListenError(f"`{address}` is not a listen address such as 127.0.0.1:9464 or :9464")
        host = found["host"].strip("[]")
        try:
            self._server = _server(host, int(found["port"]), health)
        except (OSError, UnicodeError) as error:
            number = getattr(error, "errno", None)
            why = os.strerror(number) if number and number > 0 else str(error)
            raise ListenError(
                f"cannot listen on {address}: {why}; set another address with --metrics or `usage_metrics`"
            ) from None
        self.port = int(self._server.server_address[1])
        LOG.info("serving metrics", extra={"port": self.port})
        threading.Thread(target=self._server.serve_forever, daemon=True, name="gpuctl-health").start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


def _server(host: str, port: int, health: CollectorHealth) -> ThreadingHTTPServer:
    family, *_ = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]

    class Server(ThreadingHTTPServer):
        address_family = family
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Ignore the error: the client has disconnected."""

    class Handler(BaseHTTPRequestHandler):
        timeout = _CLIENT_TIMEOUT
        server_version, sys_version = "gpuctl", ""

        def do_GET(self) -> None:
            status, kind, body = _answer(self.path.partition("?")[0], health)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815 - as the library calls it

        def log_message(self, *arguments: Any) -> None:
            """Log nothing: probes come every few seconds."""

    return Server((host, port), Handler)


def _answer(path: str, health: CollectorHealth) -> tuple[int, str, bytes]:
    """Return the status, content type and body for a path.

    /healthz fails only if the loop is stuck; /readyz also fails while the collector cannot collect, which a restart
    would not repair.
    """
    if path == "/metrics":
        return 200, CONTENT_TYPE, metrics_of(health)
    if path == "/healthz":
        return (200 if health.is_alive else 503), _JSON, _json({"status": "ok" if health.is_alive else "stuck"})
    if path == "/readyz":
        return (200 if health.is_collecting else 503), _JSON, _json(health.state())
    return 404, _JSON, _json({"error": "not found; the paths are /metrics, /healthz and /readyz"})


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

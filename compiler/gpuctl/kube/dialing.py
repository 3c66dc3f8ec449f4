"""Connections to a server: through the proxy if there is one, TLS and all."""

from __future__ import annotations

import base64
import socket
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from gpuctl.kube.http1 import Wire, read_head
from gpuctl.kube.proxies import Proxy

if TYPE_CHECKING:
    from gpuctl.kube.credentials import Headers

CONNECT_TIMEOUT = 10.0
_PORTS = {"http": 80, "https": 443}


class Dialled(NamedTuple):
    """A connection, and the socket that carries it: another one only with TLS in TLS."""

    connected: socket.socket
    beneath: socket.socket

    def wire(self) -> Wire:
        """Ready for requests."""
        return Wire(self.connected, self.beneath)


def dial(server: str, name: str, context: ssl.SSLContext | None, proxy: Proxy | None) -> Dialled:
    """A connection to an address; ``name`` is the one on the server's certificate, "" for that of the address.

    :raises OSError: none came about.
    :raises ValueError: the host is none that can be looked up.
    """
    target = urlsplit(server)
    hop = urlsplit(proxy.url) if proxy is not None else target
    connected = socket.create_connection(_address(hop), CONNECT_TIMEOUT)
    try:
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy is not None and hop.scheme == "https":
            connected = ssl.create_default_context().wrap_socket(connected, server_hostname=_host(hop))
        if context is None:
            return Dialled(connected, connected)
        if proxy is not None:
            _tunnel(connected, target, proxy)
        secured = _secured(connected, context, name.encode() or _host(target))
        return Dialled(secured, connected if isinstance(connected, ssl.SSLSocket) else secured)
    except BaseException:
        connected.close()
        raise


def proxy_fields(proxy: Proxy) -> Headers:
    """As whom a proxy is asked."""
    if not (proxy.user or proxy.password):
        return ()
    return (("Proxy-Authorization", f"Basic {base64.b64encode(f'{proxy.user}:{proxy.password}'.encode()).decode()}"),)


def _address(parts: SplitResult) -> tuple[Any, int]:
    return _host(parts), parts.port or _PORTS[parts.scheme]


def _host(parts: SplitResult) -> Any:
    """The host as bytes: of a text Python makes an international name, which costs an import."""
    host = (parts.hostname or "").replace("%25", "%")
    return host.encode() if host.isascii() else host


def _tunnel(connected: socket.socket, target: SplitResult, proxy: Proxy) -> None:
    host = target.hostname or ""
    there = f"{f'[{host}]' if ':' in host else host}:{target.port or _PORTS[target.scheme]}"
    lines = [f"CONNECT {there} HTTP/1.1", f"Host: {there}", *(f"{key}: {value}" for key, value in proxy_fields(proxy))]
    connected.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    # Byte by byte: what follows the head is the server's.
    with connected.makefile("rb", 0) as reader:
        head = read_head(reader)
    if head.status != 200:
        raise OSError(f"Tunnel connection failed: {head.status} {head.reason}".rstrip())


def _secured(connected: socket.socket, context: ssl.SSLContext, name: Any) -> Any:
    """TLS over a connection, which is no longer to be used by itself: Python's takes it over."""
    if isinstance(connected, ssl.SSLSocket):
        from urllib3.util.ssltransport import SSLTransport

        return SSLTransport(connected, context, name if isinstance(name, str) else name.decode())
    return context.wrap_socket(connected, server_hostname=name)

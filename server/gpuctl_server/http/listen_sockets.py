"""The sockets that the service listens on."""

from __future__ import annotations

import errno
import os
import socket

from gpuctl.language.ip_addresses import is_loopback

_IN_USE = "the port is in use; set another with --port or GPUCTL_SERVER_PORT, or 0 for a free one"
_WHY = {
    errno.EADDRINUSE: _IN_USE,
    errno.EADDRNOTAVAIL: "this machine does not have this address",
    errno.EACCES: "only root may use a port below 1024; set another with --port or GPUCTL_SERVER_PORT",
}


class CannotListen(Exception):
    """An address or port cannot be used; ``str()`` is a message for the user."""


def bind_sockets(host: str, port: int, *, loopback_only: bool) -> list[socket.socket]:
    """Return a bound socket for each address of a host. They do not listen yet.

    :param loopback_only: other machines must not reach the addresses, because the service uses plain HTTP.
    :raises CannotListen: an address or port cannot be bound, or can be reached from other machines.
    """
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            own = socket.socket(family, kind, protocol)
            sockets.append(own)
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            own.bind(address)
    except (OSError, UnicodeError) as error:
        close_sockets(sockets)
        number = error.errno if isinstance(error, OSError) else None
        if isinstance(error, socket.gaierror | UnicodeError) or number is None:
            raise CannotListen(f"cannot listen on {host}: it is not an address of this machine") from None
        raise CannotListen(
            f"cannot listen on {_host_and_port(host, port)}: {_WHY.get(number, os.strerror(number))}"
        ) from None
    for bound in [str(own.getsockname()[0]).partition("%")[0] for own in sockets] if loopback_only else ():
        if not is_loopback(bound):
            close_sockets(sockets)
            raise CannotListen(
                f"tokens would be sent to {bound} without encryption: set tls_certificate and tls_key, or "
                "--insecure-plain-http (GPUCTL_SERVER_INSECURE_PLAIN_HTTP=true) if TLS ends in front of the service"
            )
    return sockets


def close_sockets(sockets: list[socket.socket]) -> None:
    for own in sockets:
        own.close()


def _host_and_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

"""The proxy for a server, chosen as kubectl does.

Source: Go's ``golang.org/x/net/http/httpproxy``: HTTPS_PROXY or HTTP_PROXY by the server's scheme (ALL_PROXY is not
used), except for servers in NO_PROXY and on the loopback. A kubeconfig's ``proxy-url`` takes precedence.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.credentials import Headers, basic
from gpuctl.language.ip_addresses import is_loopback, parse_address

if TYPE_CHECKING:
    Address = IPv4Address | IPv6Address

_PORTS = {"http": 80, "https": 443}
_NO_SOCKS = "gpuctl goes through HTTP proxies only; NO_PROXY names servers that need none"


class Proxy(NamedTuple):
    """A proxy. ``url`` has no credentials: these are in ``headers``, which are sent to the proxy itself."""

    url: str
    headers: Headers = ()


def proxy_for(server: str, stated: str, environment: Mapping[str, str] | None = None) -> Proxy | None:
    """Return the proxy for a server; None: connect directly.

    :param stated: the kubeconfig's ``proxy-url``, "" for none.
    :raises ConfigurationError: gpuctl does not support this kind of proxy.
    """
    if stated:
        return parse_proxy(stated, "`proxy-url` of the kubeconfig")
    environment = os.environ if environment is None else environment
    target = urlsplit(server)
    name = f"{target.scheme.upper()}_PROXY"
    given = environment.get(name) or environment.get(name.lower()) or ""
    if not given or _is_exempt(target, environment.get("NO_PROXY") or environment.get("no_proxy") or ""):
        return None
    return parse_proxy(given if "://" in given else f"http://{given}", name)


def parse_proxy(address: str, where: str) -> Proxy:
    """Parse the address of a proxy.

    :param where: the setting that holds it, for messages.
    :raises ConfigurationError: it is not the address of an HTTP proxy.
    """
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ConfigurationError(f"the proxy in {where} is not an address", "as in http://proxy:3128") from None
    if parts.scheme not in _PORTS:
        kind = f"a {parts.scheme} proxy" if parts.scheme.startswith("socks") else "not an HTTP proxy"
        raise ConfigurationError(f"the proxy in {where} is {kind}, which is not supported", _NO_SOCKS)
    if not host:
        raise ConfigurationError(f"the proxy in {where} is not an address", "as in http://proxy:3128")
    host = f"[{host}]" if ":" in host else host
    url = f"{parts.scheme}://{host}:{port or _PORTS[parts.scheme]}"
    if not (parts.username or parts.password):
        return Proxy(url)
    authorization = basic(unquote(parts.username or ""), unquote(parts.password or ""))
    return Proxy(url, (("Proxy-Authorization", authorization),))


def _is_exempt(target: SplitResult, exceptions: str) -> bool:
    host = (target.hostname or "").lower()
    return is_loopback(host) or matches_no_proxy(target, exceptions)


def matches_no_proxy(target: SplitResult, exceptions: str) -> bool:
    """Return True if an entry of NO_PROXY matches the server."""
    host = (target.hostname or "").lower()
    port = str(target.port or _PORTS[target.scheme])
    address = parse_address(host)
    return any(_matches(entry.strip().lower(), host, address, port) for entry in exceptions.split(","))


def _matches(entry: str, host: str, address: Address | None, port: str) -> bool:
    """Return True if an entry matches: ``*``, a network, an address or a domain, each with or without a port."""
    if not entry or entry == "*":
        return entry == "*"
    if "/" in entry:
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
        return address is not None and address.version == network.version and address in network
    name, wanted = _split_port(entry)
    if not name or (wanted and wanted != port):
        return False
    if (of_entry := parse_address(name)) is not None:
        return of_entry == address
    if address is not None:
        return False
    name = name.removeprefix("*") if name.startswith("*.") else name
    # `.example.com` matches subdomains only, `example.com` also the domain itself.
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    name, _, port = entry.rpartition(":")
    # More than one colon: an IPv6 address.
    return (name, port) if name and ":" not in name else (entry, "")

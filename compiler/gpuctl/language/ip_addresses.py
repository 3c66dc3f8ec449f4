"""IP addresses in host names of URLs and options."""

from __future__ import annotations

import ipaddress


def parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an IP address; an IPv4-mapped IPv6 address becomes IPv4. None if the host is not an address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def is_loopback(host: str) -> bool:
    """Return True if a host in lower case is this machine: ``localhost`` or a loopback address.

    Other names, such as ``a.localhost``, may be resolved by a DNS server, to any address.
    """
    address = parse_address(host)
    return host == "localhost" or (address is not None and address.is_loopback)

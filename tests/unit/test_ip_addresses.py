"""Which hosts are this machine, so that a token may be sent to them without encryption."""

from __future__ import annotations

import pytest

from gpuctl.frontend.launcher_checks import has_loopback_host
from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.language.ip_addresses import is_loopback
from gpuctl.usecases.service.saved_logins import server_url
from gpuctl_server.access.oidc_login import is_address

LOOPBACK = ["localhost", "127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.1"]
OTHERS = [
    *("", "a.localhost", "localhost.", "localhost.example.com", "127.0.0.1.example.com", "127.1", "0177.0.0.1"),
    *("0.0.0.0", "::", "10.0.0.1", "::ffff:10.0.0.1", "fe80::1", "example.com"),
]


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback_hosts_may_be_asked_without_encryption(host: str) -> None:
    url = f"http://{in_url(host)}:8000"
    assert is_loopback(host)
    assert server_url(url) == url
    assert is_address(url)


@pytest.mark.parametrize("host", OTHERS)
def test_other_hosts_need_encryption(host: str) -> None:
    url = f"http://{in_url(host)}:8000"
    assert not is_loopback(host)
    assert not is_address(url)
    with pytest.raises(ConfigurationError, match="without encryption" if host else "not the address"):
        server_url(url)


@pytest.mark.parametrize("host", LOOPBACK)
@pytest.mark.parametrize("form", ["{}", "{}:29500", "tcp://{}:23456", "http://{}/", "'{}'"])
def test_addresses_in_commands_name_the_loopback(host: str, form: str) -> None:
    assert has_loopback_host(form.format(in_url(host)))
    assert has_loopback_host(form.format(in_url(host).upper()))


@pytest.mark.parametrize(
    "text", ["", "::1x", "node-0:29500", "localhost-0", "http://localhost:80/path", "127.0.0.999", "[::2]:80"]
)
def test_other_addresses_in_commands_do_not_name_the_loopback(text: str) -> None:
    assert not has_loopback_host(text)

"""A configured client of the official `kubernetes` package as a connection, compared with its own requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import certifi
import pytest
from kubernetes import client as kubernetes

import gpuctl
from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.configuration import Impersonation
from gpuctl.kube.connection import Connection
from gpuctl.kube.tls_settings import TlsSettings
from support.byte_server import Server

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


@pytest.fixture
def server() -> Iterator[Server]:
    """A server that responds with an empty object."""
    server = Server(EMPTY)
    yield server
    server.close()


def official_client(host: str, **settings: Any) -> Any:
    """Return a client of the official package."""
    configuration = kubernetes.Configuration(host=host)
    configuration.proxy = None
    for name, value in settings.items():
        setattr(configuration, name, value)
    return kubernetes.ApiClient(configuration)


def send_request(server: Server, connection: Connection) -> list[bytes]:
    """Send a request through a connection and return its lines."""
    connection.transport.send("GET", "/version")
    connection.close()
    return server.requests[-1].split(b"\r\n")


def test_client_headers_are_sent(server: Server) -> None:
    client = official_client(server.url, api_key={"authorization": "t1"}, api_key_prefix={"authorization": "Bearer"})
    client.set_default_header("Impersonate-User", "alice")
    client.set_default_header("Accept", "application/yaml")
    client.cookie = "session=1"
    lines = send_request(server, gpuctl.connect(client=client))
    assert {b"Authorization: Bearer t1", b"Impersonate-User: alice", b"Cookie: session=1"} <= {*lines}
    assert b"Accept: application/json" in lines
    assert [line for line in lines if line.startswith(b"User-Agent: ")] == [
        f"User-Agent: gpuctl/{gpuctl.__version__}".encode()
    ]


def test_token_in_default_headers_is_sent(server: Server) -> None:
    client = official_client(server.url)
    client.set_default_header("authorization", "Basic eA==")
    assert b"Authorization: Basic eA==" in send_request(server, gpuctl.connect(client=client))


def test_refresh_hook_runs_before_each_request(server: Server) -> None:
    tokens = iter(["t1", "t2"])

    def refresh(configuration: Any) -> None:
        configuration.api_key["authorization"] = f"Bearer {next(tokens)}"

    client = official_client(server.url, api_key={"authorization": ""}, refresh_api_key_hook=refresh)
    connection = gpuctl.connect(client=client)
    assert server.requests == []
    assert b"Authorization: Bearer t1" in send_request(server, connection)
    assert b"Authorization: Bearer t2" in send_request(server, connection)
    with pytest.raises(ConfigurationError, match="the refresh_api_key_hook of the client failed"):
        send_request(server, connection)


def test_client_proxy_is_used(server: Server) -> None:
    client = official_client(
        "http://api.example.com", proxy=server.url, proxy_headers={"Proxy-Authorization": "Basic eA=="}
    )
    lines = send_request(server, gpuctl.connect(client=client))
    assert lines[0] == b"GET http://api.example.com/version HTTP/1.1"
    assert b"Proxy-Authorization: Basic eA==" in lines


def test_client_no_proxy_is_respected(server: Server) -> None:
    client = official_client(server.url, proxy="http://127.0.0.1:1", no_proxy="127.0.0.0/8")
    assert send_request(server, gpuctl.connect(client=client))[0] == b"GET /version HTTP/1.1"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"host": "localhost:6443"}, "the host of the client is localhost:6443"),
        ({"assert_hostname": False}, "gpuctl cannot follow assert_hostname of the client's configuration"),
        ({"proxy": "socks5://127.0.0.1:1"}, "the proxy in the client's configuration is a socks5 proxy, which is not supported"),
        ({"ssl_ca_cert": "/nowhere/ca.crt"}, "ssl_ca_cert of the client names /nowhere/ca.crt, which cannot be read: no such file or directory"),
        ({"cert_file": "/nowhere/a.crt"}, "cert_file of the client names /nowhere/a.crt, which cannot be read: no such file or directory"),
    ],
)  # fmt: skip
def test_unsupported_client_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    client = official_client("https://127.0.0.1:1")
    for name, value in settings.items():
        setattr(client.configuration, name, value)
    with pytest.raises(ConfigurationError) as caught:
        gpuctl.connect(client=client)
    assert str(caught.value) == message
    assert caught.value.hint


def test_invalid_client_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r"`client` is not a kubernetes\.client\.ApiClient"):
        gpuctl.connect(client=object())
    with pytest.raises(ConfigurationError, match="`client` is set together with"):
        gpuctl.connect(client=official_client("http://x"), impersonated=Impersonation("alice"))
    client = official_client("http://x")
    client.set_default_header("Impersonate-User", "a\nb")
    with pytest.raises(ConfigurationError, match="the value for Impersonate-User contains a line break"):
        gpuctl.connect(client=client)


def test_ca_bundle_may_have_non_ascii_comments() -> None:
    """certifi's bundle has such comments, and a client's ``ssl_ca_cert`` is often that file."""
    bundle = "# Issuer: CN=Főtanúsítvány\n".encode() + Path(certifi.where()).read_bytes()
    assert TlsSettings(bundle).context(None).cert_store_stats()["x509"] > 10
    with pytest.raises(ConfigurationError, match="holds no certificate in PEM form"):
        TlsSettings("# Főtanúsítvány\nnothing else\n".encode()).context(None)

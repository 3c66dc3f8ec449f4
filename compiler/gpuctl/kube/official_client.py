"""A connection with the settings of a configured client of the official ``kubernetes`` package.

The package is not imported. The settings are those that its ``rest.py`` and ``api_client.py`` read.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.connection import Connection
from gpuctl.kube.credentials import ClientCertificate, Credential, Headers, checked, read_file
from gpuctl.kube.proxies import Proxy, matches_no_proxy, parse_proxy
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import ServerAccess, Transport

_OWN = frozenset(
    {"accept", "accept-encoding", "authorization", "connection", "content-length", "content-type", "host", "user-agent"}
)
"""Headers that the connection sets itself."""


def connection_of(client: Any) -> Connection:
    """Return a connection to the server of an ``ApiClient``, as its user, through its proxy.

    Its settings are read now; its token is read before each request, after its ``refresh_api_key_hook``.

    :raises ConfigurationError: it is not an ``ApiClient``, or has a setting that gpuctl does not support.
    """
    settings = getattr(client, "configuration", None)
    if settings is None or not hasattr(settings, "auth_settings"):
        raise ConfigurationError(
            "`client` is not a kubernetes.client.ApiClient",
            "call kubernetes.config.load_kube_config() and pass kubernetes.client.ApiClient()",
        )
    server = str(settings.host).rstrip("/")
    if urlsplit(server).scheme not in ("http", "https"):
        raise ConfigurationError(f"the host of the client is {server}", "it has to begin with https:// or http://")
    for name in ("proxy_ssl_context", "assert_hostname"):
        if getattr(settings, name, None) not in (None, ""):
            raise ConfigurationError(f"gpuctl cannot follow {name} of the client's configuration", "leave it out")
    headers = tuple((name, str(value)) for name, value in client.default_headers.items() if name.lower() not in _OWN)
    if client.cookie:
        headers = (*headers, ("Cookie", str(client.cookie)))
    access = ServerAccess(
        server,
        _trust(settings),
        _Credentials(client),
        checked(headers, "correct default_headers of the client"),
        _proxy(settings, server),
        "",
    )
    return Connection(Transport(access), "default", "")


class _Credentials:
    def __init__(self, client: Any) -> None:
        self._client = client
        settings = client.configuration
        certificate = _content(settings, "cert_file")
        key = _content(settings, "key_file") or certificate
        self._certificate = ClientCertificate(certificate, key) if certificate and key else None

    def current(self) -> Credential:
        try:
            found = self._client.configuration.auth_settings().get("BearerToken")
        except Exception as error:
            raise ConfigurationError(f"the refresh_api_key_hook of the client failed: {error}") from error
        given = {name.lower(): value for name, value in self._client.default_headers.items()}
        value = (found or {}).get("value") or given.get("authorization") or ""
        return Credential(str(value), self._certificate)

    def renew(self, refused: Credential) -> bool:
        return self.current() != refused


def _trust(settings: Any) -> TlsSettings:
    data = getattr(settings, "ca_cert_data", None)
    authority = (data.encode() if isinstance(data, str) else data) or _content(settings, "ssl_ca_cert")
    origin = f"ssl_ca_cert of the client ({settings.ssl_ca_cert})"
    return TlsSettings(authority, settings.tls_server_name or "", bool(settings.verify_ssl), origin)


def _content(settings: Any, name: str) -> bytes | None:
    path = getattr(settings, name)
    if not path:
        return None
    try:
        return read_file(path)
    except OSError as error:
        reason = error.strerror.lower() if error.strerror else str(error)
        raise ConfigurationError(
            f"{name} of the client names {path}, which cannot be read: {reason}", "correct the client's configuration"
        ) from None


def _proxy(settings: Any, server: str) -> Proxy | None:
    if not settings.proxy or matches_no_proxy(urlsplit(server), settings.no_proxy or ""):
        return None
    proxy = parse_proxy(settings.proxy, "the client's configuration")
    stated: Headers = tuple((settings.proxy_headers or {}).items())
    return proxy._replace(headers=(*proxy.headers, *stated))

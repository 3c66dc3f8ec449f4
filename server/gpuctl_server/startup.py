"""Start of the service: settings, cluster connection, tokens, and the HTTP server."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from gpuctl.frontend.invalid_documents import InvalidDocuments
from gpuctl.hints import Surface, set_process_surface
from gpuctl.kube.api_errors import ClusterError
from gpuctl.kube.configuration import connect
from gpuctl.kube.connection import Connection
from gpuctl.language.settings import Settings
from gpuctl.usecases.documents.compiling import read_platform
from gpuctl_server import channel_commands as channels
from gpuctl_server import token_commands as tokens
from gpuctl_server.access.caller import Authenticator
from gpuctl_server.access.kubernetes import ClusterUsers
from gpuctl_server.access.oidc_login import is_address
from gpuctl_server.access.tokens import FIRST_LIFETIME, FIRST_NAME, DamagedTokens, ServiceTokenFile, create_first_token
from gpuctl_server.app import create_app
from gpuctl_server.audit import audit_to
from gpuctl_server.http.http_protocols import AbortableWebSocket, LimitedHttp
from gpuctl_server.http.limited_server import LimitedServer
from gpuctl_server.http.listen_sockets import CannotListen, bind_sockets, close_sockets
from gpuctl_server.http.tls_certificate import InvalidCertificate, TlsCertificate
from gpuctl_server.malloc import limit_heaps, trim_heap
from gpuctl_server.request_log import LOG, set_up
from gpuctl_server.routes.routers import BASE
from gpuctl_server.server_settings import ServerSettings
from gpuctl_server.service_context import Service, make_service
from gpuctl_usage.layered_settings import FILE, SettingsProblem

_TRIM_INTERVAL = 600
"""Interval for returning free memory to the system, ticks of 0.1 s."""
_CERTIFICATE_INTERVAL = 10
"""Interval for checking if the certificate was replaced, ticks of 0.1 s."""


class CannotStart(Exception):
    """The service cannot be started with these settings; ``str()`` is a message for the user."""


def serve(settings: ServerSettings, notify: Callable[[str], None]) -> None:
    """Serve until a signal ends the process.

    :param notify: called with messages for the user: the address, and at the first start the file with the token.
    :raises CannotStart: a setting is invalid, or a resource is not available.
    """
    if settings.usage and not settings.usage_database:
        raise CannotStart(
            "collecting usage needs a database: set `usage_database` (GPUCTL_SERVER_USAGE_DATABASE) to a file, or "
            "use --usage-database"
        )
    # The lists of a plan are large and live long: collecting them often takes half of its time.
    gc.set_threshold(200_000, 50, 100)
    limit_heaps()
    certificate = _certificate(settings)
    try:
        # First, so that a start that fails here has created nothing.
        is_plain = certificate is None and not settings.insecure_plain_http
        sockets = bind_sockets(settings.host, settings.port, loopback_only=is_plain)
    except CannotListen as error:
        raise CannotStart(str(error)) from None
    try:
        _serve(settings, prepare(settings, notify), certificate, sockets, notify)
    finally:
        close_sockets(sockets)


def _serve(
    settings: ServerSettings,
    service: Service,
    certificate: TlsCertificate | None,
    sockets: list[socket.socket],
    notify: Callable[[str], None],
) -> None:
    set_process_surface(Surface.REST)
    scheme = "https" if certificate is not None else "http"
    config = uvicorn.Config(
        create_app(service),
        ssl_certfile=certificate.chain if certificate is not None else None,
        ssl_keyfile=certificate.key if certificate is not None else None,
        timeout_graceful_shutdown=int(settings.shutdown_timeout),
        log_config=None,
        access_log=False,
        server_header=False,
        http=LimitedHttp,
        ws=AbortableWebSocket,
        ws_max_size=64 * 1024,
        ws_ping_interval=settings.follower_ping,
        ws_ping_timeout=settings.follower_ping,
        # A compressor for each of a thousand followers would need more memory than everything else.
        ws_per_message_deflate=False,
    )
    # uvicorn raises the signal again after shutdown. The exit code must then be 0.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    def listening(host: str, port: int) -> None:
        notify(f"gpuctl serves {scheme}://{host}:{port}{BASE}")
        notify(f"the web console is at {scheme}://{host}:{port}/")

    server = _Server(config, listening, service, certificate)
    set_up()
    try:
        audit_to(settings.audit, service.audit)
    except OSError as error:
        raise CannotStart(f"the audit cannot be written: {error}") from None
    try:
        server.run(sockets)
    finally:
        if service.change_slots.running:
            # Do not wait for its thread, which might take minutes. The journal of the change allows recovery.
            LOG.error("exited during a change; `gpuctl recover` finishes it")
            os._exit(1)


class _Server(LimitedServer):
    """A server that reports its address once it listens, and begins shutdown by ending changes, collector and
    followers.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        listening: Callable[[str, int], None],
        service: Service,
        certificate: TlsCertificate | None,
    ) -> None:
        limits = service.settings
        super().__init__(config, limits.connections, limits.head_timeout, service.server_time)
        self._listening = listening
        self._service = service
        self._certificate = certificate

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.started or sockets is None:
            return
        host, port = sockets[0].getsockname()[:2]
        self._listening(f"[{host}]" if ":" in host else host, port)

    async def on_tick(self, counter: int) -> bool:
        """Also free memory and renew the certificate at intervals. Called ten times a second."""
        if counter % _TRIM_INTERVAL == 0:
            self._service.shared_lists.forget_outdated()
            trim_heap()
        if self._certificate is not None and self.config.ssl is not None and counter % _CERTIFICATE_INTERVAL == 0:
            self._certificate.renew(self.config.ssl)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.change_slots.end()
        if self._service.collector is not None:
            self._service.collector.end()
        await self._service.logs.end()
        await super().shutdown(sockets)


def _certificate(settings: ServerSettings) -> TlsCertificate | None:
    if settings.tls_certificate is None:
        if settings.tls_key is not None:
            # Otherwise the service would use plain HTTP, contrary to the intention of the user.
            raise CannotStart("tls_key needs tls_certificate")
        return None
    try:
        return TlsCertificate(settings.tls_certificate.expanduser(), settings.tls_key and settings.tls_key.expanduser())
    except InvalidCertificate as error:
        raise CannotStart(f"the certificate cannot be used: {error}") from None


def prepare(settings: ServerSettings, notify: Callable[[str], None]) -> Service:
    """Return a service that has not been started.

    :raises CannotStart: a setting is invalid, or a resource is not available.
    """
    platform = _platform(settings)
    try:
        if settings.cluster is not None and settings.cluster not in platform.clusters:
            named = ", ".join(platform.clusters) or "none"
            raise CannotStart(f"the platform has no cluster `{settings.cluster}`; known are {named}: correct `cluster`")
        connection = connect(kubeconfig=settings.kubeconfig, context=settings.context)
    except ClusterError as error:
        raise CannotStart(error.message + (f"\n  = {error.hint}" if error.hint else "")) from None
    return make_service(settings, connection, platform, _authenticator(settings, connection, notify))


def _platform(settings: ServerSettings) -> Settings:
    try:
        return read_platform(settings.platform).settings
    except InvalidDocuments as error:
        raise CannotStart(f"the platform's settings have errors:\n{error}") from None


def _authenticator(settings: ServerSettings, connection: Connection, notify: Callable[[str], None]) -> Authenticator:
    if settings.auth == "kubernetes":
        return ClusterUsers(connection)
    if settings.auth == "oidc":
        return _provider_users(settings, connection)
    path = settings.tokens.expanduser()
    try:
        if not path.exists():
            # Not printed: the output of a service is kept in logs.
            first = create_first_token(path)
            notify(
                f"the token of {FIRST_NAME} is in {first}; it expires in {FIRST_LIFETIME.days} days, "
                f"and its hash is in {path}"
            )
        # In a pod there is no context, and the namespace of the connection is that of the service itself.
        return ServiceTokenFile(path, () if connection.context else (connection.namespace,))
    except (OSError, DamagedTokens) as error:
        raise CannotStart(f"the tokens cannot be used: {error}") from None


def _provider_users(settings: ServerSettings, connection: Connection) -> Authenticator:
    if not settings.oidc_issuer or not settings.oidc_audience:
        raise CannotStart("auth oidc needs oidc_issuer and oidc_audience")
    if not is_address(settings.oidc_issuer):
        raise CannotStart("oidc_issuer must be an HTTPS URL")
    from gpuctl_server.access.oidc import Provider, ProviderUsers

    provider = Provider(
        settings.oidc_issuer,
        settings.oidc_audience,
        settings.oidc_username_claim,
        settings.oidc_groups_claim,
        settings.oidc_prefix,
        settings.oidc_impersonation,
    )
    return ProviderUsers(connection, provider)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``gpuctl-server``: serve, manage the token file (``token``), or try channels (``channel``)."""
    parser = argparse.ArgumentParser(
        prog="gpuctl-server", description="The REST API of gpuctl. Settings come from the environment or a file."
    )
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="settings as YAML; the environment takes precedence"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    tokens.add_commands(commands)
    channels.add_commands(commands)
    options = parser.parse_args(arguments)
    if options.config is not None:
        os.environ[FILE] = str(options.config)
    try:
        settings = ServerSettings.made({})
        if options.command == "token":
            return tokens.run(settings.tokens.expanduser(), options)
        if options.command == "channel":
            return channels.run(settings, _platform(settings), options)
        with contextlib.suppress(KeyboardInterrupt):
            serve(settings, lambda text: print(text, file=sys.stderr, flush=True))
    except (SettingsProblem, tokens.TokenCommandError) as error:
        print(f"gpuctl-server: {error}", file=sys.stderr)
        return 2
    except (CannotStart, channels.ChannelCommandError, DamagedTokens, OSError) as error:
        print(f"gpuctl-server: {error}", file=sys.stderr)
        return 3
    return 0

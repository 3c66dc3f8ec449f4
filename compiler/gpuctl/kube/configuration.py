"""Finding the cluster and the user: kubeconfig and context, or the service account of a pod."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from gpuctl.kube.api_errors import ConfigurationError
from gpuctl.kube.connection import Connection
from gpuctl.kube.credentials import (
    ClientCertificate,
    Credential,
    CredentialSource,
    StaticCredential,
    TokenFileSource,
    basic,
    bearer,
    impersonation_headers,
    read_file,
)
from gpuctl.kube.exec_plugin import ExecPlugin
from gpuctl.kube.kubeconfig import ChosenContext, KubeconfigEntry, choose
from gpuctl.kube.kubeconfig import context_names as kubeconfig_contexts
from gpuctl.kube.official_client import connection_of
from gpuctl.kube.proxies import proxy_for
from gpuctl.kube.session import Session
from gpuctl.kube.tls_settings import TlsSettings
from gpuctl.kube.transport import ServerAccess, Transport
from gpuctl.language.display_text import visible

_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_PLUGIN_CONFIGURATION = "client.authentication.k8s.io/exec"
"""Name of the extension of a kubeconfig's cluster that is passed to its credential plugin."""


class Impersonation(NamedTuple):
    """The user, groups and uid to act as: ``--as``, ``--as-group``, ``--as-uid``. Each overrides the kubeconfig's."""

    user: str = ""
    groups: Sequence[str] = ()
    uid: str = ""


def connect(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    impersonated: Impersonation | None = None,
    client: Any = None,
) -> Connection:
    """Return a connection as kubectl would make it: ``--kubeconfig``, else ``KUBECONFIG``, else ``~/.kube/config``,
    else the service account of the pod.

    No request is sent and no credential plugin is run yet.

    :param client: a configured ``kubernetes.client.ApiClient`` to take server, user, certificates and proxy from.
    :raises ConfigurationError: no usable configuration.
    """
    if client is not None:
        if kubeconfig or context or impersonated:
            raise ConfigurationError(
                "`client` is set together with kubeconfig, context or impersonated",
                "the client knows its server and user",
            )
        return connection_of(client)
    impersonated = impersonated or Impersonation()
    listed, present = _kubeconfigs(kubeconfig)
    if not present and not kubeconfig and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
        access = _service_account(impersonation_headers(impersonated.user, impersonated.uid, impersonated.groups))
        return Connection(Transport(access), _service_account_namespace(), "")
    if not present:
        raise ConfigurationError(
            f"there is no kubeconfig at {kubeconfig or listed}",
            "name one with --kubeconfig or KUBECONFIG; `make sandbox` starts a cluster to try",
        )
    chosen = choose(present, context)
    return Connection(Transport(_access(chosen, impersonated)), chosen.namespace or "default", chosen.context)


def context_names(kubeconfig: str | None) -> list[str]:
    """Return the names of the contexts in the kubeconfig that :func:`connect` reads."""
    return kubeconfig_contexts(_kubeconfigs(kubeconfig)[1])


def _kubeconfigs(kubeconfig: str | None) -> tuple[str, list[str]]:
    """Return the search path of kubeconfigs, and the files of it that exist."""
    listed = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
    files = [kubeconfig] if kubeconfig else list(dict.fromkeys(listed.split(os.pathsep)))
    # kubectl ignores files of the list that do not exist.
    return listed, [name for name in files if name and os.path.exists(os.path.expanduser(name))]


def open_session(
    *, kubeconfig: str | None = None, context: str | None = None, impersonated: Impersonation | None = None
) -> Session:
    """Return a session with its own connection, made by :func:`connect`."""
    return Session(connect(kubeconfig=kubeconfig, context=context, impersonated=impersonated), alone=True)


@contextmanager
def session_of(cluster: Connection | None) -> Iterator[Session]:
    """Yield a session of a connection, which stays open, or (None) with its own connection, made by :func:`connect`."""
    session = Session(cluster) if cluster is not None else open_session()
    try:
        yield session
    finally:
        session.close()


def _access(chosen: ChosenContext, impersonated: Impersonation) -> ServerAccess:
    user = chosen.user
    server, trust = _server(chosen.cluster), _trust(chosen.cluster)
    stated = chosen.cluster.text("proxy-url")
    if not (impersonated.user or user.text("as")):
        for field in ("as-uid", "as-groups", "as-user-extra"):
            if user.body.get(field):
                raise user.field_error(
                    field, "is set without `as`", "name the user to impersonate in `as`, or with --as"
                )
    headers = impersonation_headers(
        impersonated.user or user.text("as"),
        impersonated.uid or user.text("as-uid"),
        impersonated.groups or user.body.get("as-groups") or (),
        user.body.get("as-user-extra"),
    )
    # As in kubectl: credentials are not sent in plain text.
    source = _source(chosen, server, trust) if server.startswith("https://") else StaticCredential(Credential())
    return ServerAccess(server, trust, source, headers, proxy_for(server, stated), chosen.context)


def _server(cluster: KubeconfigEntry) -> str:
    """Return the server's address without query; a path in front of the API's paths is kept."""
    server = cluster.text("server")
    try:
        parts = urlsplit(server)
        usable = parts.scheme in ("https", "http") and parts.hostname and (parts.port or True)
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"the server of the cluster {visible(cluster.name)} is {visible(server) or 'not given'} in the "
            f"kubeconfig {cluster.file}",
            "it has to be an address such as https://10.0.0.1:6443",
        )
    if "@" in parts.netloc:
        raise cluster.field_error(
            "server", "has a user in its address", "credentials belong to a user of the kubeconfig"
        )
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _trust(cluster: KubeconfigEntry) -> TlsSettings:
    for field in ("certificate-authority", "certificate-authority-data"):
        if cluster.text(field) and cluster.body.get("insecure-skip-tls-verify"):
            raise cluster.field_error(field, "is set together with insecure-skip-tls-verify", "keep one of the two")
    authority = _content(cluster, "certificate-authority")
    origin = f"{cluster.path}.certificate-authority{'-data' if not cluster.text('certificate-authority') else ''}"
    return TlsSettings(
        authority,
        cluster.text("tls-server-name"),
        not cluster.body.get("insecure-skip-tls-verify"),
        f"{origin} of the kubeconfig {cluster.file}",
    )


def _content(entry: KubeconfigEntry, field: str) -> bytes | None:
    """Return the content of a field, from its ``-data`` form, else from its file."""
    data, path = entry.text(f"{field}-data"), entry.file_of(field)
    if data:
        try:
            return base64.b64decode("".join(data.split()), validate=True)
        except binascii.Error:
            raise entry.field_error(f"{field}-data", "is not base64") from None
    if path is None:
        return None
    try:
        return read_file(path)
    except OSError as error:
        raise entry.field_error(field, f"names {path}, which cannot be read: {_reason(error)}") from None


def _reason(error: OSError) -> str:
    """Return the system's error text, for the middle of a sentence; ``str(error)`` may contain a path."""
    return error.strerror.lower() if error.strerror else str(error)


def _source(chosen: ChosenContext, server: str, trust: TlsSettings) -> CredentialSource:
    user = chosen.user
    pair = (_content(user, "client-certificate"), _content(user, "client-key"))
    certificate = ClientCertificate(pair[0], pair[1]) if pair[0] and pair[1] else None
    path = user.file_of("tokenFile")
    if path is not None:
        return TokenFileSource(path, user.text("token"), certificate)
    if user.text("token"):
        return StaticCredential(Credential(bearer(user.text("token")), certificate))
    if user.text("username"):
        return StaticCredential(Credential(basic(user.text("username"), user.text("password")), certificate))
    if certificate is not None or user.body.get("exec") is None:
        return StaticCredential(Credential("", certificate))
    return _plugin(chosen, server, trust)


def _plugin(chosen: ChosenContext, server: str, trust: TlsSettings) -> CredentialSource:
    entry = chosen.user.body["exec"]
    command: str = entry["command"]
    return ExecPlugin(
        chosen.user.resolved(command) if os.sep in command else command,
        chosen.user.name,
        entry["apiVersion"],
        entry.get("args") or (),
        {variable["name"]: variable["value"] for variable in entry.get("env") or ()},
        entry.get("interactiveMode") or "IfAvailable",
        entry.get("installHint") or "",
        _cluster_info(chosen.cluster, server, trust) if entry.get("provideClusterInfo") else None,
    )


def _cluster_info(cluster: KubeconfigEntry, server: str, trust: TlsSettings) -> dict[str, Any]:
    """Return the description of the cluster that is passed to a credential plugin (``ConfigToExecCluster``)."""
    extensions = cluster.body.get("extensions") or []
    configuration = next(
        (
            item.get("extension")
            for item in extensions
            if isinstance(item, dict) and item.get("name") == _PLUGIN_CONFIGURATION
        ),
        None,
    )
    told = {
        "server": server,
        "tls-server-name": trust.name,
        "insecure-skip-tls-verify": not trust.verify,
        "certificate-authority-data": base64.b64encode(trust.authority or b"").decode(),
        "proxy-url": cluster.text("proxy-url"),
        "disable-compression": bool(cluster.body.get("disable-compression")),
        "config": configuration,
    }
    return {name: value for name, value in told.items() if value}


def _service_account(headers: tuple[tuple[str, str], ...]) -> ServerAccess:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT") or "443"
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        authority = read_file(os.path.join(_SERVICE_ACCOUNT, "ca.crt"))
        source = TokenFileSource(os.path.join(_SERVICE_ACCOUNT, "token"))
    except (OSError, ConfigurationError) as error:
        why = error.message if isinstance(error, ConfigurationError) else f"{error.filename}: {_reason(error)}"
        raise ConfigurationError(
            f"the service account of this pod cannot be used: {why}",
            "check automountServiceAccountToken of the pod and its service account",
        ) from None
    trust = TlsSettings(authority, origin=os.path.join(_SERVICE_ACCOUNT, "ca.crt"))
    return ServerAccess(server, trust, source, headers, proxy_for(server, ""), "")


def _service_account_namespace() -> str:
    with contextlib.suppress(OSError):
        return read_file(os.path.join(_SERVICE_ACCOUNT, "namespace")).decode().strip() or "default"
    return "default"

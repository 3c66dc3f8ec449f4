"""Checks that a connection leads to the intended cluster, by what the platform's file states about its clusters.

A context's name proves nothing: `prod` may lead anywhere. The address and the context are compared before any request,
the uid of the namespace kube-system, which is unique per cluster, with one request before all others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from gpuctl.kube.api_errors import ConfigurationError, if_allowed
from gpuctl.kube.connection import Connection
from gpuctl.kube.session import Session
from gpuctl.language.display_text import visible
from gpuctl.objects.api_resources import Key

if TYPE_CHECKING:
    from gpuctl.language.platform_document import ClusterIdentity

KUBE_SYSTEM = Key("Namespace", "", "kube-system")
"""The namespace whose uid identifies a cluster."""
_PORTS = {"http": 80, "https": 443}


class WrongCluster(ConfigurationError):
    """The connection leads to another cluster than intended, or this cannot be determined; nothing was changed."""


class Address(NamedTuple):
    """The normalized address of an API server. Several clusters behind one host may differ by path."""

    scheme: str
    host: str
    port: int
    path: str


def address_of(url: str) -> Address:
    """Return a normalized address: `https://API.example.com` equals `https://api.example.com:443/`."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        with contextlib.suppress(ValueError):
            host = str(ip_address(host))
    scheme = parts.scheme.lower()
    return Address(scheme, host, parts.port or _PORTS.get(scheme, 0), parts.path.rstrip("/"))


def address_mismatch(connection: Connection, cluster: ClusterIdentity) -> str | None:
    """Return how the connection's address or context differs from the cluster's, as text; None if both match.

    No request is sent.
    """
    if cluster.server is not None and address_of(cluster.server) != address_of(connection.server):
        return f"its server is {cluster.server}, and {_place(connection)} leads to {connection.server}"
    if cluster.context is not None and cluster.context != connection.context:
        used = f"the context {visible(connection.context)} is used" if connection.context else "no kubeconfig is used"
        return f"its context is {visible(cluster.context)}, and {used}"
    return None


def check_cluster(session: Session, name: str, cluster: ClusterIdentity, *, file: str) -> None:
    """Raise an error unless the session is connected to the cluster called ``name``.

    :param file: the platform's file, which describes the cluster; named in the message.
    :raises WrongCluster: it is another cluster, or the user may not read the uid.
    """
    other = address_mismatch(session.connection, cluster)
    if other is not None:
        raise _wrong(name, other, file)
    if cluster.uid is None:
        return
    uid = kube_system_uid(session)
    if uid is None:
        raise WrongCluster(
            f"cannot verify that {session.server} is the cluster {name}: this user may not read the namespace "
            "kube-system, whose uid identifies it",
            "grant this user `get` on the namespace kube-system, or name the cluster by its server or context in "
            f"{file}",
        )
    if uid != cluster.uid:
        raise _wrong(name, f"its uid is {cluster.uid}, and that of {session.server} is {uid}", file)


def find_cluster_name(session: Session, clusters: Mapping[str, ClusterIdentity], *, ask: bool) -> str | None:
    """Return the name of the platform's cluster that a session is connected to; None for any other cluster.

    :param ask: compare uids too, which takes a request. If the user may not read the uid, address and context decide.
        In a pod only the uid counts, because the API server has another address there than outside.
    """
    inside = not session.context
    fitting = {
        name: cluster
        for name, cluster in clusters.items()
        if inside or address_mismatch(session.connection, cluster) is None
    }
    if not ask or all(cluster.uid is None for cluster in fitting.values()):
        return next(iter(fitting), None)
    uid = kube_system_uid(session)
    return next((name for name, cluster in fitting.items() if uid is None or cluster.uid in (None, uid)), None)


def kube_system_uid(session: Session) -> str | None:
    """Return the uid of a cluster as :func:`read_cluster_uid` does; None if the user may not read it."""
    return if_allowed(lambda: read_cluster_uid(session), None)


def read_cluster_uid(session: Session) -> str:
    """Return the uid of the namespace kube-system, which identifies a cluster; "" without that namespace.

    :raises ClusterError: it cannot be read.
    """
    found = session.get_metadata(KUBE_SYSTEM) or {"metadata": {}}
    return str(found["metadata"].get("uid") or "")


def _place(connection: Connection) -> str:
    return f"the context {visible(connection.context)}" if connection.context else "the service account of this pod"


def _wrong(name: str, other: str, file: str) -> WrongCluster:
    return WrongCluster(
        f"this is not the cluster {name}: {other}",
        f"nothing was read or written; correct the kubeconfig, or what {file} says of {name}",
    )

"""Whether a cluster is the one that is meant: what a connection says of itself, against what a platform says of its
clusters.

A name in a kubeconfig is only a name: `prod` may lead anywhere. The address and the context are compared before
anything is sent, the uid of the namespace kube-system, which no two clusters share, with one request before all others.
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

_SYSTEM = Key("Namespace", "", "kube-system")
_PORTS = {"http": 80, "https": 443}


class WrongCluster(ConfigurationError):
    """The connection leads to another cluster than the one that is meant, or it cannot be told; nothing was changed."""


class Address(NamedTuple):
    """Where an API server is, however it is written. Behind one host several clusters may have paths of their own."""

    scheme: str
    host: str
    port: int
    path: str


def address_of(url: str) -> Address:
    """An address in parts that can be compared: `https://API.example.com` is `https://api.example.com:443/`."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    if ":" in host:
        with contextlib.suppress(ValueError):
            host = str(ip_address(host))
    scheme = parts.scheme.lower()
    return Address(scheme, host, parts.port or _PORTS.get(scheme, 0), parts.path.rstrip("/"))


def address_mismatch(connection: Connection, cluster: ClusterIdentity) -> str | None:
    """What a connection says of itself that is not so of a cluster; None where all agrees. Nothing is sent."""
    if cluster.server is not None and address_of(cluster.server) != address_of(connection.server):
        return f"its server is {cluster.server}, and {_place(connection)} leads to {connection.server}"
    if cluster.context is not None and cluster.context != connection.context:
        used = f"the context {visible(connection.context)} is used" if connection.context else "no kubeconfig is used"
        return f"its context is {visible(cluster.context)}, and {used}"
    return None


def check_cluster(session: Session, name: str, cluster: ClusterIdentity, *, file: str) -> None:
    """See that a session is with the cluster of a name.

    :param file: the platform's file, which says what the cluster is.
    :raises WrongCluster: it is not, or may not be asked what it is.
    """
    other = address_mismatch(session.connection, cluster)
    if other is not None:
        raise _wrong(name, other, file)
    if cluster.uid is None:
        return
    uid = kube_system_uid(session)
    if uid is None:
        raise WrongCluster(
            f"whether {session.server} is the cluster {name} cannot be told: its uid is that of the namespace "
            "kube-system, which this user may not read",
            f"have `get` of the namespace kube-system granted, or name the cluster by its server or context in {file}",
        )
    if uid != cluster.uid:
        raise _wrong(name, f"its uid is {cluster.uid}, and that of {session.server} is {uid}", file)


def find_cluster_name(session: Session, clusters: Mapping[str, ClusterIdentity], *, ask: bool) -> str | None:
    """The cluster among those of a platform that a session is with; None where it is none of them.

    :param ask: compare uids too, which takes a request. A user who may not read the uid is believed the rest; in a pod,
        where the API server has another address than outside, nothing else counts.
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
    """The uid of the namespace kube-system, by which a cluster is known; None where it may not be read."""
    found = if_allowed(lambda: session.get_metadata(_SYSTEM) or {"metadata": {}}, None)
    return str(found["metadata"].get("uid") or "") if found is not None else None


def _place(connection: Connection) -> str:
    return f"the context {visible(connection.context)}" if connection.context else "the service account of this pod"


def _wrong(name: str, other: str, file: str) -> WrongCluster:
    return WrongCluster(
        f"this is not the cluster {name}: {other}",
        f"nothing was read or written; correct the kubeconfig, or what {file} says of {name}",
    )

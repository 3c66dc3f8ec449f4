"""The context of read-only commands: namespace, platform, and the cluster or service to read from."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, cast

from gpuctl.kube.configuration import session_of
from gpuctl.kube.connection import Connection
from gpuctl.kube.not_found import no_such
from gpuctl.kube.scope import Scope
from gpuctl.kube.session import Session
from gpuctl.language.display_text import visible
from gpuctl.language.names import is_dns_label
from gpuctl.language.sentences import say
from gpuctl.language.settings import Settings
from gpuctl.objects import timestamps
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.usecases.service.service_client import NoCluster, ServiceClient


class ReadContext(NamedTuple):
    """The context of one command.

    :param scope: session and namespace; it collects notes on what may not be read.
    :param settings: the platform's settings; ``keys``: its label keys.
    :param service: the service to query instead of the cluster; None to use the cluster.
    """

    scope: Scope
    settings: Settings
    keys: Records
    service: ServiceClient | None = None

    def now(self) -> float:
        """Return the time by the clock of the API server, which sets the times of objects and dates the responses of a
        service; the local time if it is unknown. Seconds since 1970.
        """
        ahead = self.scope.session.known_clock_ahead if self.service is None else self.service.known_clock_ahead
        return time.time() + ahead

    def age(self, timestamp: str | None) -> str:
        """Return the time since a timestamp of an object: ``45s``, ``12m``, ``3h``; "" without a timestamp."""
        return timestamps.age(timestamp, self.now()) if timestamp else ""


def service_context(service: ServiceClient, settings: Settings, namespace: str | None = None) -> ReadContext:
    """Return a context for a service. Operations that the service does not offer raise an error.

    :raises InvalidOptions: ``namespace`` is not a valid name.
    """
    return context_of(cast(Session, NoCluster(service.url)), settings, namespace)._replace(service=service)


def context_of(session: Session, settings: Settings, namespace: str | None = None) -> ReadContext:
    """Return a context for a namespace, or (None) for all that may be read.

    :raises InvalidOptions: ``namespace`` is not a valid name.
    """
    # The namespace becomes part of URLs, in which `..` would name another resource.
    if namespace is not None and not is_dns_label(namespace):
        from gpuctl.usecases.documents.change_options import InvalidOptions

        raise InvalidOptions(say("`{namespace}` is not a legal namespace name", namespace=visible(namespace)))
    return ReadContext(Scope(session, namespace), settings, records(settings))


@contextmanager
def open_context(
    cluster: Connection | None, platform: str | os.PathLike[str] | Settings | None, namespace: str | None
) -> Iterator[ReadContext]:
    """Open a context for a cluster. A given connection stays open; without one, the kubeconfig's is opened and closed.

    :raises InvalidDocuments: the platform's file has errors.
    :raises ConfigurationError: there is no usable kubeconfig.
    :raises InvalidOptions: ``namespace`` is not a valid name.
    """
    if not isinstance(platform, Settings):
        from gpuctl.usecases.documents.compiling import read_platform

        platform = read_platform(platform).settings
    with session_of(cluster) as session:
        yield context_of(session, platform, namespace)


def check_names(what: str, names: Iterable[str], there: Iterable[str]) -> None:
    """Check that all names exist.

    :raises NotThere: a name does not exist.
    """
    there = list(there)
    for name in names:
        if name not in there:
            raise no_such(what, name, there)

"""Looking at a cluster: where, and by which platform. What everything that changes nothing begins with."""

from __future__ import annotations

import os
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
from gpuctl.language.settings import Settings
from gpuctl.objects.ownership_metadata import Records, records
from gpuctl.usecases.service_client import NoCluster, ServiceClient


class ReadContext(NamedTuple):
    """One look: ``scope`` is where, and afterwards has the notes on what could not be looked at; ``settings`` and
    ``keys`` are the platform's. ``service`` is asked instead of the cluster, None where there is a way to that."""

    scope: Scope
    settings: Settings
    keys: Records
    service: ServiceClient | None = None


def service_context(service: ServiceClient, settings: Settings, namespace: str | None = None) -> ReadContext:
    """A look at what the service shows, as :func:`context_of`. What the service does not offer refuses to be done.

    :raises InvalidOptions: the name is none of a namespace.
    """
    return context_of(cast(Session, NoCluster(service.url)), settings, namespace)._replace(service=service)


def context_of(session: Session, settings: Settings, namespace: str | None = None) -> ReadContext:
    """A look at a namespace, or (None) at all that may be read; each look has one of its own.

    :raises InvalidOptions: the name is none of a namespace.
    """
    # It becomes a part of paths, where `..` would mean another resource.
    if namespace is not None and not is_dns_label(namespace):
        from gpuctl.usecases.change_options import InvalidOptions

        raise InvalidOptions(f"`{visible(namespace)}` is not a legal namespace name")
    return ReadContext(Scope(session, namespace), settings, records(settings))


@contextmanager
def open_context(
    cluster: Connection | None, platform: str | os.PathLike[str] | Settings | None, namespace: str | None
) -> Iterator[ReadContext]:
    """A look at a cluster that stays open, or (None) at the one of the kubeconfig, which is left afterwards.

    :raises InvalidDocuments: the platform's file has errors.
    :raises ConfigurationError: there is no usable kubeconfig.
    :raises InvalidOptions: the name is none of a namespace.
    """
    if not isinstance(platform, Settings):
        from gpuctl.usecases.compiling import read_platform

        platform = read_platform(platform).settings
    with session_of(cluster) as session:
        yield context_of(session, platform, namespace)


def check_names(what: str, names: Iterable[str], there: Iterable[str]) -> None:
    """See that everything that was named is there.

    :raises NotThere: it is not.
    """
    there = list(there)
    for name in names:
        if name not in there:
            raise no_such(what, name, there)

"""The interface of an authenticated caller, and its implementation for tokens of the service."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from gpuctl.kube.connection import Connection
from gpuctl.objects.api_resources import Resource
from gpuctl_server.access.rights import AccessRequest, Decision, Rights


class Caller(Protocol):
    """A client whose token was accepted."""

    @property
    def name(self) -> str:
        """The caller's name, for messages and the audit."""

    @property
    def home(self) -> str | None:
        """Namespace of jobs that name none: the first namespace of the caller's list; None without a list."""

    def sees(self, namespace: str) -> bool:
        """Return True if the caller may read objects in a namespace ("": objects without a namespace)."""

    def may(self, access: AccessRequest) -> Decision:
        """Return whether the caller may do something, with a message for the user."""

    def sees_all(self) -> bool:
        """Return True if the caller may read objects in all namespaces, possibly except those of the system."""

    def may_scrape(self) -> bool:
        """Return True if the caller may read all metrics of the service, as Prometheus does."""

    def may_list(self, resource: Resource) -> bool:
        """Return True if the caller may read all objects of a resource; it has no namespace."""

    @property
    def namespaces(self) -> Collection[str] | None:
        """The namespaces that the caller is limited to; None without such a list."""

    @property
    def pools(self) -> Collection[str] | None:
        """The pools whose jobs and nodes the caller is limited to; None: all."""

    @property
    def is_confined(self) -> bool:
        """True if the service, which writes on behalf of the caller, must restrict what the caller's pods may do."""

    def connection(self, service: Connection) -> Connection:
        """Return the connection for writes: that of the service, or one with the caller's own identity in the
        cluster."""


class Authenticator(Protocol):
    """Finds the caller of a token."""

    def caller(self, token: str) -> Caller | None:
        """Return the caller of a token; None if the token is unknown, revoked or expired.

        :raises ClusterError: the token cannot be checked now.
        """


@dataclass(frozen=True)
class TokenCaller:
    """The owner of a token that this service issued."""

    name: str
    rights: Rights
    home: str | None = None

    def sees(self, namespace: str) -> bool:
        return self.rights.sees(namespace)

    def sees_all(self) -> bool:
        return self.rights.sees_all()

    def may_scrape(self) -> bool:
        return self.rights.role == "metrics"

    def may_list(self, resource: Resource) -> bool:
        return True

    def may(self, access: AccessRequest) -> Decision:
        return self.rights.decide(self.name, access)

    @property
    def pools(self) -> Collection[str] | None:
        return self.rights.pools

    @property
    def is_confined(self) -> bool:
        """A caller with limits must not reach beyond them through a pod. See :attr:`Caller.is_confined`."""
        return not self.rights.is_unlimited

    @property
    def namespaces(self) -> Collection[str] | None:
        return self.rights.namespaces

    def connection(self, service: Connection) -> Connection:
        """Return the connection of the service: the rights of a token are checked before."""
        return service

"""Who asks."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from gpuctl.kube.connection import Connection
from gpuctl_server.access.rights import AccessRequest, Decision, Rights


class Caller(Protocol):
    """Somebody whose token was accepted. ``name`` is for messages and for the audit."""

    @property
    def name(self) -> str:
        """Who it is."""

    @property
    def home(self) -> str | None:
        """The namespace of their jobs that name none: the first of theirs; None where theirs are all."""

    def sees(self, namespace: str) -> bool:
        """Whether what is in a namespace ("" for what is in none) may be looked at."""

    def may(self, access: AccessRequest) -> Decision:
        """Whether something may be done."""

    def sees_all(self) -> bool:
        """Whether what is in all namespaces may be looked at, those of the system perhaps left out."""

    @property
    def namespaces(self) -> Collection[str] | None:
        """Those that it is confined to; None when no list of them is known."""

    @property
    def pools(self) -> Collection[str] | None:
        """The pools that its jobs and nodes are confined to; None for all."""

    @property
    def is_confined(self) -> bool:
        """Whether the service, which writes for them, has to see to it what their pods may do."""

    def connection(self, service: Connection) -> Connection:
        """As whom it writes: the service itself, or somebody the cluster knows."""


class Authenticator(Protocol):
    """What a token is worth."""

    def caller(self, token: str) -> Caller | None:
        """Whose token it is; None when it is nobody's, or no longer.

        :raises ClusterError: that cannot be found out now.
        """


@dataclass(frozen=True)
class TokenCaller:
    """The owner of a token of ours."""

    name: str
    rights: Rights
    home: str | None = None

    def sees(self, namespace: str) -> bool:
        """As :meth:`Caller.sees`."""
        return self.rights.sees(namespace)

    def sees_all(self) -> bool:
        """As :meth:`Caller.sees_all`."""
        return self.rights.sees_all()

    def may(self, access: AccessRequest) -> Decision:
        """As :meth:`Caller.may`."""
        return self.rights.decide(self.name, access)

    @property
    def pools(self) -> Collection[str] | None:
        """As :attr:`Caller.pools`."""
        return self.rights.pools

    @property
    def is_confined(self) -> bool:
        """As :attr:`Caller.is_confined`: what they may not do in the cluster their pods must not either."""
        return not self.rights.is_unlimited

    @property
    def namespaces(self) -> Collection[str] | None:
        """As :attr:`Caller.namespaces`."""
        return self.rights.namespaces

    def connection(self, service: Connection) -> Connection:
        """As :meth:`Caller.connection`: what a token of ours may was decided before."""
        return service

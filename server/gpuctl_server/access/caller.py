"""Who asks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from gpuctl_server.access.rights import Decision, Rights, Wish


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

    def may(self, wish: Wish) -> Decision:
        """Whether something may be done."""


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

    def may(self, wish: Wish) -> Decision:
        """As :meth:`Caller.may`."""
        return self.rights.decide(self.name, wish)

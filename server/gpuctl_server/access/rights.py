"""What a caller may. One function decides, for every route and for ``POST /auth/check`` alike."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

Role = Literal["admin", "user", "viewer"]
ROLES: tuple[Role, ...] = ("admin", "user", "viewer")

Action = Literal["get", "create", "update", "delete"]
ACTIONS: tuple[Action, ...] = ("get", "create", "update", "delete")

RESOURCES = (
    "jobs",
    "logs",
    "metrics",
    "pools",
    "nodes",
    "labels",
    "quotas",
    "namespaces",
    "plans",
    "recoveries",
    "audit",
)
"""What is asked for. ``plans`` are previews; ``recoveries`` finish what killed runs left."""

_OF_JOBS = frozenset({"jobs", "logs", "metrics", "plans"})
_READ_BY_ALL = frozenset({"pools", "nodes", "labels", "quotas", "namespaces", *_OF_JOBS})


class Wish(NamedTuple):
    """What somebody wants to do. ``namespace`` and ``pool`` are None where it is not about a certain one."""

    action: Action
    resource: str
    namespace: str | None = None
    pool: str | None = None

    def __str__(self) -> str:
        where = f" in the namespace {self.namespace}" if self.namespace is not None else ""
        return f"{self.action} {self.resource}{where}" + (f" of the pool {self.pool}" if self.pool is not None else "")


class Decision(NamedTuple):
    """Whether a wish is granted; ``message`` says it for people."""

    allowed: bool
    message: str


@dataclass(frozen=True)
class Rights:
    """What somebody is: a role, in certain namespaces and pools (None: in all)."""

    role: Role
    namespaces: frozenset[str] | None = None
    pools: frozenset[str] | None = None

    def sees(self, namespace: str) -> bool:
        """Whether what is in a namespace ("" for what is in none) may be looked at."""
        return not namespace or self.namespaces is None or namespace in self.namespaces

    def decide(self, name: str, wish: Wish) -> Decision:
        """Whether they may; ``name`` is who they are, for the message."""
        lacking = self._lacking(wish)
        if lacking is None:
            return Decision(True, f"{name} may {wish}")
        return Decision(False, f"{name} may not {wish}: {lacking}")

    def _lacking(self, wish: Wish) -> str | None:
        if wish.resource not in RESOURCES or wish.action not in ACTIONS:
            return "there is no such right"
        if not _is_among(wish.namespace, self.namespaces):
            return f"the namespaces of this token are {_listed(self.namespaces)}"
        if not _is_among(wish.pool, self.pools):
            return f"the pools of this token are {_listed(self.pools)}"
        if self.role == "admin":
            return None
        if wish.action == "get" or wish.resource == "plans":
            return None if wish.resource in _READ_BY_ALL else "that takes the role admin"
        if wish.resource == "jobs":
            return None if self.role == "user" else "the role viewer reads only"
        return "that takes the role admin"


def _is_among(value: str | None, allowed: Collection[str] | None) -> bool:
    return value is None or allowed is None or value in allowed


def _listed(values: Collection[str] | None) -> str:
    return ", ".join(sorted(values or ())) or "none"

"""The rights of tokens. :meth:`Rights.decide` decides for every route and for ``POST /auth/check`` alike."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpuctl.language.names import KUBERNETES_PREFIX, SYSTEM_NAMESPACE
from gpuctl.language.sentences import Sentence, Template, say

Role = Literal["admin", "user", "viewer", "metrics"]
ROLES: tuple[Role, ...] = ("admin", "user", "viewer", "metrics")

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
"""Resources of requests. ``plans`` are previews; ``recoveries`` finish interrupted runs."""

_ACTIONS: dict[Action, Template] = {
    "get": Template("get"),
    "create": Template("create"),
    "update": Template("update"),
    "delete": Template("delete"),
}
_OF_JOBS = frozenset({"jobs", "logs", "metrics", "plans"})
_READ_BY_ALL = frozenset({"pools", "nodes", "labels", "quotas", "namespaces", *_OF_JOBS})
_OF_NODES = frozenset({"pools", "nodes", "labels"})
_OF_THE_CLUSTER = frozenset({"quotas", "namespaces", *_OF_NODES})


class AccessRequest(NamedTuple):
    """An action on a resource, optionally in one namespace or pool.

    ``pool`` lists several, separated by commas, for a job whose roles are in several pools.
    """

    action: Action
    resource: str
    namespace: str | None = None
    pool: str | None = None

    def __str__(self) -> str:
        action = say(_ACTIONS[self.action]) if self.action in _ACTIONS else self.action
        text = say("{action} {resource}", action=action, resource=self.resource)
        if self.namespace is not None:
            text = say("{access} in the namespace {namespace}", access=text, namespace=self.namespace)
        return say("{access} of the pool {pool}", access=text, pool=self.pool) if self.pool is not None else text


class Decision(NamedTuple):
    """The decision about a request, with a message for the user."""

    allowed: bool
    message: Sentence


def granted(name: str, access: AccessRequest) -> Decision:
    """Return the decision that the caller ``name`` may do something."""
    if access.resource != "jobs":
        return Decision(True, say("{name} may {access}", name=name, access=access))
    where = "" if access.namespace is None else say(" in the namespace {namespace}", namespace=access.namespace)
    pool = "" if access.pool is None else say(" of the pool {pool}", pool=access.pool)
    action = say(_ACTIONS[access.action])
    return Decision(
        True, say("{name} may {action} jobs{where}{pool}", name=name, action=action, where=where, pool=pool)
    )


def denied(name: str, access: AccessRequest, lacking: str) -> Decision:
    """Return the decision that the caller ``name`` may not do something, and what is lacking."""
    return Decision(False, say("{name} may not {access}: {lacking}", name=name, access=access, lacking=lacking))


@dataclass(frozen=True)
class Rights:
    """A role, limited to namespaces and pools (None: all).

    System namespaces are those of Kubernetes, that of gpuctl, and ``own``, those of the service itself. Without a list
    of namespaces only an admin without limits may use them; with a list, an admin may use those that it names.
    """

    role: Role
    namespaces: frozenset[str] | None = None
    pools: frozenset[str] | None = None
    own: frozenset[str] = frozenset()

    @property
    def is_unlimited(self) -> bool:
        """True for an admin without limits."""
        return self.role == "admin" and self.namespaces is None and self.pools is None

    def sees(self, namespace: str) -> bool:
        """Return True if objects in a namespace ("": without a namespace) may be read."""
        return not namespace or self._reaches(namespace)

    def sees_all(self) -> bool:
        """Return True if jobs of all namespaces may be read, so that counts over all of them need not be hidden."""
        return self.namespaces is None and self.role != "metrics"

    def _reaches(self, namespace: str) -> bool:
        if self.role == "metrics" or (self.namespaces is not None and namespace not in self.namespaces):
            return False
        if self.is_unlimited or not self._is_system(namespace):
            return True
        return self.role == "admin" and self.namespaces is not None

    def _is_system(self, namespace: str) -> bool:
        return namespace.startswith(KUBERNETES_PREFIX) or namespace == SYSTEM_NAMESPACE or namespace in self.own

    def decide(self, name: str, access: AccessRequest) -> Decision:
        """Decide a request. ``name`` is the caller's name, for the message."""
        lacking = self._lacking(access)
        if lacking is None:
            return granted(name, access)
        return denied(name, access, lacking)

    def _lacking(self, access: AccessRequest) -> str | None:
        if access.resource not in RESOURCES or access.action not in ACTIONS:
            return say("this right does not exist")
        if self.role == "metrics":
            return say("the role metrics only reads the metrics of the service")
        if access.namespace is not None and not self._reaches(access.namespace):
            if self.namespaces is not None and access.namespace not in self.namespaces:
                return say("the namespaces of this token are {names}", names=_listed(self.namespaces))
            return say("the namespaces of the system are for admins whose token is not limited, or names them")
        if self.pools is not None and access.pool is not None and not self.pools.issuperset(access.pool.split(",")):
            return say("the pools of this token are {names}", names=_listed(self.pools))
        if self.role == "admin":
            return self._beyond_limits(access)
        if access.action == "get" or access.resource == "plans":
            return None if access.resource in _READ_BY_ALL else say("this needs the role admin")
        if access.resource == "jobs":
            return None if self.role == "user" else say("the role viewer reads only")
        return say("this needs the role admin")

    def _beyond_limits(self, access: AccessRequest) -> str | None:
        """Return why an admin with limits may not do what would affect objects beyond the limits."""
        if self.is_unlimited or (access.action == "get" and access.resource in _READ_BY_ALL):
            return None
        if self.namespaces is not None and access.resource in _OF_THE_CLUSTER:
            return say("this affects the whole cluster, and this token is limited to namespaces")
        if self.pools is not None and access.resource not in (*_OF_JOBS, *_OF_NODES):
            return say("this affects all pools, and this token is limited to some")
        if access.resource == "audit":
            return say("the audit covers all namespaces, and this token is limited to some")
        return None


def _listed(values: Collection[str] | None) -> list[str]:
    return sorted(values or ()) or [say("none")]

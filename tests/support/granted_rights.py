"""The rights that RBAC grants to a service account, and those that were used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from control_plane import ControlPlane
from control_plane.audit_log import Asked

_ROLES = "clusterroles,clusterrolebindings,roles,rolebindings"


class Grant(NamedTuple):
    """One verb of one rule: ``namespace`` "" for all, ``names`` empty for all."""

    role: str
    namespace: str
    group: str
    resource: str
    verb: str
    names: frozenset[str] = frozenset()

    def allows(self, asked: Asked) -> bool:
        """Return True if this grant allows a request."""
        return (
            (self.group, self.resource, self.verb) == (asked.group, asked.resource, asked.verb)
            and self.namespace in ("", asked.namespace)
            and (not self.names or asked.name in self.names)
        )

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.role}: {self.verb} {self.resource}{'.' if self.group else ''}{self.group}{where}"


def grants_of(plane: ControlPlane, namespace: str, account: str) -> list[Grant]:
    """Return all grants to a service account by its name, from the cluster."""
    objects = plane.get(_ROLES, "-A")["items"]
    roles = {(item["kind"], _place(item), item["metadata"]["name"]): item for item in objects}
    return [
        grant
        for item in objects
        for subject in item.get("subjects") or []
        if (subject["kind"], subject.get("namespace"), subject["name"]) == ("ServiceAccount", namespace, account)
        for role in [item["roleRef"]]
        for grant in _granted(roles[role["kind"], _place(item) if role["kind"] == "Role" else "", role["name"]], item)
    ]


def _place(item: dict[str, Any]) -> str:
    return str(item["metadata"].get("namespace") or "")


def _granted(role: dict[str, Any], binding: dict[str, Any]) -> Iterator[Grant]:
    for rule in role["rules"]:
        for group in rule.get("apiGroups") or []:
            for resource in rule.get("resources") or []:
                for verb in rule["verbs"]:
                    names = frozenset(rule.get("resourceNames") or ())
                    yield Grant(role["metadata"]["name"], _place(binding), group, resource, verb, names)


def unused(grants: Iterable[Grant], asked: Iterable[Asked]) -> list[Grant]:
    """The grants without which every request would have been allowed as well: of a request the narrowest one counts."""
    left = sorted(set(grants), key=lambda grant: (not grant.namespace, not grant.names, grant))
    needed: set[Grant] = set()
    for item in asked:
        allowing = next((grant for grant in left if grant.allows(item)), None)
        if allowing is not None:
            needed.add(allowing)
    return sorted(set(left) - needed)


def with_creations(asked: Iterable[Asked]) -> Iterator[Asked]:
    """A patch that made its object took the right to create as well, which the audit does not say."""
    for item in asked:
        yield item
        if item.verb == "patch" and item.status == 201:
            yield item._replace(verb="create", name="")

"""Who may ask the API server of a test, and what they may do."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

NAMESPACES = ("team-a", "team-b")
"""Namespaces that exist from the start."""

Rule = Mapping[str, Sequence[str]]
"""A rule of RBAC: ``apiGroups``, ``resources``, ``verbs``, perhaps ``resourceNames``."""

# What a pipeline needs besides the role `edit` to apply whole directories of documents.
_DEPLOYER_RULES: tuple[Rule, ...] = (
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "create", "patch"]},
    {"apiGroups": [""], "resources": ["resourcequotas", "limitranges"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "patch"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["*"]},
)


class User(NamedTuple):
    """Who may ask the API server: ``role`` is a ClusterRole, in ``namespace`` or everywhere."""

    groups: str = ""
    role: str = ""
    namespace: str | None = None
    rules: tuple[Rule, ...] = ()


USERS: dict[str, User] = {
    "admin": User(groups="system:masters"),
    "controller": User(groups="system:masters"),
    "alice": User(role="edit", namespace="team-a"),
    "bob": User(role="edit", namespace="team-b"),
    "reader": User(role="view"),
    "nobody": User(),
    # Users to whom deploy/rbac gives rights.
    "member": User(groups="team-a"),
    "keeper": User(groups="gpu-admins"),
    "onlooker": User(),
    "deployer": User(role="edit", rules=_DEPLOYER_RULES),
}
"""All users there are: the API server reads its tokens once. ``ControlPlane.grant`` gives them more."""


def grants(user: str, namespace: str | None, rules: Sequence[Rule] | str) -> list[dict[str, Any]]:
    """The objects that allow a user something, in a namespace or everywhere: rules, or the name of a ClusterRole."""
    group, version = "rbac.authorization.k8s.io", "rbac.authorization.k8s.io/v1"
    prefix = "Cluster" if namespace is None else ""
    metadata = {"name": f"{user}-{secrets.token_hex(4)}"}
    if namespace is not None:
        metadata["namespace"] = namespace
    objects: list[dict[str, Any]] = []
    if isinstance(rules, str):
        role = {"apiGroup": group, "kind": "ClusterRole", "name": rules}
    else:
        role = {"apiGroup": group, "kind": f"{prefix}Role", "name": metadata["name"]}
        objects.append({"apiVersion": version, "kind": role["kind"], "metadata": metadata, "rules": list(rules)})
    subjects = [{"apiGroup": group, "kind": "User", "name": user}]
    binding = {"apiVersion": version, "kind": f"{prefix}RoleBinding", "metadata": metadata}
    return [*objects, {**binding, "subjects": subjects, "roleRef": role}]


def namespaces_and_roles() -> list[dict[str, Any]]:
    """Return the namespaces and roles that exist from the start."""
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in NAMESPACES
    ]
    for name, user in USERS.items():
        if user.role:
            objects += grants(name, user.namespace, user.role)
        if user.rules:
            objects += grants(name, user.namespace, user.rules)
    return objects

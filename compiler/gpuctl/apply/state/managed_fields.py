"""The fields that each manager of an object holds, as its ``managedFields`` record them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gpuctl.apply.state.compare import Tree, has_keys, item_key, item_tree
from gpuctl.kube.session import MANAGER
from gpuctl.objects.api_resources import Object

RETURNING = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "kueue")
"""Controllers that write their fields into every new object again."""


def owned_fields(live: Object, *, adopted: bool = False) -> Tree:
    """Return the fields of an object that we set.

    :param adopted: another tool (kubectl, Argo CD) has made the object from our output, so that fields of such tools
        count as ours, see :func:`is_tool`.
    """
    trees = [
        entry.get("fieldsV1") or {}
        for entry in live["metadata"].get("managedFields") or []
        if not entry.get("subresource") and _is_ours(str(entry.get("manager", "")), adopted)
    ]
    return union(trees)


def applied_fields(live: Object, manager: str) -> Tree:
    """What one manager's server-side apply holds: what it no longer states is removed by its next apply."""
    for entry in live["metadata"].get("managedFields") or []:
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return dict(entry.get("fieldsV1") or {})
    return {}


def held_by_others(live: Object, *, adopted: bool = False) -> list[tuple[str, Tree]]:
    """What field managers other than us hold: name and fields, without what was written to ``status``."""
    return [
        (str(entry.get("manager") or "an unknown manager"), entry.get("fieldsV1") or {})
        for entry in live["metadata"].get("managedFields") or []
        if entry.get("subresource") != "status" and not _is_ours(str(entry.get("manager", "")), adopted)
    ]


def foreign_fields(live: Object) -> bool:
    """Return True if anyone but gpuctl and the controllers of Kubernetes has written more than the status."""
    entries = live["metadata"].get("managedFields") or []
    return not entries or any(
        not entry.get("subresource") and not str(entry.get("manager", "")).startswith((MANAGER, *RETURNING))
        for entry in entries
    )


def unstated(desired: Any, tree: Tree) -> bool:
    """Whether a manager's fields hold something that ``desired`` no longer states."""
    for key, below in tree.items():
        if key.startswith("f:"):
            if not isinstance(desired, dict) or key[2:] not in desired:
                return True
            if unstated(desired[key[2:]], below):
                return True
        elif key.startswith("k:"):
            identity = json.loads(key[2:])
            items = desired if isinstance(desired, list) else []
            match = [item for item in items if has_keys(item, identity)]
            if not match or unstated(match[0], below):
                return True
    return False


def foreign_managers(desired: Object, live: Object) -> list[str]:
    """Managers other than us that hold a field which ``desired`` states, outside metadata and status."""
    spec = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return [
        str(entry.get("manager"))
        for entry in live["metadata"].get("managedFields") or []
        if not entry.get("subresource")
        and not _is_ours(str(entry.get("manager", "")), False)
        and _touches(spec, entry.get("fieldsV1") or {})
    ]


def _touches(desired: Any, tree: Tree) -> bool:
    if not tree:
        return True
    if isinstance(desired, dict):
        return any(f"f:{key}" in tree and _touches(value, tree[f"f:{key}"]) for key, value in desired.items())
    if isinstance(desired, list):
        below = ((item, item_tree(tree, item)) for item in desired if isinstance(item, dict))
        return any(found is not None and _touches(item, found) for item, found in below)
    return False


# Controllers that apply what people wrote.
_DELIVERERS = ("argocd-", "kustomize-controller", "helm-controller")
_CONTROLLERS = ("controller", "kueue", "autoscaler", "scheduler", "kubelet", "gpuctl-")
# Commands that change single fields of an object: they apply no manifest.
_COMMANDS = frozenset(
    f"kubectl-{command}" for command in ("annotate", "edit", "label", "patch", "rollout", "scale", "set")
)


def is_tool(manager: str) -> bool:
    """Return True if a field manager applies whole manifests: kubectl, Argo CD, Flux, a backup; not a controller."""
    if manager == MANAGER or manager in _COMMANDS:
        return False
    return manager.startswith(_DELIVERERS) or not any(word in manager for word in _CONTROLLERS)


def _is_ours(manager: str, adopted: bool) -> bool:
    return manager == MANAGER or (adopted and is_tool(manager))


def union(trees: Iterable[Tree]) -> Tree:
    """Return the fields of several trees."""
    result: Tree = {}
    for tree in trees:
        for key, value in tree.items():
            result[key] = union([result[key], value]) if key in result else value
    return result


def fields_of(obj: Object) -> Tree:
    """Return all fields of an object, in the form of ``managedFields[].fieldsV1``."""
    return _fields(obj, "")


def _fields(value: Any, field: str) -> Tree:
    if isinstance(value, dict):
        return {f"f:{key}": _fields(below, key) for key, below in value.items()}
    tree: Tree = {}
    for item in value if isinstance(value, list) else ():
        key = item_key(field, item)
        if key is not None:
            tree[f"k:{json.dumps(key, sort_keys=True, separators=(',', ':'))}"] = _fields(item, "")
    return tree

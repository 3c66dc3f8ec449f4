"""The fields that each manager of an object holds, as its ``managedFields`` record them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import Tree, has_keys, identity_path, item_key, list_identity
from gpuctl.kube.session import MANAGER
from gpuctl.objects.api_resources import Object

RETURNING = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "kueue")
"""Controllers that write their fields into every new object again."""
ABSENT: Any = object()


class HeldField(NamedTuple):
    """A field, or an item of a list (``name`` is ""), and its values in several versions of an object, or ABSENT."""

    path: str
    name: str
    values: tuple[Any, ...]


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


def field_at(key: str, versions: Sequence[Any], path: str = "", field: str = "") -> HeldField | None:
    """Return the field or item that a key of ``fieldsV1`` names, in several versions of the structure around it.

    :param versions: the first one names items in paths.
    :param path: the path of that structure; ``field``: its name, "" for an item of a list.
    """
    kind, _, text = key.partition(":")
    if kind == "f":
        values = [item.get(text, ABSENT) if isinstance(item, dict) else ABSENT for item in versions]
        return HeldField(identity_path(path, text), text, tuple(values))
    lists: list[list[Any]] = [item if isinstance(item, list) else [] for item in versions]
    if kind == "k":
        identity = json.loads(text)
        values = [next((item for item in items if has_keys(item, identity)), ABSENT) for items in lists]
        return HeldField(f"{path}[{_item_name(field, values[0], lists[0])}]", "", tuple(values))
    if kind == "v":
        value = json.loads(text)
        return HeldField(f"{path}[{value}]", "", tuple(value if value in items else ABSENT for items in lists))
    return None


def _item_name(field: str, item: Any, items: list[Any]) -> Any:
    if item is ABSENT:
        return "?"
    if field == "ownerReferences":
        return f"{item.get('kind')}/{item.get('name')}"
    return list_identity(field, item, items.index(item))


def unstated(desired: Any, tree: Tree) -> bool:
    """Return True if a manager's fields include one that ``desired`` does not state."""
    return any(
        found.values[0] is ABSENT or unstated(found.values[0], below)
        for key, below in tree.items()
        if not key.startswith("v:") and (found := field_at(key, (desired,))) is not None
    )


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
    return not tree or any(
        found.values[0] is not ABSENT and _touches(found.values[0], below)
        for key, below in tree.items()
        if not key.startswith("v:") and (found := field_at(key, (desired,))) is not None
    )


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

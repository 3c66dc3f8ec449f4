"""The fields that each manager of an object holds, as recorded in its ``managedFields``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpuctl.apply.state.field_paths import ABSENT, child_path, has_keys, identity_of, is_within, item_key, list_identity
from gpuctl.kube.session import MANAGER
from gpuctl.objects.api_resources import Object

Tree = dict[str, Any]
"""``managedFields[].fieldsV1``: ``f:NAME`` is a field, ``k:{...}`` an item of a list by its keys."""
REWRITING_CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "kueue")
"""Controllers that write their fields again into every new object."""
UNKNOWN = "an unknown manager"
ADMISSION = "an admission webhook"
ALL: Any = object()
OURS = ""


class HeldField(NamedTuple):
    """A field, or an item of a list (``name`` is ""), in a tree of ``managedFields`` and in versions of an object.

    ``tree`` is the part of the manager's fields below it. ``values`` are its values in the versions, or ABSENT.
    """

    tree: Tree
    values: tuple[Any, ...]
    path: str = ""
    name: str = ""

    @property
    def is_leaf(self) -> bool:
        """Return True if the manager holds the field itself, and no fields below it."""
        return self.tree.keys() <= {"."}

    def below(self) -> Iterator[HeldField]:
        """Yield the fields and items one level below. The first version provides the item names in paths."""
        for key, tree in self.tree.items():
            field = field_at(key, self.values, self.path, self.name)
            if field is not None:
                yield field._replace(tree=tree)

    def leaves(self) -> Iterator[HeldField]:
        """Yield all fields below that contain no other held fields."""
        for field in self.below():
            if field.is_leaf:
                yield field
            else:
                yield from field.leaves()


def field_at(key: str, versions: Sequence[Any], path: str, name: str) -> HeldField | None:
    """Return the field or item that a key of ``fieldsV1`` names in versions of the field around it; None for ``.``."""
    kind, _, text = key.partition(":")
    if kind == "f":
        values = [item.get(text, ABSENT) if isinstance(item, dict) else ABSENT for item in versions]
        return HeldField({}, tuple(values), child_path(path, text), text)
    lists: list[list[Any]] = [item if isinstance(item, list) else [] for item in versions]
    if kind == "k":
        identity = identity_of(key)
        values = [next((item for item in items if has_keys(item, identity)), ABSENT) for items in lists]
        return HeldField({}, tuple(values), f"{path}[{_item_name(name, values[0], lists[0])}]")
    if kind == "v":
        value = json.loads(text)
        return HeldField({}, tuple(value if value in items else ABSENT for items in lists), f"{path}[{value}]")
    return None


def _item_name(field: str, item: Any, items: list[Any]) -> Any:
    if item is ABSENT:
        return "?"
    if field == "ownerReferences":
        return f"{item.get('kind')}/{item.get('name')}"
    return list_identity(field, item, items.index(item))


class FieldOwnership(NamedTuple):
    """The fields that each manager holds at a place in the live object (``OURS``: gpuctl), and the values gpuctl
    states there.

    ``stated`` is ABSENT if the wanted value is only a default of the server, and ``ALL`` if everything below is
    stated.
    """

    held: Mapping[str, Tree] = {}
    stated: Any = ALL

    def at(self, key: str) -> FieldOwnership:
        """Return the ownership of a field below."""
        if not self.held and self.stated is ALL:
            return self
        stated, step = self.stated, f"f:{key}"
        if stated is not ALL:
            stated = stated.get(key, ABSENT) if isinstance(stated, dict) else ABSENT
        return FieldOwnership({name: tree[step] for name, tree in self.held.items() if step in tree}, stated)

    def of(self, item: Object, stated: Any) -> FieldOwnership:
        """Return the ownership of an item of a list."""
        found = {name: _item_tree(tree, item) for name, tree in self.held.items()}
        return FieldOwnership({name: tree for name, tree in found.items() if tree is not None}, stated)

    @property
    def was_ours(self) -> bool:
        """Return True if gpuctl has set the value."""
        return OURS in self.held

    def is_ours(self, path: str) -> bool:
        """Return True if a wanted value is gpuctl's: stated, or a default of the server in a field that gpuctl set."""
        return self.stated is not ABSENT or (self.was_ours and not is_within(path, "metadata"))

    def by_key(self, live: Object) -> FieldOwnership:
        """Return the ownership of a map whose keys the managed fields of gpuctl do not list."""
        keys: Tree = {f"f:{key}": {} for key in live}
        own = {name: keys for name in (OURS, ADMISSION) if self.held.get(name) == {}}
        return self._replace(held={**self.held, **own})

    @property
    def others(self) -> list[str]:
        """Return the names of the other managers of the value."""
        return sorted(name for name in self.held if name != OURS)


def _item_tree(tree: Tree, item: Object) -> Tree | None:
    """Return the part of a manager's fields that belongs to an item of a list; None if it holds none of them."""
    for key, below in tree.items():
        if key.startswith("k:") and has_keys(item, identity_of(key)):
            return dict(below)
    return None


class FieldHolder(NamedTuple):
    """A field manager: its name, its operation (``Apply``, ``Update``), and the time of its last write.

    ``time`` is RFC 3339, "" if not recorded.
    """

    manager: str
    operation: str
    time: str


class Holdings(NamedTuple):
    """The paths of the fields that one manager of an object holds."""

    holder: FieldHolder
    paths: frozenset[str]


def holdings_of(live: Object) -> list[Holdings]:
    """Return the fields of each manager, without writes to ``status``, ordered by the time of the last write."""
    found = []
    for entry in live["metadata"].get("managedFields") or []:
        if entry.get("subresource") == "status":
            continue
        manager, operation, time = (str(entry.get(key) or "") for key in ("manager", "operation", "time"))
        leaves = HeldField(entry.get("fieldsV1") or {}, (live,)).leaves()
        paths = frozenset(field.path for field in leaves if "[?]" not in field.path)
        found.append(Holdings(FieldHolder(manager, operation, time), paths))
    return sorted(found, key=lambda item: item.holder.time)


def holders_of(path: str, holdings: Iterable[Holdings]) -> tuple[FieldHolder, ...]:
    """Return the managers of a field, of a field below it, or of a field around it."""
    return tuple(
        item.holder for item in holdings if any(is_within(path, held) or is_within(held, path) for held in item.paths)
    )


def owned_fields(live: Object, *, adopted: bool = False) -> Tree:
    """Return the fields of an object that gpuctl set.

    :param adopted: another tool (kubectl, Argo CD) made the object from gpuctl's output, so that the fields of such
    tools count as gpuctl's; see :func:`is_tool`.
    """
    trees = [
        entry.get("fieldsV1") or {}
        for entry in live["metadata"].get("managedFields") or []
        if not entry.get("subresource") and _is_ours(str(entry.get("manager", "")), adopted)
    ]
    return union(trees)


def applied_fields(live: Object, manager: str) -> Tree:
    """Return the fields of one manager's server-side apply: its next apply removes those that it no longer states."""
    for entry in live["metadata"].get("managedFields") or []:
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            return dict(entry.get("fieldsV1") or {})
    return {}


def held_by_others(live: Object, *, adopted: bool = False) -> list[tuple[str, Tree]]:
    """Return the name and the fields of each other manager, without writes to ``status``."""
    return [
        (str(entry.get("manager") or UNKNOWN), entry.get("fieldsV1") or {})
        for entry in live["metadata"].get("managedFields") or []
        if entry.get("subresource") != "status" and not _is_ours(str(entry.get("manager", "")), adopted)
    ]


def foreign_fields(live: Object) -> bool:
    """Return True if a manager other than gpuctl and the controllers of Kubernetes has written more than the status."""
    entries = live["metadata"].get("managedFields") or []
    return not entries or any(
        not entry.get("subresource") and not str(entry.get("manager", "")).startswith((MANAGER, *REWRITING_CONTROLLERS))
        for entry in entries
    )


def unstated(desired: Any, tree: Tree) -> bool:
    """Return True if a manager's fields include one that ``desired`` does not state."""
    return any(field.values[0] is ABSENT for field in HeldField(tree, (desired,)).leaves())


def foreign_managers(desired: Object, live: Object) -> list[str]:
    """Return the other managers that hold a field which ``desired`` states, outside metadata and status."""
    spec = {key: value for key, value in desired.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    return [
        str(entry.get("manager"))
        for entry in live["metadata"].get("managedFields") or []
        if not entry.get("subresource")
        and not _is_ours(str(entry.get("manager", "")), False)
        and any(
            not field.tree and field.values[0] is not ABSENT
            for field in HeldField(entry.get("fieldsV1") or {}, (spec,)).leaves()
        )
    ]


# Controllers that apply manifests written by users.
_DELIVERERS = ("argocd-", "kustomize-controller", "helm-controller")
_CONTROLLERS = ("controller", "kueue", "autoscaler", "scheduler", "kubelet", "gpuctl-")
# Commands that change single fields of an object and apply no manifest.
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
    """Return the union of several trees."""
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
            tree[f"k:{json.dumps(key, sort_keys=True, separators=(',', ':'))}"] = {".": {}, **_fields(item, "")}
    return tree

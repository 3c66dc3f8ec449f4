"""Which fields of a live object count as gpuctl's: those that its last document stated and nobody changed since.

Other field managers hold such fields as well when kubectl, Argo CD or a restore has written the object. They are moved
to gpuctl's entry of ``managedFields``, as ``kubectl apply --server-side`` does with the fields of a client-side apply.
A field that another manager has set to a different value stays that manager's.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import Tree, agrees, has_keys, identity_path, list_identity, named
from gpuctl.apply.state.managed_fields import fields_of, is_tool, union
from gpuctl.apply.state.server_defaults import is_default
from gpuctl.backend.api_resources import WORKLOADS, Object
from gpuctl.kube.session import MANAGER

_ABSENT: Any = object()
# Structures that are not valid without the fields that we state in them: they stay or go as a whole.
_WHOLE = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})
_UNKNOWN = "an unknown manager"


class Base(NamedTuple):
    """An object as it was last applied.

    ``of_tools``: its fields count only where a tool that applies manifests holds them, see :func:`is_tool`.
    """

    object: Object
    of_tools: bool = False


class Claims(NamedTuple):
    """What to take over of a live object: the fields of ``bases``; ``wanted`` is the object that is applied now."""

    bases: tuple[Base, ...]
    wanted: Object


class Claimed(NamedTuple):
    """The outcome of a takeover.

    ``live`` is the object with its new ``managedFields``, ``fields`` are those that other managers held before.
    ``kept`` are paths that the last document stated and the new one does not, and whose value another manager has
    changed since, with that manager's name.
    """

    live: Object
    fields: Tree
    kept: Mapping[str, str]

    def __str__(self) -> str:
        """Return the kept fields in words, "" if there are none."""
        shown = [f"{named(path)} ({manager})" for path, manager in sorted(self.kept.items())]
        if not shown:
            return ""
        return f"keeps {', '.join(shown)}, changed since the last apply and no longer in the document"


def claim(live: Object, claims: Claims) -> Claimed:
    """Return the live object with the fields of its last documents in gpuctl's entry of ``managedFields``."""
    entries = copy.deepcopy(live["metadata"].get("managedFields") or [])
    if not entries:
        entries = [_entry(_UNKNOWN, "Update", live, fields_of(live))]
    kept: dict[str, str] = {}
    chains: list[tuple[str, ...]] = []
    taken: Tree = {}
    time = ""
    operation = "Update" if live["kind"] in WORKLOADS else "Apply"
    mine = next((entry for entry in entries if _is_own(entry, operation, live)), None)
    for entry in entries:
        if entry is mine or entry.get("subresource") or entry.get("apiVersion") != live["apiVersion"]:
            continue
        manager = str(entry.get("manager") or _UNKNOWN)
        for base in claims.bases:
            if base.of_tools and not is_tool(manager):
                continue
            walk = _Walk()
            there = _Place(live, base.object, claims.wanted)
            tree, entry["fieldsV1"] = walk.split(entry.get("fieldsV1") or {}, there)
            if tree:
                taken, time = union([taken, tree]), max(time, str(entry.get("time") or ""))
            if manager != MANAGER:
                kept.update((place.path, manager) for place in walk.kept)
                chains += [place.chain for place in walk.kept]
    if not taken and not kept:
        return Claimed(live, {}, {})
    if mine is None:
        mine = _entry(MANAGER, operation, live, {}, time)
        entries.append(mine)
    mine["fieldsV1"] = union([mine.get("fieldsV1") or {}, taken])
    for chain in chains:
        _drop(mine["fieldsV1"], chain)
    entries = [entry for entry in entries if entry.get("fieldsV1")]
    return Claimed({**live, "metadata": {**live["metadata"], "managedFields": entries}}, taken, kept)


def _is_own(entry: Object, operation: str, live: Object) -> bool:
    return (
        entry.get("manager") == MANAGER
        and entry.get("operation") == operation
        and not entry.get("subresource")
        and entry.get("apiVersion") == live["apiVersion"]
    )


def _entry(manager: str, operation: str, live: Object, fields: Tree, time: str = "") -> Object:
    entry = {"manager": manager, "operation": operation, "apiVersion": live["apiVersion"]}
    return {**entry, **({"time": time} if time else {}), "fieldsType": "FieldsV1", "fieldsV1": fields}


class _Place(NamedTuple):
    """A place in the live object, its last document and the wanted object; absent values are ``_ABSENT``.

    ``owner`` and ``field`` name the fields around it, ``chain`` are the keys in ``fieldsV1`` that lead to it.
    """

    live: Any
    base: Any
    wanted: Any
    path: str = ""
    owner: str = ""
    field: str = ""
    chain: tuple[str, ...] = ()

    def child(self, key: str) -> _Place | None:
        """Return the place below for a key of ``fieldsV1``; None if the live object has nothing there."""
        sides = (self.live, self.base, self.wanted)
        if key.startswith("f:"):
            name = key[2:]
            live, base, wanted = (side.get(name, _ABSENT) if isinstance(side, dict) else _ABSENT for side in sides)
            path, owner, field = identity_path(self.path, name), self.field, name
        elif key.startswith("k:"):
            identity = json.loads(key[2:])
            live, base, wanted = (_item(side, identity) for side in sides)
            if live is _ABSENT:
                return None
            path = f"{self.path}[{list_identity(self.field, live, self.live.index(live))}]"
            owner, field = self.field, ""
        else:
            return None
        return None if live is _ABSENT else _Place(live, base, wanted, path, owner, field, (*self.chain, key))


def _item(side: Any, identity: Object) -> Any:
    items = side if isinstance(side, list) else ()
    return next((item for item in items if has_keys(item, identity)), _ABSENT)


class _Walk:
    """A walk over the fields of one manager; ``kept`` are the places whose values it has changed."""

    def __init__(self) -> None:
        self.kept: list[_Place] = []

    def split(self, tree: Tree, place: _Place) -> tuple[Tree, Tree]:
        """Return the fields to take over and those that stay."""
        taken: Tree = {}
        left: Tree = {}
        for key, below in tree.items():
            there = place.child(key)
            ours, theirs = (None, below) if there is None else self._node(below, place, there)
            if ours is not None:
                taken[key] = ours
            if theirs is not None:
                left[key] = theirs
        if taken and left.keys() == {"."}:
            taken["."] = left.pop(".")
        return taken, left

    def _node(self, tree: Tree, parent: _Place, place: _Place) -> tuple[Tree | None, Tree | None]:
        is_leaf = tree.keys() <= {"."}
        is_gone = place.wanted is _ABSENT
        if place.base is _ABSENT:
            was_stated = parent.base is not _ABSENT and parent.wanted is _ABSENT
            siblings = parent.live if isinstance(parent.live, dict) else {}
            if was_stated and is_default(place.owner, place.field, place.live, siblings):
                return tree, None
        elif is_leaf or (is_gone and (place.field in _WHOLE or not place.field)):
            if _is_same(place, exactly=is_leaf):
                return tree, None
            if is_gone:
                self.kept.append(place)
            return None, tree
        if is_leaf:
            return None, tree
        ours, theirs = self.split(tree, place)
        return ours or None, theirs or None


def _is_same(place: _Place, *, exactly: bool) -> bool:
    """Return True if the live value is the stated one.

    :param exactly: the field has one owner, so that nothing may be added in it.
    """
    live, base = place.live, place.base
    is_longer = isinstance(live, (dict, list)) and isinstance(base, (dict, list)) and len(live) != len(base)
    return not (exactly and is_longer) and agrees(place.field, base, live)


def _drop(tree: Tree, chain: tuple[str, ...]) -> None:
    """Remove a field from a tree, in place, and the fields around it that contain nothing else."""
    first, *rest = chain
    if rest and first in tree:
        _drop(tree[first], tuple(rest))
    if not rest or not (tree.get(first) or {}).keys() - {"."}:
        tree.pop(first, None)

"""A rolling update's object: the live one with what we state set, and what we stated before and no longer do removed.

What other field managers hold stays. The rules are those of server-side apply, which cannot be used itself: our objects
are created by POST, so the fields are held by our updates, and to an apply these are another manager's: it conflicts
with them and removes none of them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import (
    ATOMIC_MAPS,
    GROWING,
    ORDERED,
    Tree,
    identity_path,
    item_tree,
    list_identities,
    list_identity,
    same_scalar,
)
from gpuctl.apply.state.managed_fields import held_by_others
from gpuctl.apply.state.server_defaults import is_default
from gpuctl.objects.api_resources import Object

_ABSENT: Any = object()


class Merged(NamedTuple):
    """The spec to send, and what of it other managers hold with another value: path -> their names."""

    spec: Object
    conflicts: dict[str, list[str]]


class Sides(NamedTuple):
    """What is known of a place in the object: the fields that are ours, those of others by manager.

    ``said`` is what we state there ourselves; the server's defaults are in the wanted value too.
    """

    ours: Tree | None
    others: tuple[tuple[str, Tree], ...]
    said: Any

    def at(self, key: str) -> Sides:
        """The same of a field."""
        others = tuple((name, tree[f"f:{key}"]) for name, tree in self.others if f"f:{key}" in tree)
        said = self.said.get(key, _ABSENT) if isinstance(self.said, dict) else _ABSENT
        return Sides((self.ours or {}).get(f"f:{key}"), others, said)

    def of(self, item: Object, said: Any) -> Sides:
        """The same of an item of a list."""
        trees = [(name, item_tree(tree, item)) for name, tree in self.others]
        return Sides(item_tree(self.ours, item), tuple((name, tree) for name, tree in trees if tree is not None), said)

    @property
    def is_ours(self) -> bool:
        """Whether we state it, or stated it."""
        return self.said is not _ABSENT or self.ours is not None


def merge(
    wanted: Object, live: Object, ours: Tree | None, said: Object, *, adopted: bool, ignored: Collection[str]
) -> Merged:
    """The live spec with ours in it.

    :param wanted: the object as the server would create it, with its defaults, or as we send it.
    :param ours: the fields that are ours in ``live``.
    :param said: the object as we send it.
    :param adopted: see :func:`owned_fields`.
    :param ignored: paths that keep their live value.
    """
    walk = _Merge(ignored)
    others = tuple((name, tree.get("f:spec") or {}) for name, tree in held_by_others(live, adopted=adopted))
    sides = Sides((ours or {}).get("f:spec"), others, said["spec"])
    spec = walk.mapping(wanted["spec"], live["spec"], sides, "spec")
    # Whose number of replicas counts is a matter of its own, and somebody is asked about it.
    walk.conflicts.pop("spec.replicas", None)
    return Merged(spec, walk.conflicts)


def conflicts(desired: Object, live: Object) -> dict[str, list[str]]:
    """Return the paths at which other managers hold another value than the one wanted, with their names."""
    metadata = {part: desired["metadata"][part] for part in ("labels", "annotations") if part in desired["metadata"]}
    stated = {**desired, "metadata": metadata}
    walk = _Merge(())
    walk.mapping(stated, live, Sides(None, tuple(held_by_others(live)), stated), "")
    return walk.conflicts


class _Merge:
    def __init__(self, ignored: Collection[str]) -> None:
        self.ignored = ignored
        self.conflicts: dict[str, list[str]] = {}

    def mapping(self, wanted: Object, live: Object, sides: Sides, path: str) -> Object:
        result = {}
        for key, have in live.items():
            below, where = sides.at(key), identity_path(path, key)
            if where in self.ignored:
                result[key] = have
            elif key not in wanted:
                kept = self.without_ours(key, have, below)
                if kept is not _ABSENT:
                    result[key] = kept
            else:
                result[key] = self.value(key, wanted[key], have, below, where) if below.is_ours else have
        for key, value in wanted.items():
            if key not in live and sides.at(key).is_ours and identity_path(path, key) not in self.ignored:
                result[key] = value
        return result

    def value(self, key: str, wanted: Any, live: Any, sides: Sides, path: str) -> Any:
        if isinstance(wanted, dict) and isinstance(live, dict):
            if key in ATOMIC_MAPS and sides.ours == {}:
                sides = sides._replace(ours={f"f:{name}": {} for name in live})
            return self.mapping(wanted, live, sides, path)
        if isinstance(wanted, list) and isinstance(live, list):
            if list_identities(key, wanted, live) is not None:
                return self.items(key, wanted, live, sides, path)
            if key in GROWING and sides.ours is None and all(item in live for item in wanted):
                return live
        if wanted != live and not same_scalar(key, wanted, live):
            self.note(path, sides)
            return wanted
        return live

    def note(self, path: str, sides: Sides) -> None:
        """Another manager's value is about to change."""
        if sides.others:
            self.conflicts[path] = sorted({name for name, _ in sides.others})

    def items(self, key: str, wanted: list[Any], live: list[Any], sides: Sides, path: str) -> list[Any]:
        new, have = _named(key, wanted), _named(key, live)
        said = _named(key, sides.said) if isinstance(sides.said, list) else {}
        result: dict[Any, Any] = {}
        for identity, item in have.items():
            below = sides.of(item, said.get(identity, _ABSENT))
            if identity not in new:
                kept = self.without_ours("", item, below)
            else:
                kept = self.mapping(new[identity], item, below, f"{path}[{list_identity(key, item, 0)}]")
            if kept is not _ABSENT:
                result[identity] = kept
        # What a webhook adds to every new object it may add to this one too.
        ours = [identity for identity in new if identity in result or identity in said]
        return [result.get(identity, new.get(identity)) for identity in _in_order(key, list(result), ours)]

    def without_ours(self, key: str, live: Any, sides: Sides) -> Any:
        """What is left of a value that we no longer state."""
        if sides.ours is None:
            return live
        if not sides.others:
            return _ABSENT
        if isinstance(live, dict) and any(name != "." for _, tree in sides.others for name in tree):
            left = {name: self.without_ours(name, value, sides.at(name)) for name, value in live.items()}
            left = {name: value for name, value in left.items() if value is not _ABSENT}
            # Defaults of the server alone are no structure that anyone has asked for.
            return _ABSENT if all(is_default(key, name, value, live) for name, value in left.items()) else left
        if isinstance(live, list) and list_identities(key, live) is not None:
            rest = [self.without_ours("", item, sides.of(item, _ABSENT)) for item in live]
            return [item for item in rest if item is not _ABSENT]
        return live


def _named(key: str, items: list[Any]) -> dict[Any, Any]:
    """The items of a list that is merged by key, by what names them."""
    identities = list_identities(key, items)
    return dict(zip(identities[0], items, strict=True)) if identities is not None else {}


def _in_order(key: str, live: list[Any], wanted: list[Any]) -> list[Any]:
    """The live order with what is new after its predecessor; where order means something, ours among ours."""
    order = live
    if key in ORDERED:
        ours = iter([identity for identity in wanted if identity in live])
        order = [next(ours) if identity in wanted else identity for identity in live]
    order = list(order)
    place = 0
    for index, identity in enumerate(wanted):
        if identity in order:
            place = order.index(identity) + 1
            continue
        following = [order.index(other) for other in wanted[index + 1 :] if other in order]
        order.insert(place if index else min(following, default=len(order)), identity)
        place = order.index(identity) + 1
    return order

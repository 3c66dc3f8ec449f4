"""Comparison of a wanted object with the live one, limited to the fields that gpuctl states or has stated.

:mod:`gpuctl.apply.state.managed_fields` returns the managers of a field. Before a comparison
:mod:`gpuctl.apply.state.takeover` gives gpuctl the fields that the last document stated.

Never a difference: values that the server fills in, fields that other managers added, status. A rolling update sends
the live object with the changes merged into it. The rules are those of server-side apply, which cannot be used for
workloads: they are created by POST, so their fields belong to an Update entry. For an apply these are another manager's
fields: it conflicts with them and removes none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.apply.state.field_paths import (
    ABSENT,
    child_path,
    has_keys,
    identity_of,
    is_within,
    list_identities,
    steps_of,
    value_at,
)
from gpuctl.apply.state.managed_fields import Tree, union
from gpuctl.apply.state.server_defaults import is_default
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hashed_names import CHANGEABLE
from gpuctl.objects.quantities import parse_quantity

_ALL: Any = object()
_OURS = ""

# `$(NAME)` in a variable refers to earlier variables, and init containers run one after another.
_ORDERED = frozenset({"env", "initContainers"})
# Maps with a single owner (`+structType=atomic`): managed fields do not list their keys.
_ATOMIC_MAPS = frozenset({"nodeSelector", "selector"})
# Lists to which other controllers add: Kueue adds the tolerations of a flavor.
_GROWING = frozenset({"tolerations", "schedulingGates"})
# Fields whose values, or whose maps' values, are quantities.
_QUANTITIES = frozenset({"requests", "limits", "hard", "defaultRequest", "default", "min", "max", "sizeLimit"})
_QUANTITIES |= {"averageValue", "value", "storage", "memory", "cpu"}

# kind -> paths that are never a difference.
_IGNORED: dict[str, frozenset[str]] = {
    "Job": frozenset(
        {
            "spec.selector",
            "spec.suspend",  # set by a pause or by Kueue
            "spec.manualSelector",
            "spec.template.metadata.labels.controller-uid",
            "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
            "spec.template.metadata.labels.job-name",
            "spec.template.metadata.labels[batch.kubernetes.io/job-name]",
        }
    ),
    "JobSet": frozenset({"spec.suspend"}),
}
# kind -> fields that can be changed without restarting pods.
IN_PLACE: dict[str, tuple[str, ...]] = {
    "Deployment": (),
    "StatefulSet": (),
    **{kind: tuple(f"spec.{name}" for name in fields) for kind, fields in CHANGEABLE.items()},
}


class Change(NamedTuple):
    """A field that differs: ``old`` is the live value, ``new`` the wanted one; None stands for absent."""

    path: str
    old: Any
    new: Any


class FieldOwnership(NamedTuple):
    """The fields that each manager holds at a place in the live object (``_OURS``: gpuctl), and the values gpuctl
    states there.

    ``stated`` is ABSENT if the wanted value is only a default of the server, and ``_ALL`` if everything below is
    stated.
    """

    held: Mapping[str, Tree] = {}
    stated: Any = _ALL

    def at(self, key: str) -> FieldOwnership:
        """Return the ownership of a field below."""
        if not self.held and self.stated is _ALL:
            return self
        stated, step = self.stated, f"f:{key}"
        if stated is not _ALL:
            stated = stated.get(key, ABSENT) if isinstance(stated, dict) else ABSENT
        return FieldOwnership({name: tree[step] for name, tree in self.held.items() if step in tree}, stated)

    def of(self, item: Object, stated: Any) -> FieldOwnership:
        """Return the ownership of an item of a list."""
        found = {name: _item_tree(tree, item) for name, tree in self.held.items()}
        return FieldOwnership({name: tree for name, tree in found.items() if tree is not None}, stated)

    @property
    def was_ours(self) -> bool:
        """Return True if gpuctl has set the value."""
        return _OURS in self.held

    @property
    def others(self) -> list[str]:
        """Return the names of the other managers of the value."""
        return sorted(name for name in self.held if name != _OURS)


def _item_tree(tree: Tree, item: Object) -> Tree | None:
    """Return the part of a manager's fields that belongs to an item of a list; None if it holds none of them."""
    for key, below in tree.items():
        if key.startswith("k:") and has_keys(item, identity_of(key)):
            return dict(below)
    return None


@dataclass
class Comparison:
    """The result of a comparison, and the recursion that computes it.

    ``merged`` is the live object with the changes applied. A field that gpuctl no longer states stays in it if another
    manager holds it too. ``conflicts`` maps the paths of values that must change to the other managers that hold them.
    """

    ignored: Collection[str] = ()
    changes: list[Change] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    merged: Object = field(default_factory=dict)

    @property
    def held(self) -> str:
        """Return the conflicts as text; empty without any."""
        return "; ".join(f"{path} is held by {' and '.join(names)}" for path, names in sorted(self.conflicts.items()))

    def mapping(self, wanted: Object, live: Object, sides: FieldOwnership, path: str, around: str = "") -> Object:
        """Compare two mappings, and return the live one with gpuctl's changes."""
        merged = dict(live)
        for key, value in wanted.items():
            below, where = sides.at(key), child_path(path, key)
            if (below.stated is not ABSENT or below.was_ours) and where not in self.ignored:
                name = "requests" if around in _QUANTITIES else key
                merged[key] = self.value(name, value, live.get(key, ABSENT), below, where)
        for key in [key for key in live if key not in wanted] if sides.was_ours else ():
            have, below, where = live[key], sides.at(key), child_path(path, key)
            if not below.was_ours or where in self.ignored:
                continue
            if not _is_empty(have):
                self.changes.append(Change(where, have, None))
            _put(merged, key, _without_ours(key, have, below))
        return merged

    def value(self, key: str, wanted: Any, live: Any, sides: FieldOwnership, path: str) -> Any:
        """Compare two values of a field, and return the one to send."""
        if live is ABSENT or live is None:
            if not _is_empty(wanted):
                self.changes.append(Change(path, None, wanted))
            return wanted
        if isinstance(wanted, dict) and isinstance(live, dict):
            if key in _ATOMIC_MAPS and sides.held.get(_OURS) == {}:
                sides = sides._replace(held={**sides.held, _OURS: {f"f:{name}": {} for name in live}})
            return self.mapping(wanted, live, sides, path, key)
        if isinstance(wanted, list) and isinstance(live, list):
            names = list_identities(key, wanted, live)
            if names is not None:
                return self.items(key, (wanted, live), names, sides, path)
            if key in _GROWING and not sides.was_ours and all(item in live for item in wanted):
                return live
            self._atomic(wanted, live, sides, path)
        elif wanted != live and not same_scalar(key, wanted, live):
            self.changes.append(Change(path, live, wanted))
        else:
            return live
        if sides.others and wanted != live:
            self.conflicts[path] = sides.others
        return wanted

    def items(
        self, key: str, lists: tuple[list[Any], ...], names: tuple[list[Any], ...], sides: FieldOwnership, path: str
    ) -> list[Any]:
        """Match the items of the wanted and the live list by their names, and compare each pair."""
        found = dict(zip(names[1], lists[1], strict=True))
        stated = list_identities(key, sides.stated) if isinstance(sides.stated, list) else None
        said = dict(zip(stated[0], sides.stated, strict=True)) if stated is not None else {}
        merged, coming = dict(found), set(names[0])
        for name, item in zip(names[0], lists[0], strict=True):
            where, ours = f"{path}[{name[0]}]", _ALL if sides.stated is _ALL else said.get(name, ABSENT)
            if name in found:
                merged[name] = self.mapping(item, found[name], sides.of(found[name], ours), where)
                continue
            self.changes.append(Change(where, None, item))
            # An item that only the server's answer has was added by a webhook; the webhook may add it to this update
            # too.
            if ours is not ABSENT:
                merged[name] = item
        for name, item in found.items():
            if name not in coming and (below := sides.of(item, ABSENT)).was_ours:
                self.changes.append(Change(f"{path}[{name[0]}]", item, None))
                _put(merged, name, _without_ours("", item, below))
        if key in _ORDERED:
            order = [name for name in found if name in coming]
            if order != [name for name in names[0] if name in found]:
                have, want = ([name[0] for name in one] for one in (order, names[0]))
                self.changes.append(Change(f"{path} (order)", have, want))
        there = [name for name in found if name in merged]
        return [merged[name] for name in _in_order(key, there, [name for name in names[0] if name in merged])]

    def _atomic(self, wanted: list[Any], live: list[Any], sides: FieldOwnership, path: str) -> None:
        """Compare lists that have a single owner, as a whole."""
        plain = not any(isinstance(item, (dict, list)) for item in (*wanted, *live))
        if plain or len(wanted) != len(live):
            if wanted != live:
                self.changes.append(Change(path, live, wanted))
            return
        walk = Comparison(self.ignored, self.changes)
        for index, (want, have) in enumerate(zip(wanted, live, strict=True)):
            is_stated = isinstance(sides.stated, list) and index < len(sides.stated)
            walk.value(
                "", want, have, FieldOwnership(stated=sides.stated[index] if is_stated else _ALL), f"{path}[{index}]"
            )


def _put(merged: dict[Any, Any], key: Any, value: Any) -> None:
    if value is ABSENT:
        del merged[key]
    else:
        merged[key] = value


def _without_ours(key: str, live: Any, sides: FieldOwnership) -> Any:
    """Return the part of a value that other managers hold, without what gpuctl no longer states; ABSENT if nothing
    remains.
    """
    if not sides.was_ours:
        return live
    if not sides.others:
        return ABSENT
    if isinstance(live, dict) and any(key != "." for name in sides.others for key in sides.held[name]):
        left = {name: _without_ours(name, value, sides.at(name)) for name, value in live.items()}
        left = {name: value for name, value in left.items() if value is not ABSENT}
        # A structure that contains only defaults of the server was not stated by any manager.
        return ABSENT if all(is_default(key, name, value, live) for name, value in left.items()) else left
    if isinstance(live, list) and list_identities(key, live) is not None:
        rest = [_without_ours("", item, sides.of(item, ABSENT)) for item in live]
        return [item for item in rest if item is not ABSENT]
    return live


def _in_order(key: str, live: list[Any], wanted: list[Any]) -> list[Any]:
    """Return the live order with new items after their predecessors. In lists whose order matters gpuctl's items keep
    theirs.
    """
    order = list(live)
    if key in _ORDERED:
        ours = iter([name for name in wanted if name in live])
        order = [next(ours) if name in wanted else name for name in live]
    place = 0
    for index, name in enumerate(wanted):
        if name in order:
            place = order.index(name) + 1
            continue
        following = [order.index(other) for other in wanted[index + 1 :] if other in order]
        order.insert(place if index else min(following, default=len(order)), name)
        place = order.index(name) + 1
    return order


def compare(
    kind: str,
    wanted: Object,
    live: Object,
    *,
    ours: Tree | None = None,
    others: Iterable[tuple[str, Tree]] = (),
    stated: Object | None = None,
    ignored: Collection[str] = (),
) -> Comparison:
    """Compare two objects outside metadata and status.

    :param ours: gpuctl's fields in ``live``; such a field that ``wanted`` lacks is a removal.
    :param others: the fields of other managers, by name.
    :param stated: the object as gpuctl states it, if ``wanted`` also has the server's defaults. A default counts only
        if the live field is gpuctl's.
    :param ignored: further paths that are not a difference.
    """
    result = Comparison(_IGNORED.get(kind, frozenset()) | set(ignored))
    held = _by_name(others) if ours is None else {**_by_name(others), _OURS: ours}
    sides = FieldOwnership(held, _ALL if stated is None else _body(stated))
    result.merged = result.mapping(_body(wanted), _body(live), sides, "")
    return result


def _by_name(holders: Iterable[tuple[str, Tree]]) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for name, tree in holders:
        found[name] = union([found.get(name, {}), tree])
    return found


def conflicts(desired: Object, live: Object, others: Iterable[tuple[str, Tree]]) -> str:
    """Return the paths at which other managers hold a value other than the wanted one, as text."""
    metadata = {part: desired["metadata"][part] for part in ("labels", "annotations") if part in desired["metadata"]}
    walk = Comparison()
    walk.mapping({**desired, "metadata": metadata}, live, FieldOwnership(_by_name(others)), "")
    return walk.held


def _body(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}


def metadata_changes(desired: Object, live: Object, owned: Tree | None, keep: Callable[[str], bool]) -> list[Change]:
    """Return the differences of labels and annotations that gpuctl states, and its own that are no longer wanted.

    :param keep: returns True for keys that are never removed: records of other commands.
    """
    changes: list[Change] = []
    ours = (owned or {}).get("f:metadata") or {}
    for part in ("labels", "annotations"):
        wanted: dict[str, str] = desired["metadata"].get(part) or {}
        have: dict[str, str] = live["metadata"].get(part) or {}
        set_by_us = ours.get(f"f:{part}") or {}
        for key, value in wanted.items():
            if have.get(key, ABSENT) != value:
                changes.append(Change(child_path(f"metadata.{part}", key), have.get(key), value))
        for key, value in have.items():
            if key not in wanted and f"f:{key}" in set_by_us and not keep(key):
                changes.append(Change(child_path(f"metadata.{part}", key), value, None))
    return changes


def _is_empty(value: Any) -> bool:
    """Return True for values that the API leaves out when it writes an object (``omitempty``)."""
    return value is None or value is False or value in ("", 0) or value == {} or value == []


def same_scalar(key: str, desired: Any, live: Any) -> bool:
    """Return True if two quantities are equal though they are written differently."""
    if key not in _QUANTITIES or not all(isinstance(value, (str, int)) for value in (desired, live)):
        return False
    want, have = parse_quantity(str(desired)), parse_quantity(str(live))
    return want is not None and want == have


def agrees(name: str, stated: Any, live: Any) -> bool:
    """Return True if a field has the value that was stated, whatever the server added in it."""
    walk = Comparison()
    walk.value(name, stated, live, FieldOwnership(), "")
    return not walk.changes


def without_effect(changes: Iterable[Change], before: Object, after: Object) -> list[str]:
    """Return the paths of changes at which an object has the same value before and after."""
    paths = sorted(change.path for change in changes)
    return [path for path in paths if value_at(before, steps_of(path)) == value_at(after, steps_of(path))]


def is_ignored(kind: str, path: str) -> bool:
    """Return True if a path, or a field around it, is never a difference. ``suspend`` is one if another manager set it,
    so it is not ignored here.
    """
    return any(is_within(path, one) for one in _IGNORED.get(kind, frozenset()) - {"spec.suspend"})

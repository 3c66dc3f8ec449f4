"""Comparison of a wanted object with the live one: one list of outcomes, which plans and the drift report read.

An outcome is a field that gpuctl states or has stated and that differs, or a field of other managers that the wanted
object does not have. Before a comparison :mod:`gpuctl.apply.state.takeover` gives gpuctl the fields that the last
document stated.

Never a change: values that the server fills in, fields that other managers added, status. A rolling update sends
the live object with the changes merged into it. The rules are those of server-side apply, which cannot be used for
workloads: they are created by POST, so their fields belong to an Update entry. For an apply these are another manager's
fields: it conflicts with them and removes none of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gpuctl.apply.state.field_paths import (
    ABSENT,
    child_path,
    is_within,
    list_identities,
    steps_of,
    value_at,
)
from gpuctl.apply.state.managed_fields import ALL, OURS, FieldOwnership, HeldField, Tree, union
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.hashed_names import changeable_fields
from gpuctl.objects.quantities import parse_quantity
from gpuctl.objects.server_defaults import USER_MAPS, is_default

# `$(NAME)` in a variable refers to earlier variables, and init containers run one after another.
_ORDERED = frozenset({"env", "initContainers"})
# Maps with a single owner (`+structType=atomic`): managed fields do not list their keys.
_ATOMIC_MAPS = frozenset({"nodeSelector", "selector"})
# Lists to which other controllers add: Kueue adds the tolerations of a flavor.
_GROWING = frozenset({"tolerations", "schedulingGates"})
# Fields whose values, or whose maps' values, are quantities.
_QUANTITIES = frozenset({"requests", "limits", "hard", "defaultRequest", "default", "min", "max", "sizeLimit"})
_QUANTITIES |= {"averageValue", "value", "storage", "memory", "cpu", "nominalQuota", "borrowingLimit", "weight"}

_NOT_COMPARED = ("apiVersion", "kind", "status")
_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_STATED_METADATA = ("f:labels", "f:annotations")

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


def in_place_paths(workload: Object) -> tuple[str, ...]:
    """Return the paths of the fields that can change without a restart of the workload's pods."""
    return tuple(f"spec.{name}" for name in changeable_fields(workload))


class FieldOutcome(NamedTuple):
    """A field that differs: ``old`` is the live value, ``new`` the wanted one; None stands for absent.

    ``managers`` are set for a field that gpuctl neither states nor has stated: those that hold it. A replacement drops
    such a field, any other update keeps it. ``is_default``: it has the value that the server sets.
    """

    path: str
    old: Any
    new: Any
    managers: tuple[str, ...] = ()
    is_default: bool = False

    @property
    def manager(self) -> str:
        """Return the first of the managers; "" without any."""
        return next(iter(self.managers), "")


@dataclass
class Comparison:
    """The result of a comparison, and the recursion that computes it.

    ``merged`` is the live object with the changes applied, without metadata. A field that gpuctl no longer states stays
    in it if another manager holds it too. ``conflicts`` maps the paths of values that must change to the other managers
    that hold them.
    """

    ignored: Collection[str] = ()
    outcomes: list[FieldOutcome] = field(default_factory=list)
    conflicts: dict[str, list[str]] = field(default_factory=dict)
    merged: Object = field(default_factory=dict)

    @property
    def changes(self) -> list[FieldOutcome]:
        """Return the changes outside metadata."""
        return [one for one in self.outcomes if not one.managers and not is_within(one.path, "metadata")]

    @property
    def metadata(self) -> list[FieldOutcome]:
        """Return the changes of labels and annotations."""
        return [one for one in self.outcomes if not one.managers and is_within(one.path, "metadata")]

    @property
    def held(self) -> str:
        """Return the conflicts as text; empty without any."""
        return say(
            "{conflicts:;}",
            conflicts=[
                say("{path} is held by {managers:and}", path=path, managers=names)
                for path, names in sorted(self.conflicts.items())
            ],
        )

    def mapping(self, wanted: Object, live: Object, sides: FieldOwnership, path: str, around: str = "") -> Object:
        """Compare two mappings, and return the live one with gpuctl's changes."""
        merged = dict(live)
        for key in (*wanted, *(key for key in live if key not in wanted)) if sides.held else wanted:
            below, have = sides.at(key), live.get(key, ABSENT)
            is_foreign = key not in wanted and not below.was_ours
            if is_foreign and not below.held:
                continue
            start = len(self.outcomes)
            name, is_entry = "requests" if around in _QUANTITIES else key, around in USER_MAPS
            value = self.value(name, wanted.get(key, ABSENT), have, below, child_path(path, key), is_entry=is_entry)
            _put(merged, key, value)
            if is_foreign and len(self.outcomes) > start and is_default(around, key, have, live):
                self.outcomes[start:] = [one._replace(is_default=True) for one in self.outcomes[start:]]
        return merged

    def value(
        self, key: str, wanted: Any, live: Any, sides: FieldOwnership, path: str, *, is_entry: bool = False
    ) -> Any:
        """Compare two values of a field, and return the one to send.

        :param is_entry: ``key`` is chosen by the user, so that an empty value counts.
        """
        if path in self.ignored:
            sides = FieldOwnership({name: tree for name, tree in sides.held.items() if name != OURS}, ABSENT)
        is_ours = wanted is not ABSENT and sides.is_ours(path)
        if live is ABSENT or live is None:
            if is_ours and (is_entry or not _is_empty(wanted)):
                self.outcomes.append(FieldOutcome(path, None, wanted))
            return wanted if is_ours else live
        if wanted is ABSENT and sides.was_ours:
            if is_entry or not _is_empty(live):
                self.outcomes.append(FieldOutcome(path, live, None))
            return _without_ours(key, live, sides)
        if wanted == live:
            return live
        if isinstance(live, dict) and (wanted is ABSENT or isinstance(wanted, dict)):
            if key in _ATOMIC_MAPS:
                sides = sides.by_key(live)
            self._foreign(wanted, live, sides, path)
            return self.mapping({} if wanted is ABSENT else wanted, live, sides, path, key)
        if isinstance(live, list) and (wanted is ABSENT or isinstance(wanted, list)):
            lists = [[] if wanted is ABSENT else wanted, live]
            names = list_identities(key, *lists)
            if names is not None:
                self._foreign(wanted, live, sides, path)
                return self.items(key, lists, names, sides, path)
        if is_ours:
            return self._whole(key, wanted, live, sides, path)
        return self._not_ours(key, wanted, live, sides, path)

    def _whole(self, key: str, wanted: Any, live: Any, sides: FieldOwnership, path: str) -> Any:
        """Compare two values that have a single owner, and return the one to send."""
        if isinstance(wanted, list) and isinstance(live, list):
            if key in _GROWING and not sides.was_ours and all(item in live for item in wanted):
                return self._not_ours(key, wanted, live, sides, path)
            self._atomic(wanted, live, sides, path)
        elif same_scalar(key, wanted, live):
            return live
        else:
            self.outcomes.append(FieldOutcome(path, live, wanted))
        if sides.others:
            self.conflicts[path] = sides.others
        return wanted

    def _not_ours(self, key: str, wanted: Any, live: Any, sides: FieldOwnership, path: str) -> Any:
        """Add what other managers hold of a value, and return it."""
        self._foreign(wanted, live, sides, path)
        self._foreign_items(key, wanted, live, sides, path)
        return live

    def items(
        self, key: str, lists: list[list[Any]], names: tuple[list[Any], ...], sides: FieldOwnership, path: str
    ) -> list[Any]:
        """Match the items of the wanted and the live list by their names, and compare each pair."""
        found = dict(zip(names[1], lists[1], strict=True))
        stated = _items_by_name(key, sides.stated)
        merged, coming, is_ours = dict(found), set(names[0]), sides.is_ours(path)
        for name, item in zip(names[0], lists[0], strict=True):
            where, ours = f"{path}[{name[0]}]", ALL if sides.stated is ALL else stated.get(name, ABSENT)
            if name in found:
                merged[name] = self.mapping(item, found[name], sides.of(found[name], ours), where)
            elif is_ours:
                self.outcomes.append(FieldOutcome(where, None, item))
                # An item that only the server's answer has was added by a webhook; the webhook may add it to this
                # update too.
                if ours is not ABSENT:
                    merged[name] = item
        for name, item in found.items():
            if name not in coming and sides.held:
                _put(merged, name, self._other_item(item, sides.of(item, ABSENT), f"{path}[{name[0]}]"))
        order = [name for name in found if name in coming]
        if key in _ORDERED and is_ours and order != [name for name in names[0] if name in found]:
            have, want = ([name[0] for name in one] for one in (order, names[0]))
            self.outcomes.append(FieldOutcome(f"{path} (order)", have, want))
        there = [name for name in found if name in merged]
        return [merged[name] for name in _in_order(key, there, [name for name in names[0] if name in merged])]

    def _other_item(self, item: Object, sides: FieldOwnership, path: str) -> Any:
        """Compare an item that only the live list has, and return what remains of it."""
        if sides.was_ours:
            self.outcomes.append(FieldOutcome(path, item, None))
            return _without_ours("", item, sides)
        holders = tuple(name for name, tree in sides.held.items() if not tree or "." in tree)
        if holders:
            self.outcomes.append(FieldOutcome(path, item, None, holders))
        rest = {name: tree for name, tree in sides.held.items() if name not in holders}
        self.mapping({}, item, FieldOwnership(rest, ABSENT), path)
        return item

    def _atomic(self, wanted: list[Any], live: list[Any], sides: FieldOwnership, path: str) -> None:
        """Compare lists that have a single owner, as a whole."""
        plain = not any(isinstance(item, (dict, list)) for item in (*wanted, *live))
        if plain or len(wanted) != len(live):
            self.outcomes.append(FieldOutcome(path, live, wanted))
            return
        walk = Comparison(self.ignored, self.outcomes)
        for index, (want, have) in enumerate(zip(wanted, live, strict=True)):
            is_stated = isinstance(sides.stated, list) and index < len(sides.stated)
            walk.value(
                "", want, have, FieldOwnership(stated=sides.stated[index] if is_stated else ALL), f"{path}[{index}]"
            )

    def _foreign(self, wanted: Any, live: Any, sides: FieldOwnership, path: str) -> None:
        """Add a value that other managers hold as a whole."""
        held = {name: tree for name, tree in sides.held.items() if name != OURS and tree.keys() <= {"."}}
        if isinstance(live, list) and isinstance(wanted, list) and any(item not in wanted for item in live):
            is_shorter = all(item in live for item in wanted)
            live, wanted = [item for item in live if item not in wanted], ABSENT if is_shorter else wanted
        elif wanted is not ABSENT:
            held = {name: tree for name, tree in held.items() if not tree}
        if held:
            self.outcomes.append(FieldOutcome(path, live, None if wanted is ABSENT else wanted, tuple(held)))

    def _foreign_items(self, key: str, wanted: Any, live: Any, sides: FieldOwnership, path: str) -> None:
        """Add the items of a list that only ``managedFields`` distinguish, such as finalizers."""
        found: dict[str, FieldOutcome] = {}
        for name, tree in sides.held.items() if isinstance(live, list) else ():
            for item in HeldField(tree, (live, wanted), path, key).below():
                if item.values[0] is not ABSENT and item.values[1] is ABSENT:
                    names = found[item.path].managers if item.path in found else ()
                    found[item.path] = FieldOutcome(item.path, item.values[0], None, (*names, name))
        self.outcomes += found.values()


def _put(merged: dict[Any, Any], key: Any, value: Any) -> None:
    if value is ABSENT:
        merged.pop(key, None)
    else:
        merged[key] = value


def _items_by_name(key: str, items: Any) -> dict[Any, Any]:
    """Return the items of a list by their names; empty if they have none, or it is not a list."""
    names = list_identities(key, items) if isinstance(items, list) else None
    return dict(zip(names[0], items, strict=True)) if names is not None else {}


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
    """Compare two objects outside status; of metadata, labels and annotations.

    :param ours: gpuctl's fields in ``live``; such a field that ``wanted`` lacks is a removal.
    :param others: the fields of other managers, by name. Their metadata includes finalizers and owner references.
    :param stated: the object as gpuctl states it, if ``wanted`` also has the server's defaults. A default counts only
        if the live field is gpuctl's.
    :param ignored: further paths that are not a difference.
    """
    result = Comparison(_IGNORED.get(kind, frozenset()) | set(ignored))
    held = _by_name(others) if ours is None else {**_by_name(others), OURS: _changeable(ours)}
    sides = FieldOwnership(held, ALL if stated is None else _body(stated))
    result.merged = result.mapping(_body(wanted), _body(live), sides, "")
    del result.merged["metadata"]
    return result


def _changeable(tree: Tree) -> Tree:
    """Return gpuctl's fields without the parts of metadata that it never removes."""
    metadata = {key: below for key, below in (tree.get("f:metadata") or {}).items() if key in _STATED_METADATA}
    return {**tree, "f:metadata": metadata}


def _by_name(holders: Iterable[tuple[str, Tree]]) -> dict[str, Tree]:
    found: dict[str, Tree] = {}
    for name, tree in holders:
        found[name] = union([found.get(name, {}), tree])
    return found


def _body(obj: Object) -> Object:
    metadata = obj.get("metadata") or {}
    parts = {"labels": {}, "annotations": {}, **{part: metadata[part] for part in _METADATA if metadata.get(part)}}
    return {**{key: value for key, value in obj.items() if key not in _NOT_COMPARED}, "metadata": parts}


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
    return not walk.outcomes


def without_effect(changes: Iterable[FieldOutcome], before: Object, after: Object) -> list[str]:
    """Return the paths of changes at which an object has the same value before and after."""
    paths = sorted(change.path for change in changes)
    return [path for path in paths if value_at(before, steps_of(path)) == value_at(after, steps_of(path))]


def is_ignored(kind: str, path: str) -> bool:
    """Return True if a path, or a field around it, is never a difference. ``suspend`` is one if another manager set it,
    so it is not ignored here.
    """
    return any(is_within(path, one) for one in _IGNORED.get(kind, frozenset()) - {"spec.suspend"})

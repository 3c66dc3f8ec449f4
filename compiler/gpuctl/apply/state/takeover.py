"""The fields of a live object that gpuctl takes over: its last document stated them, and they have not changed since.

Other field managers hold such fields as well if kubectl, Argo CD or a restore has written the object. They are moved to
gpuctl's entry of ``managedFields``, as ``kubectl apply --server-side`` does with the fields of a client-side apply. A
field that another manager has set to a different value stays that manager's.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from gpuctl.apply.state.compare import agrees
from gpuctl.apply.state.field_paths import ABSENT, is_within, named
from gpuctl.apply.state.managed_fields import UNKNOWN, Tree, field_at, fields_of, is_tool, union
from gpuctl.apply.state.server_defaults import is_default
from gpuctl.kube.session import MANAGER
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import POSTED, Object

# Structures that are invalid without the fields that gpuctl states in them: they stay or go as a whole.
_WHOLE = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})


class AppliedVersion(NamedTuple):
    """An object as it was last applied.

    ``of_tools``: its fields count only if a tool that applies manifests holds them, see :func:`is_tool`. ``is_last``:
    any difference from it was made since; an older record may only confirm values.
    """

    object: Object
    of_tools: bool = False
    is_last: bool = False


class Claims(NamedTuple):
    """The fields to take over from a live object: those of ``bases``. ``wanted`` is the object that is now applied."""

    bases: tuple[AppliedVersion, ...]
    wanted: Object


class Claimed(NamedTuple):
    """The result of a takeover.

    ``live`` is the object with its new ``managedFields``, ``fields`` are those that other managers held before.
    ``kept`` maps paths that the last document stated and the new one does not, and whose values another manager has
    changed since, to that manager's name.
    """

    live: Object
    fields: Tree
    kept: Mapping[str, str]

    def __str__(self) -> str:
        """Return the kept fields as text; empty without any."""
        shown = [f"{named(path)} ({manager})" for path, manager in sorted(self.kept.items())]
        if not shown:
            return ""
        return say("keeps {fields}, changed since the last apply and no longer in the document", fields=shown)


def claim(live: Object, claims: Claims) -> Claimed:
    """Return the live object with the fields of its last documents in gpuctl's entry of ``managedFields``.

    The fields of gpuctl's own server-side apply are included: no other manager has changed those since.
    """
    entries = copy.deepcopy(live["metadata"].get("managedFields") or [])
    if not entries:
        entries = [_entry(UNKNOWN, "Update", live, fields_of(live))]
    operation = "Update" if live["kind"] in POSTED else "Apply"
    mine = next((entry for entry in entries if _is_own(entry, operation, live)), None)
    own = mine["fieldsV1"] if mine is not None and operation == "Apply" else None
    others = [
        entry
        for entry in entries
        if entry is not mine and not entry.get("subresource") and entry.get("apiVersion") == live["apiVersion"]
    ]
    kept: dict[str, str] = {}
    chains: list[tuple[str, ...]] = []
    for entry in others:
        for base in claims.bases:
            if base.is_last and entry.get("manager") != MANAGER:
                for place in _Place(live, base.object, claims.wanted).leaves(entry.get("fieldsV1") or {}):
                    if place.base is not ABSENT and place.wanted is ABSENT and not _is_same(place):
                        around = place.whole or place
                        kept[around.path] = str(entry.get("manager") or UNKNOWN)
                        chains.append(around.chain)
    taken: list[Tree] = []
    times = [""]
    for entry in others:
        bases = [base for base in claims.bases if not base.of_tools or is_tool(str(entry.get("manager") or UNKNOWN))]
        for base in bases or [AppliedVersion({})]:
            tree: Tree = {}
            fields = entry.get("fieldsV1") or {}
            for place in list(_Place(live, base.object, claims.wanted, own=own).leaves(fields)):
                is_ours = (base.is_last or _is_same(place.whole)) if place.whole else _is_ours(place)
                if is_ours and not any(is_within(place.path, path) for path in kept):
                    _move((place.whole or place).chain, fields, tree)
            if tree:
                taken.append(tree)
                times.append(str(entry.get("time") or ""))
    if not taken and not kept:
        return Claimed(live, {}, {})
    if mine is None:
        mine = _entry(MANAGER, operation, live, {}, max(times))
        entries.append(mine)
    mine["fieldsV1"] = union([mine.get("fieldsV1") or {}, *taken])
    for chain in chains:
        _move(chain, mine["fieldsV1"], {})
    entries = [entry for entry in entries if entry.get("fieldsV1")]
    return Claimed({**live, "metadata": {**live["metadata"], "managedFields": entries}}, union(taken), kept)


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
    """A place in the live object, its last document and the wanted object; absent values are ``ABSENT``.

    ``owner`` and ``field`` name the field around it and the field. ``chain`` are the keys in ``fieldsV1`` that lead to
    it. ``own`` is the part of gpuctl's server-side apply below it. ``around`` is the place around it.
    """

    live: Any
    base: Any
    wanted: Any
    path: str = ""
    owner: str = ""
    field: str = ""
    chain: tuple[str, ...] = ()
    own: Tree | None = None
    around: _Place | None = None

    @property
    def is_whole(self) -> bool:
        """Return True if the place goes or stays as a whole: the document no longer states it, and a part would be
        invalid.
        """
        was_stated = self.base is not ABSENT or self.own is not None
        return was_stated and self.wanted is ABSENT and (self.field in _WHOLE or not self.field)

    def child(self, key: str) -> _Place | None:
        """Return the place below for a key of ``fieldsV1``; None if the live object does not have it."""
        found = field_at(key, (self.live, self.base, self.wanted), self.path, self.field)
        if found is None or found.values[0] is ABSENT or key.startswith("v:"):
            return None
        live, base, wanted = found.values
        chain, own = (*self.chain, key), (self.own or {}).get(key)
        return _Place(live, base, wanted, found.path, self.field, found.name, chain, own, self)

    @property
    def whole(self) -> _Place | None:
        """Return the outermost place that goes or stays as a whole: this one, or one around it; None without any."""
        above = self.around.whole if self.around is not None else None
        return above or (self if self.is_whole else None)

    def leaves(self, tree: Tree) -> Iterator[_Place]:
        """Yield the places of a manager's fields that contain no other fields."""
        for key, below in tree.items():
            there = self.child(key)
            if there is not None and below.keys() <= {"."}:
                yield there
            elif there is not None:
                yield from there.leaves(below)


def _is_ours(place: _Place) -> bool:
    if place.own is not None or place.base is not ABSENT:
        return _is_same(place)
    parent = place.around
    assert parent is not None
    siblings = parent.live if isinstance(parent.live, dict) else {}
    was_stated = parent.base is not ABSENT and parent.wanted is ABSENT
    return was_stated and is_default(place.owner, place.field, place.live, siblings)


def _is_same(place: _Place) -> bool:
    """Return True if a place has the stated value; to a field with a single owner nothing may have been added."""
    if place.own is not None:
        return True
    live, base = place.live, place.base
    is_longer = isinstance(live, (dict, list)) and isinstance(base, (dict, list)) and len(live) != len(base)
    return (place.is_whole or not is_longer) and agrees(place.field, base, live)


def _move(chain: tuple[str, ...], source: Tree, target: Tree) -> None:
    """Move a field between trees, in place, and the structures around it that have no other field."""
    first, *rest = chain
    if first not in source:
        return
    if rest:
        _move(tuple(rest), source[first], target.setdefault(first, {}))
    if not rest or source[first].keys() <= {"."}:
        target[first] = {**target.get(first, {}), **source.pop(first)}

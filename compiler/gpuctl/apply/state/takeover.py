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
from gpuctl.kube.session import MANAGER
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import POSTED, Object
from gpuctl.objects.server_defaults import is_default

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
    entries = copy.deepcopy(live["metadata"].get("managedFields")) or [_entry(UNKNOWN, "Update", live, fields_of(live))]
    operation = "Update" if live["kind"] in POSTED else "Apply"
    comparable = [entry for entry in entries if _is_comparable(entry, live)]
    mine = next((entry for entry in comparable if entry.get("operation") == operation and _is_own(entry)), None)
    others = [entry for entry in comparable if entry is not mine]
    own = mine["fieldsV1"] if mine is not None and operation == "Apply" else None
    changed = [(_manager(entry), place) for entry in others for place in _changed_since(entry, live, claims)]
    kept = {place.path: manager for manager, place in changed}
    taken = [(entry, tree) for entry in others for tree in _take(entry, live, claims, own, kept)]
    if not taken and not kept:
        return Claimed(live, {}, {})
    trees = [tree for _, tree in taken]
    if mine is None:
        last = max((str(entry.get("time") or "") for entry, _ in taken), default="")
        mine = _entry(MANAGER, operation, live, {}, last)
        entries.append(mine)
    mine["fieldsV1"] = union([mine.get("fieldsV1") or {}, *trees])
    for _, place in changed:
        _move(place.chain, mine["fieldsV1"], {})
    entries = [entry for entry in entries if entry.get("fieldsV1")]
    return Claimed({**live, "metadata": {**live["metadata"], "managedFields": entries}}, union(trees), kept)


def _is_comparable(entry: Object, live: Object) -> bool:
    return entry.get("apiVersion") == live["apiVersion"] and not entry.get("subresource")


def _is_own(entry: Object) -> bool:
    return bool(entry.get("manager") == MANAGER)


def _manager(entry: Object) -> str:
    return str(entry.get("manager") or UNKNOWN)


def _changed_since(entry: Object, live: Object, claims: Claims) -> Iterator[_Place]:
    """Yield what another manager has changed since the last document stated it, and the new one does not state."""
    for base in claims.bases:
        if not base.is_last or _is_own(entry):
            continue
        for place in _Place(live, base.object, claims.wanted).leaves(entry.get("fieldsV1") or {}):
            if place.base is not ABSENT and place.wanted is ABSENT and not _is_same(place):
                yield place.unit


def _take(entry: Object, live: Object, claims: Claims, own: Tree | None, kept: Mapping[str, str]) -> Iterator[Tree]:
    """Move the fields that are gpuctl's out of another manager's entry, and yield them, one tree for each base."""
    fields = entry.get("fieldsV1") or {}
    bases = [base for base in claims.bases if not base.of_tools or is_tool(_manager(entry))]
    for base in bases or [AppliedVersion({})]:
        taken: Tree = {}
        for place in list(_Place(live, base.object, claims.wanted, own=own).leaves(fields)):
            if _is_ours(place, base.is_last) and not any(is_within(place.path, path) for path in kept):
                _move(place.unit.chain, fields, taken)
        if taken:
            yield taken


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
    def unit(self) -> _Place:
        """Return what goes or stays together with this place: the outermost whole place around it, or itself."""
        above = self.around.unit if self.around is not None else self
        return above if above.is_whole else self

    def leaves(self, tree: Tree) -> Iterator[_Place]:
        """Yield the places of a manager's fields that contain no other fields."""
        for key, below in tree.items():
            there = self.child(key)
            if there is not None and below.keys() <= {"."}:
                yield there
            elif there is not None:
                yield from there.leaves(below)


def _is_ours(place: _Place, is_last: bool) -> bool:
    """Return True if gpuctl stated the value of a place, or the server its default.

    is_last: the place's base is the last document. What others have changed since then is kept, see `_changed_since`.
    """
    if place.unit.is_whole:
        return is_last or _is_same(place.unit)
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

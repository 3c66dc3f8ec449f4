"""What differs between the object we want and the one that is there, at the paths we set and at no others.

Never a difference: what the server fills in, what other managers added, status. Rules that depend on a kind (what is
ignored, what can be changed in place) are tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from gpuctl.objects.api_resources import Object
from gpuctl.objects.generations import CHANGEABLE
from gpuctl.objects.quantities import parse_quantity

Tree = dict[str, Any]
"""``managedFields[].fieldsV1``: ``f:NAME`` a field, ``k:{...}`` an item of a list by its keys."""

_ABSENT: Any = object()
_ALL: Any = object()

# Lists that Kubernetes merges by key (`+listMapKey` in its API types); all others are compared as a whole.
_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "resourceClaims": ("name",),
    "imagePullSecrets": ("name",),
    "replicatedJobs": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "ports": ("containerPort", "protocol"),
}
_SERVICE_PORT = ("port", "protocol")
# `$(NAME)` in a variable refers to those before it, and init containers run one after another.
ORDERED = frozenset({"env", "initContainers"})
# Maps that have one owner (`+structType=atomic`): managed fields do not say which keys they had.
ATOMIC_MAPS = frozenset({"nodeSelector", "selector"})
# Lists to which others add: Kueue a flavour's tolerations.
GROWING = frozenset({"tolerations", "schedulingGates"})
# Fields whose values, or whose maps' values, are quantities.
_QUANTITIES = frozenset({"requests", "limits", "hard", "defaultRequest", "default", "min", "max", "sizeLimit"})
_QUANTITIES |= {"averageValue", "value", "storage", "memory", "cpu"}

# kind -> paths that never make a difference.
_IGNORED: dict[str, frozenset[str]] = {
    "Job": frozenset(
        {
            "spec.selector",
            "spec.suspend",  # a pause, or Kueue
            "spec.manualSelector",
            "spec.template.metadata.labels.controller-uid",
            "spec.template.metadata.labels[batch.kubernetes.io/controller-uid]",
            "spec.template.metadata.labels.job-name",
            "spec.template.metadata.labels[batch.kubernetes.io/job-name]",
        }
    ),
    "JobSet": frozenset({"spec.suspend"}),
}
# kind -> fields that can be changed without touching what runs.
IN_PLACE: dict[str, tuple[str, ...]] = {
    "Deployment": (),
    "StatefulSet": (),
    **{kind: tuple(f"spec.{field}" for field in fields) for kind, fields in CHANGEABLE.items()},
}


class Change(NamedTuple):
    """A field that differs: ``old`` is the live value, ``new`` the wanted one; None stands for absent."""

    path: str
    old: Any
    new: Any


def spec_changes(
    kind: str,
    desired: Object,
    live: Object,
    *,
    removed_from: Tree | None = None,
    stated: Object | None = None,
    ignored: Collection[str] = (),
) -> list[Change]:
    """Differences outside metadata and status.

    :param removed_from: the fields that are ours in ``live``; such a field that ``desired`` lacks is a removal.
    :param stated: what we say ourselves, when ``desired`` has the server's defaults too: a default counts only where
        the live field is ours.
    :param ignored: further paths that make no difference.
    """
    compare = _Comparison(_IGNORED.get(kind, frozenset()) | set(ignored))
    said = _ALL if stated is None else _body(stated)
    return list(compare.mapping(_body(desired), _body(live), removed_from, said, ""))


def _body(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}


def metadata_changes(desired: Object, live: Object, owned: Tree | None, keep: Callable[[str], bool]) -> list[Change]:
    """Differences of labels and annotations at our keys, and those of ours that are no longer wanted.

    :param keep: annotations and labels that are never removed (``keep(key)``): records of other commands.
    """
    changes: list[Change] = []
    ours = (owned or {}).get("f:metadata") or {}
    for part in ("labels", "annotations"):
        wanted: dict[str, str] = desired["metadata"].get(part) or {}
        have: dict[str, str] = live["metadata"].get(part) or {}
        set_by_us = ours.get(f"f:{part}") or {}
        for key, value in wanted.items():
            if have.get(key, _ABSENT) != value:
                changes.append(Change(f"metadata.{part}{_step(key)}", have.get(key), value))
        for key, value in have.items():
            if key not in wanted and f"f:{key}" in set_by_us and not keep(key):
                changes.append(Change(f"metadata.{part}{_step(key)}", value, None))
    return changes


class _Comparison:
    """A walk over three trees at once: what is wanted, what is there, and which of that is ours.

    ``said`` follows what we state ourselves; ``_ALL`` below a point means that everything there counts.
    """

    def __init__(self, ignored: Collection[str]) -> None:
        self.ignored = ignored

    def mapping(self, desired: Object, live: Object, owned: Tree | None, said: Any, path: str) -> Iterator[Change]:
        for key, value in desired.items():
            where = identity_path(path, key)
            ours = (owned or {}).get(f"f:{key}")
            is_said = said is _ALL or (isinstance(said, dict) and key in said)
            if where in self.ignored or (not is_said and ours is None):
                continue
            below = said if said is _ALL else said[key] if is_said else None
            yield from self.value(key, value, live.get(key, _ABSENT), ours, below, where)
        for key, have in live.items() if owned else ():
            where = identity_path(path, key)
            if key not in desired and f"f:{key}" in (owned or {}) and where not in self.ignored and not _is_empty(have):
                yield Change(where, have, None)

    def value(self, key: str, desired: Any, live: Any, owned: Tree | None, said: Any, path: str) -> Iterator[Change]:
        if live is _ABSENT or live is None:
            if not _is_empty(desired):
                yield Change(path, None, desired)
        elif isinstance(desired, dict) and isinstance(live, dict):
            if key in _QUANTITIES:
                desired = _respelt(desired, live)
            if key in ATOMIC_MAPS and owned == {}:
                owned = {f"f:{name}": {} for name in live}
            yield from self.mapping(desired, live, owned, said, path)
        elif isinstance(desired, list) and isinstance(live, list):
            yield from self.sequence(key, desired, live, owned, said, path)
        elif desired != live and not same_scalar(key, desired, live):
            yield Change(path, live, desired)

    def sequence(
        self, key: str, desired: list[Any], live: list[Any], owned: Tree | None, said: Any, path: str
    ) -> Iterator[Change]:
        keys = _keys_of(key, desired, live)
        if keys is None:
            if key in GROWING and owned is None and all(item in live for item in desired):
                return
            yield from self.atomic(desired, live, said, path)
            return
        found = {_identity(item, keys): item for item in live}
        stated = {_identity(item, keys): item for item in said} if isinstance(said, list) else {}
        wanted = [_identity(item, keys) for item in desired]
        for identity, item in zip(wanted, desired, strict=True):
            where = f"{path}[{identity[0]}]"
            if identity not in found:
                yield Change(where, None, item)
            else:
                below = _ALL if said is _ALL else stated.get(identity)
                yield from self.mapping(item, found[identity], item_tree(owned, item), below, where)
        for identity, item in found.items():
            if identity not in wanted and item_tree(owned, item) is not None:
                yield Change(f"{path}[{identity[0]}]", item, None)
        if key in ORDERED:
            order = [identity for identity in found if identity in wanted]
            if order != [identity for identity in wanted if identity in found]:
                yield Change(f"{path} (order)", [item[0] for item in order], [item[0] for item in wanted])

    def atomic(self, desired: list[Any], live: list[Any], said: Any, path: str) -> Iterator[Change]:
        """Lists that have one owner: all of it is ours, or nothing."""
        plain = not any(isinstance(item, (dict, list)) for item in (*desired, *live))
        if plain or len(desired) != len(live):
            if desired != live:
                yield Change(path, live, desired)
            return
        for index, (want, have) in enumerate(zip(desired, live, strict=True)):
            below = said[index] if isinstance(said, list) and index < len(said) else _ALL
            yield from self.value("", want, have, None, below, f"{path}[{index}]")


def identity_path(path: str, key: str) -> str:
    """The path of a field below another: ``spec`` and ``replicas`` -> ``spec.replicas``."""
    return path + _step(key) if path else key


def named(path: str) -> str:
    """A path as people say it: ``containers[main].image``, ``annotation example.com/owner``."""
    match = re.fullmatch(r"metadata\.(label|annotation|finalizer)s(?:\.|\[)(.*?)\]?", path)
    return f"{match[1]} {match[2]}" if match else path.removeprefix("spec.template.spec.").removeprefix("spec.")


_POD_METADATA = re.compile(
    r"spec\.(?:replicatedJobs\[[^]]*\]\.template\.spec\.)?template\.metadata(?:\.(?:labels|annotations)|\Z)"
)


def is_pod_metadata(path: str) -> bool:
    """Return True for the path of labels or annotations in the pod template of a Job or JobSet."""
    return _POD_METADATA.match(path) is not None


def list_identity(field: str, item: Any, index: int) -> Any:
    """What names an item of a list in a path: the first of its keys, or its number."""
    keys = _keys_of(field, [item])
    return _identity(item, keys)[0] if keys is not None else index


def list_identities(field: str, *lists: list[Any]) -> tuple[list[Any], ...] | None:
    """What names the items of lists that Kubernetes merges by key; None for lists that have one owner."""
    keys = _keys_of(field, *lists)
    return tuple([_identity(item, keys) for item in one] for one in lists) if keys is not None else None


def item_key(field: str, item: Any) -> Object | None:
    """The keys by which Kubernetes merges an item of a list, with their values; None in a list that has one owner."""
    keys = _keys_of(field, [item])
    return dict(zip(keys, _identity(item, keys), strict=True)) if keys is not None else None


@lru_cache(maxsize=4096)
def _step(key: str) -> str:
    return f".{key}" if all(part.isalnum() for part in key.replace("-", "_").split("_") if part) else f"[{key}]"


def _is_empty(value: Any) -> bool:
    """What the API leaves out when it writes an object (``omitempty``)."""
    return value is None or value is False or value in ("", 0) or value == {} or value == []


def same_scalar(key: str, desired: Any, live: Any) -> bool:
    """Whether two quantities are equal though they are written differently."""
    if key not in _QUANTITIES or not all(isinstance(value, (str, int)) for value in (desired, live)):
        return False
    want, have = parse_quantity(str(desired)), parse_quantity(str(live))
    return want is not None and want == have


def _respelt(desired: Object, live: Object) -> Object:
    """A map of quantities; those that equal the live ones in the live spelling."""
    return {
        name: live[name] if name in live and same_scalar("requests", value, live[name]) else value
        for name, value in desired.items()
    }


def _keys_of(key: str, *lists: list[Any]) -> tuple[str, ...] | None:
    items = [item for one in lists for item in one]
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    keys = _LIST_KEYS.get(key)
    if key == "ports" and not any("containerPort" in item for item in items):
        keys = _SERVICE_PORT
    if keys is None or not all(keys[0] in item for item in items):
        return None
    return keys


def _identity(item: Object, keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(key) or ("TCP" if key == "protocol" else None) for key in keys)


def item_tree(owned: Tree | None, item: Object) -> Tree | None:
    """What a manager's fields hold of an item of a list; None when they have nothing of it."""
    for key, tree in (owned or {}).items():
        if key.startswith("k:") and all(item.get(name) == value for name, value in json.loads(key[2:]).items()):
            return dict(tree)
    return None


def has_keys(item: Any, identity: Object) -> bool:
    """Return True if an item of a list has these keys. ``protocol`` is TCP where the item does not state it."""
    return isinstance(item, dict) and all(
        item.get(name, "TCP" if name == "protocol" else None) == value for name, value in identity.items()
    )


def agrees(field: str, stated: Any, live: Any) -> bool:
    """Return True if a field has the value that was stated, whatever the server added in it."""
    return not any(_Comparison(()).value(field, stated, live, None, _ALL, ""))


def without_effect(changes: Collection[Change], before: Object, after: Object) -> list[str]:
    """Return the paths of changes after which an object has the same value as before."""
    paths = {change.path for change in changes}
    if not paths:
        return []
    moved = {change.path for change in _both_ways(before, after)}
    return sorted(path for path in paths if not any(_contains(path, one) or _contains(one, path) for one in moved))


def _contains(path: str, other: str) -> bool:
    return other == path or other.startswith((f"{path}.", f"{path}[", f"{path} "))


def _both_ways(before: Object, after: Object) -> list[Change]:
    """Return all differences between two versions of an object, metadata included."""
    found: list[Change] = []
    for one, two in ((before, after), (after, before)):
        found += _Comparison(()).mapping(_body(two), _body(one), None, _ALL, "")
        found += metadata_changes(two, one, None, lambda key: False)
    return found


def is_ignored(kind: str, path: str) -> bool:
    """Whether a path, or what it is in, never makes a difference. A Job's ``suspend`` does where somebody set it."""
    paths = _IGNORED.get(kind, frozenset()) - {"spec.suspend"}
    return any(path == one or path.startswith((f"{one}.", f"{one}[")) for one in paths)

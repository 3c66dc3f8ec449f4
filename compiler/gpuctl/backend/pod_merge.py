"""Strategic merge of partial PodSpecs, and its inverse.

Lists with a merge key (containers, env, volumes ...) are merged by it, at every depth. Lists whose entries hold side by
side (tolerations, terms of affinity, capabilities) get those of the patch in addition; other lists are replaced.
Required node affinity is narrowed, never widened: the pool's terms stay. Where only one of several fields may be set (a
volume's source, a probe's handler), the patch's field replaces another one.
"""

from __future__ import annotations

from typing import Any

from gpuctl.objects.api_resources import Object
from gpuctl.objects.list_keys import LIST_KEYS, key_values

_REQUIRED, _PREFERRED = (f"{name}DuringSchedulingIgnoredDuringExecution" for name in ("required", "preferred"))
"""Terms of affinity. The required ones of node affinity are a mapping with alternatives, all others are lists."""
_ADDED = frozenset(
    {"tolerations", "envFrom", "schedulingGates", "supplementalGroups", "add", "drop", _REQUIRED, _PREFERRED}
)
# Only one of these fields may be set, in the mappings of these names.
_HANDLERS = frozenset({"httpGet", "exec", "tcpSocket", "grpc", "sleep"})
_HANDLED = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"})


def key_of(field: str, item: Object) -> tuple[Any, ...] | None:
    """Return the merge key of a list entry; None if the list has no key, or the entry lacks it."""
    keys = LIST_KEYS.get(field)
    if keys is None or not isinstance(item, dict) or keys[0] not in item:
        return None
    return key_values(item, keys)


def merge_spec(base: Object, patch: Object) -> None:
    """Merge a partial PodSpec into another, in place."""
    for key, value in patch.items():
        own = base.get(key)
        if own is None:
            base[key] = _copy(value)
        elif key == _REQUIRED and "nodeSelectorTerms" in value and "nodeSelectorTerms" in own:
            base[key] = {"nodeSelectorTerms": _narrowed(own["nodeSelectorTerms"], value["nodeSelectorTerms"])}
        elif isinstance(value, dict) and isinstance(own, dict):
            if key in _HANDLED and _HANDLERS & value.keys():
                for handler in _HANDLERS & own.keys() - value.keys():
                    del own[handler]
            merge_spec(own, value)
        elif isinstance(value, list) and key in LIST_KEYS:
            _merge_list(own, value, key)
        elif isinstance(value, list) and key in _ADDED:
            base[key] = [*own, *(_copy(item) for item in value if item not in own)]
        else:
            base[key] = _copy(value)


def _merge_list(base: list[Object], patch: list[Object], field: str) -> None:
    by_key = {key_of(field, item): item for item in base}
    for item in patch:
        own = by_key.get(key_of(field, item))
        if own is None:
            base.append(_copy(item))
            by_key[key_of(field, item)] = base[-1]
        elif _replaces_entry(field, own, item):
            own.clear()
            own.update(_copy(item))
        else:
            merge_spec(own, item)


def _replaces_entry(field: str, own: Object, item: Object) -> bool:
    """Return True if an entry replaces the one with its key: a variable has one value, a volume one source."""
    if field == "env":
        return not {"value", "valueFrom"}.isdisjoint(item)
    return field == "volumes" and not item.keys() <= own.keys()


def _narrowed(ours: list[Object], theirs: list[Object]) -> list[Object]:
    """Return terms that match if one of ``ours`` and one of ``theirs`` does. Terms are alternatives; their expressions
    all apply.
    """
    terms = []
    for own in ours:
        for other in theirs:
            term: Object = {}
            for part in ("matchExpressions", "matchFields"):
                joined = [*own.get(part, []), *(item for item in other.get(part, []) if item not in own.get(part, []))]
                if joined:
                    term[part] = _copy(joined)
            terms.append(term)
    return terms


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value


def diff_spec(base: Object, target: Object) -> Object:
    """Return the patch that turns ``base`` into ``target`` with :func:`merge_spec`. It cannot express removals."""
    patch: Object = {}
    for key, value in target.items():
        own = base.get(key)
        if own == value:
            continue
        if own is None:
            patch[key] = _copy(value)
        elif key == _REQUIRED and isinstance(value, dict):
            patch[key] = {"nodeSelectorTerms": _widened(own["nodeSelectorTerms"], value["nodeSelectorTerms"])}
        elif isinstance(value, dict) and isinstance(own, dict):
            inner = diff_spec(own, value)
            if inner:
                patch[key] = inner
        elif isinstance(value, list) and key in LIST_KEYS:
            items = _diff_list(own, value, key)
            if items:
                patch[key] = items
        elif isinstance(value, list) and key in _ADDED:
            patch[key] = [_copy(item) for item in value if item not in own]
        else:
            patch[key] = _copy(value)
    return patch


def _diff_list(base: list[Object], target: list[Object], field: str) -> list[Object]:
    by_key = {key_of(field, item): item for item in base}
    items = []
    for item in target:
        own = by_key.get(key_of(field, item))
        if own == item:
            continue
        if own is None or _replaces_entry(field, own, item):
            items.append(_copy(item))
            continue
        inner = diff_spec(own, item)
        if inner:
            items.append({**{key: item[key] for key in LIST_KEYS[field] if key in item}, **inner})
    return items


def _widened(ours: list[Object], narrowed: list[Object]) -> list[Object]:
    """Return the terms that :func:`_narrowed` joined to ours: those of our first term, without its own expressions."""
    others = []
    for term in narrowed[: max(1, len(narrowed) // max(1, len(ours)))]:
        other: Object = {}
        for part in ("matchExpressions", "matchFields"):
            rest = [item for item in term.get(part, []) if item not in ours[0].get(part, [])]
            if rest:
                other[part] = _copy(rest)
        others.append(other)
    return others

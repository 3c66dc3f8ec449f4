"""A document's data with the platform's defaults that apply to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gpuctl.objects.durations import parse_duration

_CARD_FIELDS = frozenset({"gpu-memory", "gpu-profile", "gpu-share"})
"""Fields of resources, each of which selects or divides cards in its own way."""
_OF_CARDS = _CARD_FIELDS | {"gpu-type"}

_Path = tuple[str, ...]


class _Exclusion(NamedTuple):
    """A field of a document, and the defaults that would be an error beside it.

    ``when``: takes the values of the field and of a default, and returns True if they exclude each other.
    """

    written: _Path
    defaults: tuple[_Path, ...]
    when: Callable[[Any, Any], bool] = lambda own, default: own != []


def _either(one: _Path, other: _Path) -> tuple[_Exclusion, _Exclusion]:
    """Return the exclusions of two fields of which a document has only one."""
    return _Exclusion(one, (other,)), _Exclusion(other, (one,))


def _fields(block: _Path, *names: str) -> tuple[_Path, ...]:
    return tuple((*block, name) for name in names)


def _is_smaller(own: Any, default: Any) -> bool:
    return isinstance(own, int) and isinstance(default, int) and own < default


def _is_as_short(own: Any, default: Any) -> bool:
    return (parse_duration(str(own)) or 0) <= (parse_duration(str(default)) or 0)


def _of_target(target: str, metric: str) -> Iterator[_Exclusion]:
    """Yield the exclusions of an autoscaler's target, which needs a metric."""

    def is_other(own: Any, default: Any) -> bool:
        # One of the two is the target.
        return metric not in (own, default)

    yield _Exclusion(_METRIC, _fields(_SCALING, target), is_other)
    yield _Exclusion((*_SCALING, target), (_METRIC,), is_other)
    yield _Exclusion((*_SCALING, target), _fields(_SCALING, *(other for other in _TARGETS if other != target)))


_SCALING, _METRIC, _CODE = ("autoscaling",), ("autoscaling", "metric"), ("code",)
_TARGETS = {"targetGPUUtilization": "gpu", "targetCPUUtilization": "cpu", "targetQueueLength": "queue"}
"""Targets of an autoscaler -> the metric that each needs."""
_EXCLUSIONS = (
    *_either(("service", "drain"), ("job", "on", "stop")),
    *_either(("service", "timeout"), ("job", "grace")),
    *_either(("job", "checkpoint", "command"), ("job", "checkpoint", "signal")),
    *_either(("job", "retries"), ("array", "retries")),
    *_either(("resources", "topology", "required"), ("resources", "topology", "preferred")),
    _Exclusion(("resources", "nodes"), _fields(("resources",), "gpu-share"), lambda nodes, _: nodes != 1),
    _Exclusion(("resources", "gpu-share"), _fields(("resources",), "nodes")),
    _Exclusion(("roles",), _fields(("resources",), "nodes", "gpu-share")),
    _Exclusion(("array",), _fields(("resources",), "nodes")),
    _Exclusion(
        ("service", "protocol"),
        _fields(("service",), "health_check", "liveness", "route"),
        lambda protocol, _: protocol == "UDP",
    ),
    _Exclusion((*_CODE, "local"), _fields(_CODE, "git", "ref", "secret", "submodules")),
    _Exclusion((*_CODE, "git"), _fields(_CODE, "local", "sha256")),
    _Exclusion(("notebook", "max_lifetime"), _fields(("notebook",), "stop_after"), _is_as_short),
    *(exclusion for target, metric in _TARGETS.items() for exclusion in _of_target(target, metric)),
    *_either((*_METRIC, "name"), (*_METRIC, "query")),
    _Exclusion((*_METRIC, "query"), (*_fields(_METRIC, "external"), *_fields(_SCALING, "targetMemoryUtilization"))),
    # Without pods, only a metric of the service has a value.
    _Exclusion(_METRIC, _fields(_SCALING, "minReplicas"), lambda own, least: isinstance(own, str) and least == 0),
    _Exclusion((*_SCALING, "maxReplicas"), _fields(_SCALING, "minReplicas"), _is_smaller),
)


def with_defaults(defaults: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """Return a document's data plus the defaults of its kind that apply to it.

    Not those about cards that the job does not have or describes by another field, nor those that the document
    excludes by what it writes.
    """
    excluded = {*_cards(defaults, data), *_excluded(defaults, data)}
    for path in excluded:
        defaults = _without(defaults, path)
    return merge(defaults, data)


def _excluded(defaults: dict[str, Any], data: dict[str, Any]) -> Iterator[_Path]:
    for exclusion in _EXCLUSIONS:
        own = _value(data, exclusion.written)
        for path in exclusion.defaults if own is not None else ():
            default = _value(defaults, path)
            if default is not None and exclusion.when(own, default):
                yield path


def _cards(defaults: dict[str, Any], data: dict[str, Any]) -> Iterator[_Path]:
    """Yield the defaults for cards that the job does not have, or describes by another field."""
    ours, own = defaults.get("resources") or {}, data.get("resources") or {}
    # A role that is not a mapping is reported by its type.
    roles = (role for role in data.get("roles") or () if isinstance(role, dict))
    pods = [merge(ours, own), *(role.get("resources") or {} for role in roles)]
    excluded = _OF_CARDS
    if any(resources.get("gpu") for resources in pods):
        excluded = _CARD_FIELDS if _CARD_FIELDS & own.keys() else frozenset()
    yield from (("resources", name) for name in ours.keys() & excluded - own.keys())


def _value(data: Any, path: _Path) -> Any:
    """Return the value of a field in nested mappings; None if it is not set."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _without(block: dict[str, Any], path: _Path) -> dict[str, Any]:
    """Return a block without the field at a path, and without the blocks that are empty then."""
    name, *rest = path
    inner = _without(block[name], tuple(rest)) if rest and name in block else {}
    others = {key: value for key, value in block.items() if key != name}
    return {**others, name: inner} if inner else others


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return ``over`` with the entries that only ``base`` has.

    Mappings are merged recursively, environment variables by name in both of their forms. Any other value is replaced
    as a whole.
    """
    merged = dict(over)
    for key, value in base.items():
        if key not in merged:
            merged[key] = value
        elif key == "env" and isinstance(value, dict | list) and isinstance(merged[key], dict | list):
            merged[key] = _merge_variables(value, merged[key])
        elif isinstance(value, dict) and isinstance(merged[key], dict):
            merged[key] = merge(value, merged[key])
    return merged


def _merge_variables(base: Any, over: Any) -> Any:
    """Return a document's variables plus the defaults that it does not set, in the form that the document uses.

    Defaults are appended: diagnostics name the document's entries by index.
    """
    if isinstance(over, dict):
        return over | {name: value for name, value in _as_mapping(base).items() if name not in over}
    own = {entry.get("name") for entry in over if isinstance(entry, dict)}
    entries = base if isinstance(base, list) else [_as_entry(name, value) for name, value in base.items()]
    return [*over, *(entry for entry in entries if entry["name"] not in own)]


def _as_mapping(variables: Any) -> dict[str, Any]:
    """Return variables as a mapping: ``NAME: value``, or ``NAME:`` with the source of the value."""
    if isinstance(variables, dict):
        return variables
    return {
        entry["name"]: entry.get("value", {key: item for key, item in entry.items() if key != "name"})
        for entry in variables
    }


def _as_entry(name: str, value: Any) -> dict[str, Any]:
    """Return an entry of a variable mapping as a list entry."""
    return {"name": name, **value} if isinstance(value, dict) else {"name": name, "value": value}

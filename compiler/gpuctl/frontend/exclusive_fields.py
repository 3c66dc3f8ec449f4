"""Fields of a document that exclude each other: of two, the one that is written later replaces the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

from gpuctl.objects.durations import parse_duration

FieldNames = tuple[str, ...]
"""The path of a field in nested blocks."""

CARD_FIELDS = ("gpu-memory", "gpu-profile", "gpu-share")
"""Fields of ``resources``, each of which selects or divides cards in its own way."""


class Exclusion(NamedTuple):
    """A field of a document, and the fields that would be an error beside it.

    ``when``: takes the values of the field and of one of the others, and returns True if they exclude each other.
    """

    written: FieldNames
    others: tuple[FieldNames, ...]
    when: Callable[[Any, Any], bool] = lambda own, other: own != []


def excluded(exclusions: tuple[Exclusion, ...], base: dict[str, Any], over: dict[str, Any]) -> Iterator[FieldNames]:
    """Yield the fields of ``base`` that those of ``over`` exclude, unless ``over`` has them too."""
    for exclusion in exclusions:
        own = _value(over, exclusion.written)
        for path in exclusion.others if own is not None else ():
            other = _value(base, path)
            if other is not None and _value(over, path) is None and exclusion.when(own, other):
                yield path


def unused_cards(base: dict[str, Any], over: dict[str, Any]) -> Iterator[FieldNames]:
    """Yield the fields of ``base`` about cards that ``over`` does not have, if a job with both has no cards."""
    ours, own = base.get("resources") or {}, over.get("resources") or {}
    # A role that is not a mapping is reported by its type.
    roles = (role for role in over.get("roles") or base.get("roles") or () if isinstance(role, dict))
    pods = [{**ours, **own}, *(role.get("resources") or {} for role in roles)]
    if not any(resources.get("gpu") for resources in pods):
        yield from ((*_RESOURCES, name) for name in ("gpu-type", *CARD_FIELDS) if name in ours and name not in own)


def _value(data: Any, path: FieldNames) -> Any:
    """Return the value of a field in nested mappings; None if it is not set."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _either(one: FieldNames, other: FieldNames) -> tuple[Exclusion, Exclusion]:
    """Return the exclusions of two fields of which a document has only one."""
    return Exclusion(one, (other,)), Exclusion(other, (one,))


def _fields(block: FieldNames, *names: str) -> tuple[FieldNames, ...]:
    return tuple((*block, name) for name in names)


def _is_smaller(own: Any, other: Any) -> bool:
    return isinstance(own, int) and isinstance(other, int) and own < other


def _is_as_short(own: Any, other: Any) -> bool:
    return (parse_duration(str(own)) or 0) <= (parse_duration(str(other)) or 0)


def _of_target(target: str, metric: str) -> Iterator[Exclusion]:
    """Yield the exclusions of an autoscaler's target, which needs a metric."""

    def is_other(own: Any, other: Any) -> bool:
        # One of the two is the target.
        return metric not in (own, other)

    yield Exclusion(_METRIC, _fields(_SCALING, target), is_other)
    yield Exclusion((*_SCALING, target), (_METRIC,), is_other)
    yield Exclusion((*_SCALING, target), _fields(_SCALING, *(other for other in _TARGETS if other != target)))


_RESOURCES, _SCALING, _METRIC, _CODE = ("resources",), ("autoscaling",), ("autoscaling", "metric"), ("code",)
_TARGETS = {"targetGPUUtilization": "gpu", "targetCPUUtilization": "cpu", "targetQueueLength": "queue"}
"""Targets of an autoscaler -> the metric that each needs."""
ALTERNATIVES = (
    *_either(("service", "drain"), ("job", "on", "stop")),
    *_either(("service", "timeout"), ("job", "grace")),
    *_either(("job", "checkpoint", "command"), ("job", "checkpoint", "signal")),
    *_either(("job", "retries"), ("array", "retries")),
    *_either(("job", "after"), ("schedule",)),
    *_either(("resources", "topology", "required"), ("resources", "topology", "preferred")),
    *(Exclusion((*_RESOURCES, one), _fields(_RESOURCES, other)) for one, other in permutations(CARD_FIELDS, 2)),
    Exclusion(("resources", "nodes"), _fields(_RESOURCES, "gpu-share"), lambda nodes, _: nodes != 1),
    Exclusion(("resources", "gpu-share"), _fields(_RESOURCES, "nodes")),
    Exclusion(("roles",), _fields(_RESOURCES, "nodes", "gpu-share")),
    Exclusion(("array",), _fields(_RESOURCES, "nodes", "topology")),
    # Topology places several pods.
    Exclusion(("resources", "nodes"), _fields(_RESOURCES, "topology"), lambda nodes, _: nodes == 1),
    Exclusion(("service", "type"), _fields(("service",), "nodePort"), lambda kind, _: kind == "ClusterIP"),
    Exclusion(
        ("service", "protocol"),
        _fields(("service",), "health_check", "liveness", "route"),
        lambda protocol, _: protocol == "UDP",
    ),
    Exclusion((*_CODE, "local"), _fields(_CODE, "git", "ref", "secret", "submodules")),
    Exclusion((*_CODE, "git"), _fields(_CODE, "local", "sha256")),
    *(exclusion for target, metric in _TARGETS.items() for exclusion in _of_target(target, metric)),
    *_either((*_METRIC, "name"), (*_METRIC, "query")),
    Exclusion((*_METRIC, "query"), (*_fields(_METRIC, "external"), *_fields(_SCALING, "targetMemoryUtilization"))),
)
"""Fields of which a document has only one."""
BOUNDS = (
    Exclusion(("notebook", "max_lifetime"), _fields(("notebook",), "stop_after"), _is_as_short),
    # Without pods, only a metric of the service has a value.
    Exclusion(_METRIC, _fields(_SCALING, "minReplicas"), lambda own, least: isinstance(own, str) and least == 0),
    Exclusion((*_SCALING, "maxReplicas"), _fields(_SCALING, "minReplicas"), _is_smaller),
)
"""Values that contradict each other: a default gives way, but two values that users wrote are a mistake."""

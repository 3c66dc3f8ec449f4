"""Fields of a document that exclude each other: of two, the one that is written later replaces the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any, NamedTuple

from gpuctl.frontend.field_shapes import ModelShape, Shape, mapping_shape, value_shape
from gpuctl.language.exclusion_checks import place_of
from gpuctl.language.fields import Block
from gpuctl.language.workload import Workload
from gpuctl.objects.durations import parse_duration

FieldNames = tuple[str, ...]
"""The path of a field in nested blocks."""

CARD_FIELDS = ("gpu-memory", "gpu-profile", "gpu-share")
"""Fields of ``resources``, each of which selects or divides cards in its own way."""


class Contradiction(NamedTuple):
    """A field of a job's document, and the fields whose values may contradict its value.

    ``when``: takes the values of the field and of one of the others, and returns True if they contradict each other.
    """

    written: FieldNames
    others: tuple[FieldNames, ...]
    when: Callable[[Any, Any], bool]


def excluded(
    shape: Shape | None, base: dict[str, Any], over: dict[str, Any], *, bounds: bool = False
) -> Iterator[FieldNames]:
    """Yield the fields of ``base`` that those of ``over`` exclude, unless ``over`` has them too.

    :param shape: the shape of both.
    :param bounds: yield also those of :data:`BOUNDS`.
    """
    known = mapping_shape(shape)
    if isinstance(known, ModelShape):
        yield from _excluded(known.model, base, over)
        if issubclass(known.model, Workload):
            for field, others, when in (*CONTRADICTIONS, *(BOUNDS if bounds else ())):
                own = _value(over, field)
                for path in others if own is not None else ():
                    other = _value(base, path)
                    if other is not None and _value(over, path) is None and when(own, other):
                        yield path
    for name, value in over.items():
        below = base.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            yield from ((name, *path) for path in excluded(value_shape(known, name), below, value))


def _excluded(block: type[Block], base: dict[str, Any], over: dict[str, Any]) -> Iterator[FieldNames]:
    """Yield the fields of ``base`` that those of ``over`` exclude by the rules of their block."""
    for exclusion in block.exclusions:
        own = _written(block, exclusion.written, over)
        if not exclusion.replaces or own is None or exclusion.value not in (None, own):
            continue
        for name in exclusion.others:
            path = tuple(name.split("."))
            if _written(block, name, base) is not None and _value(over, path) is None:
                yield path


def _written(block: type[Block], name: str, data: dict[str, Any]) -> Any:
    """Return the value of a field of a block; None for its default."""
    value = _value(data, tuple(name.split(".")))
    return None if value == place_of(block, name).default else value


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


def _fields(block: FieldNames, *names: str) -> tuple[FieldNames, ...]:
    return tuple((*block, name) for name in names)


def _is_smaller(own: Any, other: Any) -> bool:
    return isinstance(own, int) and isinstance(other, int) and own < other


def _is_as_short(own: Any, other: Any) -> bool:
    return (parse_duration(str(own)) or 0) <= (parse_duration(str(other)) or 0)


def _of_target(target: str, metric: str) -> Iterator[Contradiction]:
    """Yield the contradictions of an autoscaler's target, which needs a metric."""

    def is_other(own: Any, other: Any) -> bool:
        # One of the two is the target.
        return metric not in (own, other)

    yield Contradiction(_METRIC, _fields(_SCALING, target), is_other)
    yield Contradiction((*_SCALING, target), (_METRIC,), is_other)


_RESOURCES, _SCALING, _METRIC = ("resources",), ("autoscaling",), ("autoscaling", "metric")
_TARGETS = {"targetGPUUtilization": "gpu", "targetCPUUtilization": "cpu", "targetQueueLength": "queue"}
"""Targets of an autoscaler -> the metric that each needs."""
CONTRADICTIONS = (
    # Topology places several pods.
    Contradiction(("resources", "nodes"), _fields(_RESOURCES, "topology"), lambda nodes, _: nodes == 1),
    # Only some platforms know the memory of cards, and these divide none.
    *(
        Contradiction((*_RESOURCES, one), _fields(_RESOURCES, other), lambda own, other: True)
        for one, other in permutations(CARD_FIELDS, 2)
        if "gpu-memory" in (one, other)
    ),
    *(found for target, metric in _TARGETS.items() for found in _of_target(target, metric)),
)
"""Values of which a document has only one, besides the exclusions of its blocks."""
BOUNDS = (
    Contradiction(("notebook", "max_lifetime"), _fields(("notebook",), "stop_after"), _is_as_short),
    # Without pods, only a metric of the service has a value.
    Contradiction(_METRIC, _fields(_SCALING, "minReplicas"), lambda own, least: isinstance(own, str) and least == 0),
    Contradiction((*_SCALING, "maxReplicas"), _fields(_SCALING, "minReplicas"), _is_smaller),
)
"""Values that contradict each other: a default gives way, but two values that users wrote are a mistake."""

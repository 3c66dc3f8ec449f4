"""What the binder expects at each place, derived once from the models' annotations."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from gpuctl.language.fields import Block, Invented, Partial, Scalar
from gpuctl.language.kinds import model_of
from gpuctl.language.spelling import fold


@dataclass(slots=True)
class ScalarShape:
    """A single value; ``choices`` when it is one of a closed list."""

    scalar: Scalar
    choices: tuple[str, ...] = ()


@dataclass(slots=True)
class ListShape:
    """A list of one shape."""

    item: Shape


@dataclass(slots=True)
class MapShape:
    """A mapping whose keys users invent."""

    value: Shape


@dataclass(slots=True)
class FreeShape:
    """Any JSON value: somebody else's schema."""


@dataclass(slots=True)
class ModelShape:
    """A mapping with known keys: folded key -> (canonical key, shape)."""

    model: type[Block]
    partial: bool = False
    fields: dict[str, tuple[str, Shape]] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """The canonical keys, in the order of the model."""
        return [key for key, _ in self.fields.values()]


@dataclass(slots=True)
class UnionShape:
    """One of several shapes, told apart by the YAML node's kind."""

    scalar: Shape | None = None
    list: Shape | None = None
    mapping: Shape | None = None


Shape = ScalarShape | ListShape | MapShape | FreeShape | ModelShape | UnionShape


@cache
def kind_shape(kind: str, partial: bool = False) -> ModelShape:
    """The shape of a whole document of a kind."""
    return _model_shape(model_of(kind), partial)


@cache
def _model_shape(model: type[Block], partial: bool) -> ModelShape:
    shape = ModelShape(model, partial)
    for name, info in model.model_fields.items():
        key = info.alias or name
        shape.fields[fold(key)] = (key, _shape(info.annotation, tuple(info.metadata), partial))
    return shape


def _shape(annotation: Any, metadata: tuple[Any, ...], partial: bool) -> Shape:
    for item in metadata:
        if isinstance(item, Partial):
            return kind_shape(item.kind, partial=True)
        if isinstance(item, Scalar):
            return FreeShape() if item is Scalar.FREE else ScalarShape(item)
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _shape(arguments[0], tuple(arguments[1:]), partial)
    if origin in (typing.Union, types.UnionType):
        options = [option for option in arguments if option is not type(None)]
        if len(options) == 1:
            return _shape(options[0], metadata, partial)
        return _union([_shape(option, (), partial) for option in options])
    if origin is Literal:
        return ScalarShape(Scalar.TEXT, tuple(str(choice) for choice in arguments))
    if origin is list:
        return ListShape(_shape(arguments[0], (), partial))
    if origin is dict:
        assert any(isinstance(item, Invented) for item in metadata) or metadata == (), annotation
        return MapShape(_shape(arguments[1], (), partial))
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return _model_shape(annotation, partial)
    raise TypeError(f"no shape for {annotation!r}")


def _union(options: list[Shape]) -> UnionShape:
    union = UnionShape()
    for option in options:
        if isinstance(option, ScalarShape):
            union.scalar = option
        elif isinstance(option, ListShape):
            union.list = option
        else:
            union.mapping = option
    return union

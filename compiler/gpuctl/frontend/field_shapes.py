"""The shapes that the binder expects at each place of a document, derived once from the models' annotations."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any, Literal, NamedTuple

from gpuctl.language.fields import Block, Partial, Scalar, UserKeys
from gpuctl.language.kinds import model_of
from gpuctl.language.spelling import fold

_MOST_SPELLINGS = 256
"""Number of spellings cached per block: a document can contain any number."""


class ScalarShape(NamedTuple):
    """A single value. ``choices``: its allowed values; empty for any."""

    scalar: Scalar
    choices: tuple[str, ...] = ()


TEXT = ScalarShape(Scalar.TEXT)
"""The shape of every field that takes any text. It is a singleton, compared by identity."""


class ListShape(NamedTuple):
    """A list of values of one shape."""

    item: Shape


class MapShape(NamedTuple):
    """A mapping whose keys users choose."""

    value: Shape


class FreeShape:
    """Any JSON value, for a schema that gpuctl does not define."""


class ModelShape(NamedTuple):
    """A mapping with known keys. ``fields``: folded key -> (canonical key, shape). ``spelled``: cache of spellings
    found.
    """

    model: type[Block]
    fields: dict[str, tuple[str, Shape]]
    spelled: dict[str, tuple[str, Shape]]

    def find(self, key: str) -> tuple[str, Shape] | None:
        """Return the canonical key and the shape for a key in any spelling; None if the block does not have it."""
        known = self.spelled.get(key)
        if known is None:
            known = self.fields.get(fold(key))
            if known is not None and len(self.spelled) < _MOST_SPELLINGS:
                self.spelled[key] = known
        return known

    @property
    def keys(self) -> list[str]:
        """The canonical keys, in the order of the model."""
        return [key for key, _ in self.fields.values()]


class PartialShape(NamedTuple):
    """A document of ``kind`` inside another one. It is not expanded: a profile is inside of a document of its kind."""

    kind: str


class UnionShape(NamedTuple):
    """One of several shapes, distinguished by the kind of the YAML node."""

    scalar: Shape | None = None
    list: Shape | None = None
    mapping: Shape | None = None


Shape = ScalarShape | ListShape | MapShape | FreeShape | ModelShape | PartialShape | UnionShape


def value_shape(shape: Shape | None, key: str) -> Shape | None:
    """Return the shape of a mapping's value; None if the mapping's shape has no such key, or is unknown."""
    if isinstance(shape, ModelShape):
        found = shape.find(key)
        return found[1] if found is not None else None
    if isinstance(shape, MapShape):
        return shape.value
    return shape if isinstance(shape, FreeShape) else None


@cache
def kind_shape(kind: str) -> ModelShape:
    """Return the shape of a whole document of a kind."""
    return _model_shape(model_of(kind))


@cache
def _model_shape(model: type[Block]) -> ModelShape:
    shape = ModelShape(model, {}, {})
    for name, info in model.model_fields.items():
        key = info.alias or name
        shape.fields[fold(key)] = (key, _shape(info.annotation, tuple(info.metadata)))
    return shape


def _shape(annotation: Any, metadata: tuple[Any, ...]) -> Shape:
    for item in metadata:
        if isinstance(item, Partial):
            return PartialShape(item.kind)
        if isinstance(item, Scalar):
            return FreeShape() if item is Scalar.FREE else TEXT if item is Scalar.TEXT else ScalarShape(item)
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _shape(arguments[0], tuple(arguments[1:]))
    if origin in (typing.Union, types.UnionType):
        options = [option for option in arguments if option is not type(None)]
        if len(options) == 1:
            return _shape(options[0], metadata)
        return _union([_shape(option, ()) for option in options])
    if origin is Literal:
        return ScalarShape(Scalar.TEXT, tuple(str(choice) for choice in arguments))
    if origin is list:
        return ListShape(_shape(arguments[0], ()))
    if origin is dict:
        assert any(isinstance(item, UserKeys) for item in metadata) or metadata == (), annotation
        return MapShape(_shape(arguments[1], ()))
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return _model_shape(annotation)
    raise TypeError(f"no shape for {annotation!r}")


def _union(options: list[Shape]) -> UnionShape:
    scalar = next((option for option in options if isinstance(option, ScalarShape)), None)
    listed = next((option for option in options if isinstance(option, ListShape)), None)
    mapping = next((option for option in options if not isinstance(option, (ScalarShape, ListShape))), None)
    return UnionShape(scalar, listed, mapping)

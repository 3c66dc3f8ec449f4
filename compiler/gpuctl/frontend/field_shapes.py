"""The shapes that the binder expects at each place of a document, derived once from their forms of value."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from gpuctl.language.fields import Block, Scalar
from gpuctl.language.kinds import model_of
from gpuctl.language.spelling import fold
from gpuctl.language.value_forms import ValueForm, form_of, keys_of


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
    """A mapping with known keys. ``fields``: folded key -> (canonical key, shape)."""

    model: type[Block]
    fields: dict[str, tuple[str, Shape]]

    def find(self, key: str) -> tuple[str, Shape] | None:
        """Return the canonical key and the shape for a key in any spelling; None if the block does not have it."""
        return self.fields.get(fold(key))

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


def mapping_shape(shape: Shape | None) -> Shape | None:
    """Return the shape of a value that is a mapping, if the shape is a union or that of a partial document."""
    if isinstance(shape, UnionShape):
        shape = shape.mapping
    return kind_shape(shape.kind) if isinstance(shape, PartialShape) else shape


def value_shape(shape: Shape | None, step: str | int) -> Shape | None:
    """Return the shape of a value in a mapping or a list; None if it has no such key, or is unknown."""
    if isinstance(step, int):
        listed = shape.list if isinstance(shape, UnionShape) else shape
        return listed.item if isinstance(listed, ListShape) else listed if isinstance(listed, FreeShape) else None
    shape = mapping_shape(shape)
    if isinstance(shape, ModelShape):
        found = shape.find(step)
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
    shape = ModelShape(model, {})
    for key, _ in keys_of(model):
        shape.fields[fold(key)] = (key, _shape(form_of(model, key)))
    return shape


def _shape(form: ValueForm) -> Shape:
    """Return the shape of a form; of a union, one for each kind of YAML node."""
    scalar: ScalarShape | None = None
    listed: ListShape | None = None
    mapping: Shape | None = None
    if form.single is not None:
        own = ScalarShape(form.single.scalar, form.single.choices)
        scalar = TEXT if own == TEXT else own
    if form.item is not None:
        listed = ListShape(_shape(form.item))
    if form.block is not None:
        mapping = _model_shape(form.block)
    elif form.partial is not None:
        mapping = PartialShape(form.partial)
    elif form.value is not None:
        mapping = MapShape(_shape(form.value))
    elif form.free:
        mapping = FreeShape()
    options = [option for option in (scalar, listed, mapping) if option is not None]
    return options[0] if len(options) == 1 else UnionShape(scalar, listed, mapping)

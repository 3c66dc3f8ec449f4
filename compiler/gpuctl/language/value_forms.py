"""The forms of value allowed at each place of a document, derived from the models' annotations, and their names."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from pydantic.fields import FieldInfo

from gpuctl.language import amount_fields
from gpuctl.language.fields import Block, Check, Partial, Scalar

_UNBOUNDED = (-(2**31), 2**31 - 1)

Checks = tuple[Callable[..., Any], ...]


@dataclass(frozen=True, slots=True)
class SingleValue:
    """A single value: its scalar type, the checks of its text and what they call it, its choices and its range."""

    scalar: Scalar
    checks: Checks = ()
    name: str = ""
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None


class Size(NamedTuple):
    """The least and the greatest number of entries; None: no limit."""

    minimum: int | None = None
    maximum: int | None = None


_ANY_SIZE = Size()


@dataclass(frozen=True, slots=True)
class ValueForm:
    """The values allowed at one place of a document. A union sets several of: single value, list, mapping.

    A mapping is a ``block`` with known keys, the ``partial`` document of a kind, a mapping from user-chosen ``key`` to
    ``value``, or ``free``: a schema that gpuctl does not define. ``list_size`` and ``mapping_size``: of a list, and of
    a mapping with user-chosen keys.
    """

    single: SingleValue | None = None
    item: ValueForm | None = None
    block: type[Block] | None = None
    partial: str | None = None
    key: SingleValue | None = None
    value: ValueForm | None = None
    free: bool = False
    list_size: Size = _ANY_SIZE
    mapping_size: Size = _ANY_SIZE


def keys_of(model: type[Block]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the canonical keys of a block with their fields, in the order of the model."""
    for name, info in model.model_fields.items():
        yield info.alias or name, info


@cache
def form_of(model: type[Block], key: str) -> ValueForm:
    """Return the values allowed for a field of a block."""
    info = dict(keys_of(model))[key]
    return _form(info.annotation, tuple(info.metadata))


def _form(annotation: Any, metadata: tuple[Any, ...]) -> ValueForm:
    for item in metadata:
        if isinstance(item, Partial):
            return ValueForm(partial=item.kind)
    if Scalar.FREE in metadata:
        return ValueForm(free=True)
    if any(isinstance(item, Scalar) for item in metadata):
        return ValueForm(single=_single(metadata))
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin is typing.Annotated:
        return _form(arguments[0], (*metadata, *_unpacked(arguments[1:])))
    if origin in (typing.Union, types.UnionType):
        options = [_form(option, metadata) for option in arguments if option is not type(None)]
        return _merged(options)
    if origin is Literal:
        return ValueForm(single=SingleValue(Scalar.TEXT, choices=tuple(str(choice) for choice in arguments)))
    if origin is list:
        return ValueForm(item=_form(arguments[0], ()), list_size=_size(metadata))
    if origin is dict:
        key, value = _form(arguments[0], ()).single, _form(arguments[1], ())
        return ValueForm(key=key, value=value, mapping_size=_size(metadata))
    if isinstance(annotation, type) and issubclass(annotation, Block):
        return ValueForm(block=annotation)
    raise TypeError(f"no form for {annotation!r}")


def _unpacked(metadata: Iterable[Any]) -> Iterator[Any]:
    """Yield the metadata of ``Annotated``, with ``Field(ge=...)`` replaced by the constraints it stands for."""
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from item.metadata
        else:
            yield item


def _single(metadata: tuple[Any, ...]) -> SingleValue:
    scalar = next(item for item in metadata if isinstance(item, Scalar))
    checks = [item for item in metadata if isinstance(item, Check)]
    name = checks[-1].name if checks else ""
    lower = [item.ge for item in metadata if hasattr(item, "ge")]
    upper = [item.le for item in metadata if hasattr(item, "le")]
    least, most = max(lower, default=None), min(upper, default=None)
    return SingleValue(scalar, tuple(item.func for item in checks), name, minimum=least, maximum=most)


def _size(metadata: tuple[Any, ...]) -> Size:
    least = [item.min_length for item in metadata if hasattr(item, "min_length")]
    most = [item.max_length for item in metadata if hasattr(item, "max_length")]
    return Size(max(least, default=None), min(most, default=None))


def _merged(options: list[ValueForm]) -> ValueForm:
    """Return a union as one form: its options differ in the kind of their YAML node."""
    merged = options[0]
    for option in options[1:]:
        merged = ValueForm(
            option.single or merged.single,
            option.item or merged.item,
            option.block or merged.block,
            option.partial or merged.partial,
            option.key or merged.key,
            option.value or merged.value,
            option.free or merged.free,
            option.list_size if option.item else merged.list_size,
            option.mapping_size if option.value else merged.mapping_size,
        )
    return merged


def checks_of(alias: Any) -> Checks:
    """Return the checks of one of the types of :mod:`gpuctl.language.fields`. They identify the type."""
    return tuple(item.func for item in typing.get_args(alias) if isinstance(item, Check))


QUANTITIES = tuple(
    checks_of(alias)
    for alias in (amount_fields.Quantity, amount_fields.PositiveQuantity, amount_fields.Memory, amount_fields.Share)
)


def type_name(form: ValueForm) -> str:
    """Return a type in words: ``list of text``, ``whole number >= 0``, ``one of high, medium, low``."""
    names = []
    if form.single is not None:
        names.append(_single_name(form.single))
    if form.item is not None:
        names.append(f"list of {_plural(type_name(form.item))}")
    if form.block is not None:
        names.append("block")
    if form.partial is not None:
        names.append(f"partial {form.partial} document")
    if form.key is not None and form.value is not None:
        key, value = _plural(_single_name(form.key)), _plural(type_name(form.value))
        names.append(f"mapping of {key} to {value}")
    if form.free:
        names.append("partial PodSpec")
    return " or ".join(names)


def _single_name(single: SingleValue) -> str:
    if single.choices:
        shown = ", ".join(choice or '""' for choice in single.choices)
        return f"one of {shown}" if len(single.choices) > 1 else f"the text {shown}"
    if single.scalar is Scalar.TEXT:
        return single.name
    if single.scalar is Scalar.BOOLEAN:
        return "true or false"
    noun = "whole number" if single.scalar is Scalar.INTEGER else "number"
    lower = None if single.minimum == _UNBOUNDED[0] else single.minimum
    upper = None if single.maximum == _UNBOUNDED[1] else single.maximum
    if lower is not None and upper is not None:
        return f"{noun} from {lower} to {upper}" if lower != upper else f"the number {lower}"
    if lower is not None:
        return f"{noun} >= {lower:g}"
    return noun if upper is None else f"{noun} <= {upper}"


def _plural(name: str) -> str:
    head, space, rest = name.partition(" that ")
    if head == "text" or not head[-1].isalpha() or " or " in head or head.endswith("s") or head.startswith("one of "):
        return name
    return f"{head}s{space}{rest.replace('is not', 'are not')}"

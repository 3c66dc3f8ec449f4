"""Values of use cases as JSON and back, between the service and the command line as its client.

Rows, details and plans are dataclasses and named tuples, and their fields are the format. The other side may be a
little older or newer: in an answer unknown fields are ignored, and missing ones have their defaults or are None. In a
question an unknown field is refused unless its value is empty.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import types
from collections.abc import Collection, Mapping
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gpuctl.language.wording import visible

Value = TypeVar("Value")
_NAMES: dict[str, Any] = {}


class NotOfThisForm(ValueError):
    """What came is no value of the type that was expected: whoever sent it is of another version."""


def encode(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if dataclasses.is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: encode(getattr(value, name)) for name in value._fields}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(encode(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def decode(kind: type[Value], value: Any, *, asks: bool = False) -> Value:
    """Return the value of a type from its JSON: the inverse of :func:`encode`.

    :param asks: the value is part of a question, so no field of it may be ignored.
    :raises NotOfThisForm: the JSON does not have the form of the type.
    """
    if asks:
        _refuse_unknown(kind, value)
    found: Value = _decode(kind, value)
    return found


def refuse_unknown_fields(value: Mapping[str, Any], known: Collection[str]) -> None:
    """See that what is not known asks for nothing: it is null, false, 0 or empty.

    :raises NotOfThisForm: it asks for something.
    """
    for name, item in value.items():
        if name not in known and item:
            raise NotOfThisForm(f"`{visible(name)[:63]}` is not known")


def _refuse_unknown(kind: Any, value: Any) -> None:
    """See the same of a record, and of the records in it."""
    for item in get_args(kind):
        _refuse_unknown(item, value)
    if isinstance(value, list):
        for item in value:
            _refuse_unknown(kind, item)
    if _is_record(kind) and isinstance(value, dict):
        hints = _hints(kind)
        refuse_unknown_fields(value, _fields(kind))
        for name in set(value) & set(hints):
            _refuse_unknown(hints[name], value[name])


def _decode(kind: Any, value: Any) -> Any:
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin is Union or origin is types.UnionType:
        return _decode_union(get_args(kind), value)
    if origin is Literal:
        return _expected(value in get_args(kind), value)
    if kind is type(None):
        return _expected(value is None, value)
    if kind is float:
        return float(_expected(isinstance(value, (int, float)) and not isinstance(value, bool), value))
    if kind is int:
        return _expected(isinstance(value, int) and not isinstance(value, bool), value)
    if kind in (str, bool):
        return _expected(isinstance(value, kind), value)
    if kind is bytes:
        return _bytes(value)
    if kind is Fraction:
        return _fraction(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _member(kind, value)
    if origin in (list, set, frozenset, tuple):
        return _decode_items(origin, get_args(kind), value)
    if origin is not None and issubclass(origin, Mapping):
        _expected(isinstance(value, dict), value)
        return {key: _decode(get_args(kind)[1], item) for key, item in value.items()}
    if _is_record(kind):
        return _decode_fields(kind, value)
    return _decode_items(list, (Any,), value) if origin is not None else _expected(isinstance(value, kind), value)


def _decode_union(kinds: tuple[Any, ...], value: Any) -> Any:
    for kind in sorted(kinds, key=lambda kind: kind is not type(None)):
        try:
            return _decode(kind, value)
        except NotOfThisForm:
            continue
    raise NotOfThisForm(f"{type(value).__name__} is none of what was expected")


def _decode_items(origin: Any, kinds: tuple[Any, ...], value: Any) -> Any:
    _expected(isinstance(value, list), value)
    if origin is tuple and not (len(kinds) == 2 and kinds[1] is Ellipsis):
        _expected(len(kinds) == len(value), value)
        return tuple(_decode(kind, item) for kind, item in zip(kinds, value, strict=True))
    return origin(_decode(kinds[0], item) for item in value)


def _decode_fields(kind: Any, value: Any) -> Any:
    _expected(isinstance(value, dict), value)
    hints, defaults, found = _hints(kind), _defaults(kind), dict[str, Any]()
    for name in _fields(kind):
        if name in value:
            found[name] = _decode(hints[name], value[name])
        elif name not in defaults:
            if type(None) not in get_args(hints[name]):
                raise NotOfThisForm(f"`{name}` is missing")
            found[name] = None
    return kind(**found)


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"))


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    found: tuple[str, ...] = kind._fields
    return found


@cache
def _defaults(kind: Any) -> frozenset[str]:
    """The fields that need not be given."""
    if not dataclasses.is_dataclass(kind):
        return frozenset(kind._field_defaults)
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return frozenset(item.name for item in fields if (item.default, item.default_factory) != (missing, missing))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, localns=_NAMES)


def know(*kinds: type) -> None:
    """Have types found by their names that modules import for annotations alone."""
    _NAMES.update({kind.__name__: kind for kind in kinds})


def _fraction(value: Any) -> Fraction:
    try:
        return Fraction(_expected(isinstance(value, str), value))
    except (ValueError, ZeroDivisionError):
        raise NotOfThisForm("it is no number") from None


def _member(kind: type[Enum], value: Any) -> Enum:
    try:
        return kind(value)
    except ValueError:
        raise NotOfThisForm(f"it is no {kind.__name__}") from None


def _bytes(value: Any) -> bytes:
    try:
        return base64.b64decode(_expected(isinstance(value, str), value), validate=True)
    except (binascii.Error, ValueError):
        raise NotOfThisForm("it is no text in base64") from None


def _expected(holds: bool, value: Any) -> Any:
    if not holds:
        raise NotOfThisForm(f"a value that is {type(value).__name__} was not expected")
    return value

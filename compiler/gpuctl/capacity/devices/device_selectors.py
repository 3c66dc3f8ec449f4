"""Selectors of devices in CEL: the common forms, evaluated for one device.

An expression outside these forms, or one that fails for a device, has no value here: the caller must treat the match as
unknown. Source: ``k8s.io/dynamic-resource-allocation/cel/compile.go`` (variables), ``apiserver/pkg/cel/library``
(``quantity``, ``semver``).
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object
from gpuctl.objects.quantities import quantity

_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\\n]|\\["\\])*"|'(?:[^'\\\n]|\\['\\])*')|(?P<number>\d+)(?![\w.])"""
    r"""|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||[=!<>]=|[<>!()\[\],.-]))""",
    re.ASCII,
)
_SEMVER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
# Patterns that RE2 and Python read alike.
_PLAIN_PATTERN = re.compile(r"[\w .^$*+?|\[\]/-]*", re.ASCII)
# More of them could take Python minutes.
_MOST_REPEATS = 4
_LONGEST = 2000
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RESERVED = frozenset({"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"})


class UnknownMatch(ValueError):
    """The expression is outside the evaluated forms, or fails for a device."""


def _unknown(text: str) -> UnknownMatch:
    """Return the error for a part of an expression that is not evaluated."""
    return UnknownMatch(say("`{text}` is not evaluated", text=text))


class _Quantity(NamedTuple):
    value: Fraction


class _Version(NamedTuple):
    major: int
    minor: int
    patch: int


_Node = tuple[Any, ...]


def selector_of_device(expression: str, driver: str, device: Object) -> bool:
    """Return True if a selector matches a device (``attributes``, ``capacity``) of a driver.

    :raises UnknownMatch: the result is unknown.
    """
    found = _value(_parsed(expression), _variables(driver, device))
    if not isinstance(found, bool):
        raise UnknownMatch(say("`{text}` is not a condition", text=expression))
    return found


def _variables(driver: str, device: Object) -> Mapping[str, Any]:
    attributes: dict[str, dict[str, Any]] = {}
    for name, value in (device.get("attributes") or {}).items():
        _put(attributes, driver, name, _attribute(value))
    capacity: dict[str, dict[str, Any]] = {}
    for name, amount in (device.get("capacity") or {}).items():
        _put(capacity, driver, name, _Quantity(quantity(amount)))
    return {"driver": driver, "attributes": attributes, "capacity": capacity}


def _put(found: dict[str, dict[str, Any]], driver: str, name: str, value: Any) -> None:
    """Add a value by domain and identifier; a name without domain has the driver's (parseQualifiedName)."""
    domain, _, identifier = name.rpartition("/")
    found.setdefault(domain or driver, {})[identifier] = value


def _attribute(value: Object) -> Any:
    if "version" in value:
        return _version(value["version"])
    return next((value[kind] for kind in ("string", "int", "bool") if kind in value), None)


def _version(text: str) -> _Version | None:
    match = _SEMVER.fullmatch(text)
    return _Version(*map(int, match.groups())) if match else None


class _Parser:
    """A parser for the forms that are evaluated."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _unknown(text[at : at + 20])
            self._tokens.append((str(match.lastgroup), str(match[str(match.lastgroup)])))
            at = match.end()
        self._tokens.append(("end", ""))
        self._at = 0

    def whole(self) -> _Node:
        found = self._either()
        if self._tokens[self._at][0] != "end":
            raise _unknown(self._tokens[self._at][1])
        return found

    def _next(self, *signs: str) -> str:
        """Consume and return the next sign if it is one of these, otherwise return ""."""
        kind, text = self._tokens[self._at]
        if (kind == "sign" or text == "in") and text in signs:
            self._at += 1
            return text
        return ""

    def _expect(self, sign: str) -> None:
        if not self._next(sign):
            raise _unknown(self._tokens[self._at][1])

    def _either(self) -> _Node:
        found = self._both()
        while self._next("||"):
            found = ("or", found, self._both())
        return found

    def _both(self) -> _Node:
        found = self._relation()
        while self._next("&&"):
            found = ("and", found, self._relation())
        return found

    def _relation(self) -> _Node:
        found = self._unary()
        while sign := self._next("==", "!=", "<", "<=", ">", ">=", "in"):
            found = (sign, found, self._unary())
        return found

    def _unary(self) -> _Node:
        if self._next("!"):
            return ("not", self._unary())
        if self._next("-"):
            kind, text = self._tokens[self._at]
            if kind != "number":
                raise _unknown("-")
            self._at += 1
            return ("literal", -int(text))
        return self._member()

    def _member(self) -> _Node:
        found = self._primary()
        while sign := self._next(".", "["):
            if sign == "[":
                found = ("index", found, self._either())
                self._expect("]")
                continue
            name = self._name()
            found = (
                ("call", name, found, *self._arguments()) if self._next("(") else ("index", found, ("literal", name))
            )
        return found

    def _primary(self) -> _Node:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "text":
            inner = text[1:-1]
            return ("literal", re.sub(r"\\(.)", r"\1", inner))
        if kind == "number":
            return ("literal", int(text))
        if text == "(":
            found = self._either()
            self._expect(")")
            return found
        if text == "[":
            return ("list", *self._arguments("]"))
        if text in ("true", "false"):
            return ("literal", text == "true")
        if text == "device":
            return ("device",)
        if kind == "name" and self._next("("):
            return ("call", text, None, *self._arguments())
        raise _unknown(text)

    def _name(self) -> str:
        kind, text = self._tokens[self._at]
        if kind != "name" or text in _RESERVED:
            raise _unknown(text)
        self._at += 1
        return text

    def _arguments(self, end: str = ")") -> list[_Node]:
        found: list[_Node] = []
        while not self._next(end):
            if found:
                self._expect(",")
            found.append(self._either())
        return found


@lru_cache(maxsize=1024)
def _parsed(expression: str) -> _Node:
    if len(expression) > _LONGEST:
        raise UnknownMatch(say("the expression is too long to be evaluated"))
    return _Parser(expression).whole()


def _value(node: _Node, device: Mapping[str, Any]) -> Any:
    kind, *parts = node
    if kind == "literal":
        return parts[0]
    if kind == "device":
        return device
    if kind == "list":
        return [_value(part, device) for part in parts]
    if kind in ("and", "or"):
        return _joined(kind == "or", parts, device)
    if kind == "call":
        return _call(parts[0], parts[1], parts[2:], device)
    values = [_value(part, device) for part in parts]
    if kind == "not":
        return _typed(values[0], bool) is False
    if kind == "index":
        return _member_of(*values, is_domain=any(values[0] is device[name] for name in ("attributes", "capacity")))
    return _compared(kind, *values)


def _joined(wanted: bool, parts: list[_Node], device: Mapping[str, Any]) -> bool:
    """Return ``||`` (``wanted``: True) or ``&&`` of two parts. An error in one part does not matter if the other
    decides.
    """
    problem: UnknownMatch | None = None
    for part in parts:
        try:
            found: bool = _typed(_value(part, device), bool)
            if found is wanted:
                return found
        except UnknownMatch as error:
            problem = error
    if problem is not None:
        raise problem
    return not wanted


def _member_of(value: Any, key: Any, *, is_domain: bool) -> Any:
    if isinstance(value, Mapping) and isinstance(key, str):
        # An unknown domain has an empty map; an unknown attribute is an error.
        found = value.get(key, {} if is_domain else None)
        if found is not None:
            return found
    raise UnknownMatch(say("there is no {name}", name=json.dumps(key, default=str)))


def _compared(sign: str, left: Any, right: Any) -> bool:
    if sign == "in":
        if isinstance(right, Mapping):
            return bool(_typed(left, str) in right)
        return any(_equal(left, item) for item in _typed(right, list))
    if sign in ("==", "!="):
        return _equal(left, right) is (sign == "==")
    if type(left) is not type(right) or not isinstance(left, (int, str)) or isinstance(left, bool):
        raise UnknownMatch(say("`{text}` is not evaluated for these values", text=sign))
    return _COMPARISONS[sign](left, right)


def _equal(left: Any, right: Any) -> bool:
    if type(left) is not type(right) or isinstance(left, (list, Mapping)):
        raise UnknownMatch(say("values of different types are not compared"))
    return bool(left == right)


def _call(name: str, target: _Node | None, arguments: list[_Node], device: Mapping[str, Any]) -> Any:
    if target is None and name == "has" and len(arguments) == 1 and arguments[0][0] == "index":
        _, place, key = arguments[0]
        return _typed(_value(key, device), str) in _typed(_value(place, device), Mapping)
    values = [_value(argument, device) for argument in arguments]
    if target is None and len(values) == 1 and isinstance(values[0], str):
        if name == "quantity":
            try:
                return _Quantity(quantity(values[0]))
            except ValueError:
                raise UnknownMatch(say("`{text}` is not a quantity", text=values[0])) from None
        found = _version(values[0]) if name == "semver" else None
        if found is not None:
            return found
    own = None if target is None else _value(target, device)
    if isinstance(own, str):
        return _text_method(own, name, values)
    if isinstance(own, (_Quantity, _Version)) and len(values) == 1 and type(values[0]) is type(own):
        left, right = tuple(own), tuple(values[0])
        order = (left > right) - (left < right)
        results = {"compareTo": order, "isGreaterThan": order > 0, "isLessThan": order < 0}
        if name in results:
            return results[name]
    raise _unknown(name)


def _text_method(own: str, name: str, values: list[Any]) -> Any:
    if not values and name in ("lowerAscii", "upperAscii") and own.isascii():
        return own.lower() if name == "lowerAscii" else own.upper()
    if len(values) == 1 and isinstance(values[0], str):
        other = values[0]
        if name in ("startsWith", "endsWith"):
            return own.startswith(other) if name == "startsWith" else own.endswith(other)
        if name == "contains":
            return other in own
        repeats = sum(map(other.count, "*+?"))
        if name == "matches" and repeats <= _MOST_REPEATS and _PLAIN_PATTERN.fullmatch(other):
            try:
                return re.search(other, own, re.ASCII) is not None
            except re.error:
                raise _unknown(other) from None
    raise _unknown(name)


def _typed(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind):
        raise UnknownMatch(say("a value has another type"))
    return value

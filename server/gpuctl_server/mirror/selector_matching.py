"""Selectors as they stand in a query: of labels, and of fields."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.selectors import holds

_SET = re.compile(r"(?P<key>[^\s!=(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s!=(),]+)\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s!=(),]*)")
_EXISTS = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=(),]+)")
# Of fields no blanks are taken off, and a backslash would mean what comes after it.
_FIELD = re.compile(r"(?P<key>[^\s!=(),\\]+)(?P<operator>==|!=|=)(?P<value>[^\s!=(),\\]*)")
_COMMA = re.compile(r",(?![^(]*\))")


class NotASelector(ValueError):
    """Text that is no selector."""


class LabelSelector:
    """A selector of labels, as ``labelSelector`` has it: ``app=chat,tier in (a,b),!old``.

    Source: ``apimachinery/pkg/labels/selector.go``.

    :raises NotASelector: it is none.
    """

    def __init__(self, text: str) -> None:
        self.requirements = [_requirement(part.strip()) for part in _COMMA.split(text)] if text.strip() else []

    def matches(self, obj: Object) -> bool:
        """Whether an object's labels meet every requirement."""
        labels = labels_of(obj)
        return all(holds(requirement, labels) for requirement in self.requirements)

    def one_of(self, key: str) -> tuple[str, ...] | None:
        """The values that a label is to have one of; None when it may have any."""
        for requirement in self.requirements:
            if requirement["key"] == key and requirement["operator"] == "In":
                return tuple(requirement["values"])
        return None

    def demands(self, key: str) -> bool:
        """Whether it selects nothing that lacks a label."""
        return any(item["key"] == key and item["operator"] in ("Exists", "In") for item in self.requirements)


class FieldSelector:
    """A selector of fields, as ``fieldSelector`` has it: ``status.phase!=Failed,spec.nodeName=n1``.

    :raises NotASelector: it is none.
    """

    def __init__(self, text: str) -> None:
        self.requirements: list[tuple[str, str, str]] = []
        for part in filter(None, text.split(",")):
            match = _FIELD.fullmatch(part)
            if match is None:
                raise NotASelector(f"`{part}` is no requirement of a field")
            self.requirements.append((match["key"], match["operator"].replace("==", "="), match["value"]))

    def matches(self, obj: Object) -> bool:
        """Whether an object's fields meet every requirement."""
        return all((_field(obj, path) == value) == (sign == "=") for path, sign, value in self.requirements)

    def value(self, path: str) -> str | None:
        """What a field has to be; None when it may be anything."""
        return next((value for key, sign, value in self.requirements if key == path and sign == "="), None)


def _requirement(text: str) -> dict[str, Any]:
    match = _SET.fullmatch(text)
    if match:
        operator = {"in": "In", "notin": "NotIn"}[match["operator"]]
        return {"key": match["key"], "operator": operator, "values": _values(match["values"].split(","))}
    match = _EQUAL.fullmatch(text)
    if match:
        return {
            "key": match["key"],
            "operator": "NotIn" if match["operator"] == "!=" else "In",
            "values": [match["value"]],
        }
    match = _EXISTS.fullmatch(text)
    if match:
        return {"key": match["key"], "operator": "DoesNotExist" if match["absent"] else "Exists"}
    raise NotASelector(f"`{text}` is no requirement of a label")


def _values(texts: Iterable[str]) -> list[str]:
    return [text.strip() for text in texts]


def _field(obj: Object, path: str) -> str:
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return "" if found is None else str(found)

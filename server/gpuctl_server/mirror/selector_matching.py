"""Label selectors and field selectors of list requests, matched against objects."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.selectors import requirement_matches

_SET = re.compile(r"(?P<key>[^\s!=(),]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s!=(),]+)\s*(?P<operator>==|!=|=)\s*(?P<value>[^\s!=(),]*)")
_EXISTS = re.compile(r"(?P<absent>!?)\s*(?P<key>[^\s!=(),]+)")
# Field selectors are not trimmed, and a backslash would escape the next character.
_FIELD = re.compile(r"(?P<key>[^\s!=(),\\]+)(?P<operator>==|!=|=)(?P<value>[^\s!=(),\\]*)")
_COMMA = re.compile(r",(?![^(]*\))")


class NotASelector(ValueError):
    """A text is not a valid selector."""


class LabelSelector:
    """A label selector in the syntax of ``labelSelector``: ``app=chat,tier in (a,b),!old``.

    Source: ``apimachinery/pkg/labels/selector.go``.

    :raises NotASelector: the text is invalid.
    """

    def __init__(self, text: str) -> None:
        self.requirements = [_requirement(part.strip()) for part in _COMMA.split(text)] if text.strip() else []

    def matches(self, obj: Object) -> bool:
        """Return True if the labels of an object meet every requirement."""
        labels = labels_of(obj)
        return all(requirement_matches(requirement, labels) for requirement in self.requirements)

    def one_of(self, key: str) -> tuple[str, ...] | None:
        """Return the values that a label is limited to; None without a limit."""
        for requirement in self.requirements:
            if requirement["key"] == key and requirement["operator"] == "In":
                return tuple(requirement["values"])
        return None

    def demands(self, key: str) -> bool:
        """Return True if all selected objects have a label."""
        return any(item["key"] == key and item["operator"] in ("Exists", "In") for item in self.requirements)


class FieldSelector:
    """A field selector in the syntax of ``fieldSelector``: ``status.phase!=Failed,spec.nodeName=n1``.

    :raises NotASelector: the text is invalid.
    """

    def __init__(self, text: str) -> None:
        self.requirements: list[tuple[str, str, str]] = []
        for part in filter(None, text.split(",")):
            match = _FIELD.fullmatch(part)
            if match is None:
                raise NotASelector(say("`{text}` is not a requirement of a field selector", text=part))
            self.requirements.append((match["key"], match["operator"].replace("==", "="), match["value"]))

    def matches(self, obj: Object) -> bool:
        """Return True if the fields of an object meet every requirement."""
        return all((_field(obj, path) == value) == (sign == "=") for path, sign, value in self.requirements)

    def value(self, path: str) -> str | None:
        """Return the value that a field must have; None without such a requirement."""
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
    raise NotASelector(say("`{text}` is not a requirement of a label selector", text=text))


def _values(texts: Iterable[str]) -> list[str]:
    return [text.strip() for text in texts]


def _field(obj: Object, path: str) -> str:
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return "" if found is None else str(found)

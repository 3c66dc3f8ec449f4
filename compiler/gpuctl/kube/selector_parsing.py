"""Label selectors as text, as in ``kubectl -l``.

Source: ``apimachinery/pkg/labels/selector.go``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from gpuctl.language.display_text import shorten
from gpuctl.language.names import is_label_value, is_qualified_name
from gpuctl.language.sentences import Sentence, say
from gpuctl.objects.api_resources import Object, labels_of
from gpuctl.objects.selectors import requirement_matches

_WORD = r"[^\s!=(),<>]"
_SET = rf"(?P<key>{_WORD}+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"
_EQUAL = rf"(?P<key>{_WORD}+)\s*(?P<operator>==|!=|=)\s*(?P<value>{_WORD}*)"
_COMPARED = rf"(?P<key>{_WORD}+)\s*(?P<operator>[<>])\s*(?P<value>[0-9]{{1,18}})"
_EXISTS = rf"(?P<absent>!?)\s*(?P<key>{_WORD}+)"
_COMMA = r",(?![^(]*\))"


class InvalidSelector(ValueError):
    """A text is not a valid selector; ``str()`` is a message for the user."""


class LabelSelector:
    """A label selector: ``app=chat,tier in (a,b),!old``.

    :raises InvalidSelector: the API server would reject the text.
    """

    def __init__(self, text: str) -> None:
        self.requirements = [_requirement(part.strip()) for part in re.split(_COMMA, text)] if text.strip() else []

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


def _requirement(text: str) -> dict[str, Any]:
    if match := re.fullmatch(_SET, text):
        values = [value.strip() for value in match["values"].split(",")]
        return _checked(match["key"], {"in": "In", "notin": "NotIn"}[match["operator"]], values)
    if match := re.fullmatch(_EQUAL, text):
        return _checked(match["key"], "NotIn" if match["operator"] == "!=" else "In", [match["value"]])
    if match := re.fullmatch(_COMPARED, text):
        return _checked(match["key"], "Gt" if match["operator"] == ">" else "Lt", [match["value"]])
    if match := re.fullmatch(_EXISTS, text):
        return _checked(match["key"], "DoesNotExist" if match["absent"] else "Exists")
    raise _invalid(say("`{text}` is not a requirement of a label selector", text=shorten(text)))


def _checked(key: str, operator: str, values: Iterable[str] | None = None) -> dict[str, Any]:
    if not is_qualified_name(key):
        raise _invalid(say("`{key}` is not a legal label key", key=shorten(key)))
    if values is None:
        return {"key": key, "operator": operator}
    for value in values:
        if not is_label_value(value):
            raise _invalid(say("`{value}` is not a legal label value", value=shorten(value)))
    return {"key": key, "operator": operator, "values": values}


def _invalid(problem: Sentence) -> InvalidSelector:
    return InvalidSelector(
        say("{problem}; a label selector is, for example, `app=chat,tier in (a,b),!old`", problem=problem)
    )

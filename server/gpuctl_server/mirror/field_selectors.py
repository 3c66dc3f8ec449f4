"""Field selectors of list requests, matched against objects."""

from __future__ import annotations

import re
from typing import Any

from gpuctl.kube.selector_parsing import InvalidSelector
from gpuctl.language.sentences import say
from gpuctl.objects.api_resources import Object

# Field selectors are not trimmed, and a backslash would escape the next character.
_FIELD = re.compile(r"(?P<key>[^\s!=(),\\]+)(?P<operator>==|!=|=)(?P<value>[^\s!=(),\\]*)")


class FieldSelector:
    """A field selector in the syntax of ``fieldSelector``: ``status.phase!=Failed,spec.nodeName=n1``.

    :raises InvalidSelector: the text is invalid.
    """

    def __init__(self, text: str) -> None:
        self.requirements: list[tuple[str, str, str]] = []
        for part in filter(None, text.split(",")):
            match = _FIELD.fullmatch(part)
            if match is None:
                raise InvalidSelector(say("`{text}` is not a requirement of a field selector", text=part))
            self.requirements.append((match["key"], match["operator"].replace("==", "="), match["value"]))

    def matches(self, obj: Object) -> bool:
        """Return True if the fields of an object meet every requirement."""
        return all((_field(obj, path) == value) == (sign == "=") for path, sign, value in self.requirements)

    def value(self, path: str) -> str | None:
        """Return the value that a field must have; None without such a requirement."""
        return next((value for key, sign, value in self.requirements if key == path and sign == "="), None)


def _field(obj: Object, path: str) -> str:
    found: Any = obj
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return "" if found is None else str(found)

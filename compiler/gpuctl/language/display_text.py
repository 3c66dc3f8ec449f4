"""Text of users as messages and terminals show it. Imported by everything that prints, so it imports little."""

from __future__ import annotations

import re
from collections.abc import Iterable

_CONTROLLING = r"[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"
"""In JSON these may stand unescaped; control characters of ASCII may not."""


def shorten(value: str, limit: int = 80) -> str:
    """Text for a message: long values are cut, control characters made visible."""
    shown = visible(value[: limit + 1])
    return shown if len(value) <= limit else shown[:limit] + "..."


def first_few(items: Iterable[object], most: int = 3) -> str:
    """Return the first items and the number of the others: ``a, b, c and 2 more``."""
    texts = list(map(str, items))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def visible_json(text: str) -> str:
    """Return JSON with the escapes of JSON for characters that control a terminal or the order of its text."""
    if text.isascii():
        return text
    return re.sub(_CONTROLLING, lambda match: f"\\u{ord(match[0]):04x}", text)


def visible(text: str) -> str:
    """Text for a terminal: characters that do not print as their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

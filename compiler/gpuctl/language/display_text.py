"""Display of untrusted text in messages and terminals. All output code imports it, so it imports little."""

from __future__ import annotations

import re
from collections.abc import Iterable

CONTROLLING = r"\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Characters that control a terminal or the order of its text, for a pattern; without those below a blank, which JSON
always escapes.
"""


def shorten(value: str, limit: int = 80) -> str:
    """Return text for a message: cut after ``limit`` characters, with control characters escaped."""
    shown = visible(value[: limit + 1])
    return shown if len(value) <= limit else shown[:limit] + "..."


def first_few(items: Iterable[object], most: int = 3) -> str:
    """Return the first items and the number of the others: ``a, b, c and 2 more``."""
    texts = list(map(str, items))
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def and_list(items: Iterable[object]) -> str:
    """Return ``a``, ``a and b``, ``a, b and c``."""
    *others, last = map(str, items)
    return f"{', '.join(others)} and {last}" if others else last


def count_text(number: int, what: str) -> str:
    """Return ``1 pod``, ``2 pods``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def visible_json(text: str) -> str:
    """Return JSON with characters that control a terminal or the order of its text escaped."""
    if text.isascii():
        return text
    return re.sub(f"[{CONTROLLING}]", lambda match: f"\\u{ord(match[0]):04x}", text)


def visible(text: str) -> str:
    """Return text for a terminal, with characters that do not print escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

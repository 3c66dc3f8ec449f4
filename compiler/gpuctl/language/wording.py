"""Text of users as messages and terminals show it. Imported by everything that prints, so it imports nothing."""

from __future__ import annotations


def shorten(value: str, limit: int = 80) -> str:
    """Text for a message: long values are cut, control characters made visible."""
    shown = visible(value[: limit + 1])
    return shown if len(value) <= limit else shown[:limit] + "..."


def visible(text: str) -> str:
    """Text for a terminal: characters that do not print as their escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)

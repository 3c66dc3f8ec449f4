"""Label selectors in a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def selected_labels(value: Any) -> Iterator[tuple[str, list[str]]]:
    """Yield the labels in the selectors of a value, with their values."""
    if isinstance(value, list):
        for item in value:
            yield from selected_labels(item)
    elif isinstance(value, dict):
        if isinstance(labels := value.get("matchLabels"), dict):
            yield from ((key, [text]) for key, text in labels.items())
        for item in value.get("matchExpressions") or ():
            if isinstance(item, dict) and item.get("operator") == "In":
                yield str(item.get("key")), item.get("values") or []
        for key, item in value.items():
            if key not in ("matchLabels", "nodeAffinity"):
                yield from selected_labels(item)

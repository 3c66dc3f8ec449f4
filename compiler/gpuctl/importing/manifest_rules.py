"""Rules of Kubernetes about the values of pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def pull_policy(image: str) -> str:
    """Return the policy of Kubernetes for an image."""
    name = image.rsplit("/", 1)[-1]
    return "Always" if name.endswith(":latest") or not set(name) & {":", "@"} else "IfNotPresent"


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

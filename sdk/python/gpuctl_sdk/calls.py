"""A request of the API: what is sent, and what the answer is. Both clients send these."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class Call:
    """A request. ``path`` is below the API's base.

    ``answer`` is the type of what comes back; ``repeatable``: sending it twice does no more than sending it once.
    """

    method: str
    path: str
    answer: Any
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


def segment(name: str | int) -> str:
    """A name, or a number, as one part of a path, whatever it contains.

    :raises ValueError: no path can have it.
    """
    if name in ("", ".", ".."):
        raise ValueError(f"`{name}` is no name")
    return quote(str(name), safe="")


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """What was said of a query or a body."""
    return {name: value for name, value in values.items() if value is not None}


def idempotency(text: str | None) -> dict[str, str]:
    """The header with the name of a request, so that it is carried out once however often it is sent."""
    return {"Idempotency-Key": uuid.uuid4().hex if text is None else text}

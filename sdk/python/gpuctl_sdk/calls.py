"""The requests of the API, one function each: what is sent, and what the answer is. Both clients send these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """A request. ``answer`` is the type of what comes back; ``repeatable``: sending it twice does no more than once."""

    method: str
    path: str
    answer: type[Answer]
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


def segment(text: str) -> str:
    """A name as one part of a path, whatever it contains."""
    return quote(text, safe="")


def given(**query: Any) -> dict[str, Any]:
    """A query without what was not said."""
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in query.items()
        if value is not None
    }

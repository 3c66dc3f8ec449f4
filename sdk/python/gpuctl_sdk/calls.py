"""Requests of the API and the types of their responses, shared by both clients."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True)
class Call:
    """A request.

    :param path: path below the API's base.
    :param answer: type of the response.
    :param repeatable: true if repeating the request has no further effect.
    :param waits: true if the response may take minutes: the service saves checkpoints, or waits for pods that end.
    :param end: time (monotonic) at which the caller stops waiting; None: no limit beside the timeout of the client.
    """

    method: str
    path: str
    answer: Any
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    waits: bool = False
    end: float | None = None


def segment(name: str | int) -> str:
    """Return a name or number, escaped as one segment of a path.

    :raises ValueError: no path segment can have this value.
    """
    if name in ("", ".", ".."):
        raise ValueError(f"`{name}` is not a valid name")
    return quote(str(name), safe="")


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a query or body that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def idempotency(text: str | None) -> dict[str, str]:
    """Return the idempotency header of a request, with a random key by default. Repeated requests with it have one
    effect.
    """
    return {"Idempotency-Key": uuid.uuid4().hex if text is None else text}

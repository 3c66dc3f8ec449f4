"""Problems of a pod's spec, and lookup of the values at a path pattern."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from gpuctl.frontend.diagnostics import FieldPath
from gpuctl.language.sentences import Sentence


class PodProblem(NamedTuple):
    """A problem of a pod's spec: path, message and hint.

    ``causes``: further paths that may contain the mistake, such as the port whose name a probe does not find.
    """

    path: FieldPath
    message: Sentence
    hint: Sentence | None = None
    causes: tuple[FieldPath, ...] = ()
    code: str = "GPU219"


def values_at(value: Any, pattern: str) -> Iterator[tuple[FieldPath, Any]]:
    """Yield every value that matches a pattern such as ``volumes[].hostPath.type``, with its path."""
    yield from _at(value, _steps(pattern), ())


def strings_at(value: Any, pattern: str) -> Iterator[tuple[FieldPath, str]]:
    """Yield only the strings that match; the schema check rejects other types."""
    return ((place, found) for place, found in values_at(value, pattern) if isinstance(found, str))


@cache
def _steps(pattern: str) -> tuple[str | None, ...]:
    steps: list[str | None] = []
    for part in pattern.split("."):
        steps.append(part.removesuffix("[]"))
        if part.endswith("[]"):
            steps.append(None)
    return tuple(steps)


def _at(value: Any, steps: tuple[str | None, ...], place: FieldPath) -> Iterator[tuple[FieldPath, Any]]:
    if not steps:
        yield place, value
    elif steps[0] is None:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _at(item, steps[1:], (*place, index))
    elif isinstance(value, dict) and steps[0] in value:
        yield from _at(value[steps[0]], steps[1:], (*place, steps[0]))

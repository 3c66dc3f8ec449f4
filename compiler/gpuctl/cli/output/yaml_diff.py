"""The unified diff of two objects or documents, as YAML."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from gpuctl.backend.emitter import emit_object
from gpuctl.objects.api_resources import Object


def yaml_diff(before: Object | None, after: Object | None, titles: tuple[str, str]) -> Iterator[str]:
    """Yield the lines of a unified diff. None has no lines."""
    old, new = (emit_object(obj).splitlines(keepends=True) if obj is not None else [] for obj in (before, after))
    return unified_diff(old, new, *titles)

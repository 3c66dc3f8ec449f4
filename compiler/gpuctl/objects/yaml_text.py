"""Parsing YAML of other writers: a kubeconfig, or a text in a ConfigMap. Whatever is in it, only NotYaml is raised."""

from __future__ import annotations

import contextlib
import json
from typing import Any

_DEEPEST = 100


class NotYaml(Exception):
    """The text is not YAML. Its argument is the position for the message, "" if unknown."""


def parse_yaml(text: str) -> Any:
    """Parse JSON or YAML. JSON is tried first: most generated files are JSON, which parses in a fraction of the time.

    :raises NotYaml: the text is neither.
    """
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(text)
    # Imported here: most commands read no YAML but their documents.
    import yaml

    try:
        return _parsed(text)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError) as error:
        # PyYAML raises the built-in errors for values that do not fit their type: `2024-13-45`, `!!int ''`.
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark is not None else ""
        raise NotYaml(where) from None


def parsed_or_none(text: str) -> Any:
    """Parse JSON or YAML; return None if the text is neither."""
    try:
        return parse_yaml(text)
    except NotYaml:
        return None


def _parsed(text: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    depth = 0
    # PyYAML's composer recurses once per level; a deeply nested document would overflow the stack and crash Python.
    for event in yaml.parse(text, loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise yaml.MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)  # type: ignore[arg-type]
    return yaml.load(text, loader)  # noqa: S506 - both loaders are safe ones

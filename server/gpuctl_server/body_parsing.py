"""Parsing of request bodies: JSON, or YAML with JSON values only, with limits on depth and size.

libyaml composes nodes in C without limits: a hundred thousand brackets would crash the process, and a few nested
aliases would fill its memory. So the nodes are composed in Python, one by one, within the limits below.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node

from gpuctl.language.sentences import say

DEEPEST = 64
"""Maximum depth of lists and maps; that of documents."""
MOST_VALUES = 50_000
"""Maximum number of values of a body, keys included."""


class InvalidBody(ValueError):
    """The body does not conform to its content type; ``str()`` is a message for the user."""


def read_json(body: bytes) -> Any:
    """Return the value of a JSON body.

    :raises InvalidBody: the body is not valid JSON, or exceeds a limit.
    """
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except InvalidBody as error:
        raise InvalidBody(say("the body is not valid JSON: {error}", error=error)) from None
    except RecursionError:
        raise InvalidBody(say("the body is nested deeper than {most} levels", most=DEEPEST)) from None
    except UnicodeDecodeError:
        raise InvalidBody(say("the body is not UTF-8 text")) from None
    except json.JSONDecodeError as error:
        raise InvalidBody(say("the body is not valid JSON: {error}", error=error)) from None
    except ValueError:
        # Python's message would mention a Python function.
        raise InvalidBody(say("the body has a number with too many digits")) from None
    return _checked(value)


def read_yaml(body: bytes) -> Any:
    """Return the value of a YAML body with one document.

    :raises InvalidBody: the body is not valid YAML, has values that JSON does not have, or exceeds a limit.
    """
    try:
        loader = _CarefulLoader(body.decode("utf-8"))
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise InvalidBody(say("the body is not UTF-8 text")) from None
    except InvalidBody:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # libyaml reads ahead after a bracket; newer versions have their own depth limit (1000 levels).
        if "maximum nesting depth" in str(error):
            raise InvalidBody(say("the body is nested deeper than {most} levels", most=DEEPEST)) from None
        raise InvalidBody(
            say("the body is not valid YAML: {error}", error=" ".join(str(error).split())[:300])
        ) from None
    except (LookupError, AttributeError):
        # From PyYAML, for `!!int ''`, `!!bool x`, `!!timestamp x`.
        raise InvalidBody(say("the body is not valid YAML: a value does not fit its tag")) from None
    return _checked(value)


class _CarefulLoader(Composer, yaml.CSafeLoader):
    """A loader that composes libyaml's events in Python, rejects aliases, and limits depth and number of values."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            raise InvalidBody(say("the body has an alias (`*name`): write the value out"))
        self._nodes += 1
        if self._nodes > MOST_VALUES:
            raise InvalidBody(say("the body has more than {most} values", most=MOST_VALUES))
        if self._depth == DEEPEST:
            raise InvalidBody(say("the body is nested deeper than {most} levels", most=DEEPEST))
        self._depth += 1
        node: Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value if isinstance(key.value, str)]
        if len(set(keys)) < len(keys):
            raise InvalidBody(_twice(keys))
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InvalidBody(_twice([key for key, _ in pairs]))
    return found


def _twice(keys: list[str]) -> str:
    key = Counter(keys).most_common(1)[0][0]
    return say("the key {key} is given twice", key=json.dumps(key)[:80])


def _no_number(text: str) -> Any:
    raise InvalidBody(say("{text} is not a number", text=text))


def _checked(value: Any) -> Any:
    """Return the value if it consists of JSON values that can be encoded again.

    :raises InvalidBody: it has other values, or exceeds a limit.
    """
    waiting = [(value, 0)]
    count = 0
    while waiting:
        item, depth = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise InvalidBody(say("the body has more than {most} values", most=MOST_VALUES))
        if isinstance(item, str):
            _require_text(item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise InvalidBody(say("the body has a number that is infinite or NaN"))
        elif isinstance(item, dict | list):
            if depth == DEEPEST:
                raise InvalidBody(say("the body is nested deeper than {most} levels", most=DEEPEST))
            if isinstance(item, dict):
                for key in item:
                    if not isinstance(key, str):
                        raise InvalidBody(
                            say("the key {key} is not a string: quote it", key=json.dumps(key, default=str)[:80])
                        )
                    waiting.append((key, depth))
            waiting += ((part, depth + 1) for part in (item.values() if isinstance(item, dict) else item))
        elif item is not None and not isinstance(item, bool | int):
            raise InvalidBody(say("the body has values that JSON does not have, such as times: quote them"))
    return value


def _require_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidBody(
            say("the body has half of a surrogate pair (`\\ud800` to `\\udfff`), which is not a character")
        ) from None

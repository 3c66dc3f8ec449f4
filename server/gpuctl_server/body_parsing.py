"""Bodies as values: JSON, or YAML that says no more than JSON can. Whatever is sent, it costs little to find out.

libyaml composes in C without a limit: a hundred thousand brackets would end the process, and a few aliases of aliases
take all memory. Here the nodes are composed one by one, to a depth and a number that no body needs.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node

DEEPEST = 64
"""Levels of lists and maps, as in documents."""
MOST_VALUES = 50_000
"""Values of a body, keys among them."""


class InvalidBody(ValueError):
    """A body that is not what its content type says; ``str()`` says why."""


def read_json(body: bytes) -> Any:
    """The value of a JSON body.

    :raises InvalidBody: it is none.
    """
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_number)
    except InvalidBody as error:
        raise InvalidBody(f"the body is no JSON: {error}") from None
    except RecursionError:
        raise InvalidBody(f"the body is nested deeper than {DEEPEST} levels") from None
    except UnicodeDecodeError:
        raise InvalidBody("the body is no UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InvalidBody(f"the body is no JSON: {error}") from None
    except ValueError:
        # What Python says of it is about Python.
        raise InvalidBody("the body has a number with too many digits") from None
    return _checked(value)


def read_yaml(body: bytes) -> Any:
    """The one value of a YAML body.

    :raises InvalidBody: it is none, or has what JSON has not.
    """
    try:
        loader = _CarefulLoader(body.decode("utf-8"))
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except UnicodeDecodeError:
        raise InvalidBody("the body is no UTF-8 text") from None
    except InvalidBody:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # libyaml looks ahead from a bracket, and newer ones end at a depth of their own (1000 levels).
        if "maximum nesting depth" in str(error):
            raise InvalidBody(f"the body is nested deeper than {DEEPEST} levels") from None
        raise InvalidBody(f"the body is no YAML: {' '.join(str(error).split())[:300]}") from None
    return _checked(value)


class _CarefulLoader(Composer, yaml.CSafeLoader):
    """libyaml's events, composed in Python: as deep as a body may be, each value where it is written."""

    def __init__(self, text: str) -> None:
        yaml.CSafeLoader.__init__(self, text)
        Composer.__init__(self)
        self._depth = self._nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if self.check_event(yaml.AliasEvent):
            raise InvalidBody("the body has an alias (`*name`): write the value out")
        self._nodes += 1
        if self._nodes > MOST_VALUES:
            raise InvalidBody(f"the body has more than {MOST_VALUES} values")
        if self._depth == DEEPEST:
            raise InvalidBody(f"the body is nested deeper than {DEEPEST} levels")
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
    return f"the key {json.dumps(key)[:80]} is there twice"


def _no_number(text: str) -> Any:
    raise InvalidBody(f"{text} is no number")


def _checked(value: Any) -> Any:
    """A value that JSON has, and that can be written again.

    :raises InvalidBody: it is none.
    """
    waiting = [(value, 0)]
    count = 0
    while waiting:
        item, depth = waiting.pop()
        count += 1
        if count > MOST_VALUES:
            raise InvalidBody(f"the body has more than {MOST_VALUES} values")
        if isinstance(item, str):
            _see_that_it_is_text(item)
        elif isinstance(item, float):
            if not math.isfinite(item):
                raise InvalidBody("the body has a number that is infinite, or none")
        elif isinstance(item, dict | list):
            if depth == DEEPEST:
                raise InvalidBody(f"the body is nested deeper than {DEEPEST} levels")
            if isinstance(item, dict):
                for key in item:
                    if not isinstance(key, str):
                        raise InvalidBody(f"the key {json.dumps(key, default=str)[:80]} is no text: quote it")
                    waiting.append((key, depth))
            waiting += ((part, depth + 1) for part in (item.values() if isinstance(item, dict) else item))
        elif item is not None and not isinstance(item, bool | int):
            raise InvalidBody("the body has values that JSON has not, such as times: quote them")
    return value


def _see_that_it_is_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidBody(
            "the body has half of a surrogate pair (`\\ud800` to `\\udfff`), which is no character"
        ) from None

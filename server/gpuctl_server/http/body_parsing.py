"""Parsing of JSON request bodies, with limits on depth and size."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from gpuctl.language.sentences import say

DEEPEST = 64
"""Maximum depth of lists and maps; that of documents."""
MOST_VALUES = 50_000
"""Maximum number of values of a body, keys included."""


class InvalidBody(ValueError):
    """The body is not valid JSON; ``str()`` is a message for the user."""


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
    """Return the value if it can be encoded as JSON again.

    :raises InvalidBody: it cannot, or it exceeds a limit.
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
                waiting += ((key, depth) for key in item)
            waiting += ((part, depth + 1) for part in (item.values() if isinstance(item, dict) else item))
    return value


def _require_text(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidBody(
            say("the body has half of a surrogate pair (`\\ud800` to `\\udfff`), which is not a character")
        ) from None

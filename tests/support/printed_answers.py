"""Answers as documents print them, compared with those that a service gives.

What is printed has to be there: each field of an object, under its name, where it is printed, of its type; each item of a
list, found by what it is called. An answer may have more. Of a time and of an id (``name-xxxxx``) the form is compared,
of a message that it says something, of a document how it begins (``...`` stands for the rest); everything else is equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NAMES = ("nodeName", "name", "key", "gpuId", "timestamp", "type")
"""Fields that name an item of a list; the first one present is used."""
FREE_TEXTS = frozenset({"message"})


def differences(printed: Any, real: Any, otherwise: Mapping[str, str] = {}) -> list[str]:
    """Return the differences between an answer and the printed one, one line each.

    :param otherwise: place (``items[node-1].cpu``) -> a regular expression for its value.
    """
    unused = dict(otherwise)
    found = list(_differences(printed, real, "", unused))
    return found + [f"{place}: nothing differs here" for place in unused]


def _differences(printed: Any, real: Any, place: str, otherwise: dict[str, str]) -> Iterator[str]:
    if place in otherwise:
        pattern = otherwise.pop(place)
        if not re.fullmatch(pattern, str(real), re.DOTALL):
            yield f"{place}: {real!r} is not like {pattern}"
    elif isinstance(printed, dict):
        if not isinstance(real, dict):
            yield f"{place}: {real!r} is no object"
            return
        for name, value in printed.items():
            inside = f"{place}.{name}".lstrip(".")
            if name not in real:
                yield f"{inside}: is missing"
            else:
                yield from _differences(value, real[name], inside, otherwise)
    elif isinstance(printed, list):
        yield from _of_lists(printed, real, place, otherwise)
    elif isinstance(printed, str):
        if not isinstance(real, str) or not _is_like(printed, real, place.rpartition(".")[2]):
            yield f"{place}: {real!r}, and {printed!r} is printed"
    elif isinstance(printed, bool) is not isinstance(real, bool) or printed != real:
        yield f"{place}: {real!r}, and {printed!r} is printed"


def _of_lists(printed: list[Any], real: Any, place: str, otherwise: dict[str, str]) -> Iterator[str]:
    if not isinstance(real, list):
        yield f"{place}: {real!r} is no list"
    elif not printed and real:
        yield f"{place}: {real!r}, and nothing is printed"
    for item in printed if isinstance(real, list) else ():
        if not isinstance(item, dict):
            if item not in real:
                yield f"{place}: {item!r} is not in {real!r}"
            continue
        field = next(name for name in NAMES if name in item)
        inside = f"{place}[{item[field]}]"
        same = [other for other in real if isinstance(other, dict) and other.get(field) == item[field]]
        if inside in otherwise:
            yield from _differences(item, real, inside, otherwise)
        elif len(same) != 1:
            yield f"{inside}: {len(same)} items are called so"
        else:
            yield from _differences(item, same[0], inside, otherwise)


def _is_like(printed: str, real: str, name: str) -> bool:
    if name in FREE_TEXTS:
        return bool(real.strip())
    if TIME.fullmatch(printed):
        return TIME.fullmatch(real) is not None
    if printed.endswith("-xxxxx"):
        return re.fullmatch(f"{re.escape(printed[:-5])}[0-9a-z]{{5}}", real) is not None
    if printed.endswith("..."):
        return real.startswith(printed[:-3])
    return printed == real

"""Writes objects as YAML that every reader interprets in the same way.

A string is plain only if no YAML 1.1 or 1.2 reader (PyYAML, ruamel, kubectl's Go reader) can read it as a number, bool,
null, date or merge key. Otherwise it is double-quoted, with JSON's escapes. Text of several lines becomes a literal
block if that preserves it exactly. The layout is kubectl's: two blanks, list items under their key.

Library dumpers are not used: they leave ``1e-4``, ``y`` or ``0o755`` unquoted and take several times as long.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_PART = r"[^\W_]|[/_.@%+=,;()~^$*&!?<>|'\"，。：；！？（）、“”《》【】—…·-]"
# Starts with a letter, `_` or `/`, or is an option; blanks and colons only inside, and no colon before a blank.
_PLAIN = re.compile(
    r"(?:--?(?=[A-Za-z])|(?=[^\W\d]|/))(?:" + _PART + r"|:(?=[^\W_]|[/_.@%+,-])| (?=[^\W_]|[/_.(-]))*\Z"
)
# Quantities and durations start with a digit, but no reader takes them for numbers.
_UNIT = r"(?a)(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[KMGTPE]i|[mkMGTPshd])\Z"
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false"})
_WORDS |= {"null", "nil", "none", "nan", "inf", "infinity"}
# Characters that are invisible, or that some reader rejects or treats as a line break.
_HIDDEN = "\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\uffff\ud800-\udfff"
_ESCAPED = f"[{_HIDDEN}]"
_QUOTED = json.JSONEncoder(ensure_ascii=False).encode
_NOT_LITERAL = rf"\A[ \t\n]|[ \t]\n|[ \t]\Z|\n\t|[\x00-\x08\x0b-\x1f{_HIDDEN}]"
_LONGEST_SIMPLE_KEY = 120
_CACHE: dict[str, str] = {}
_CACHE_SIZE = 16384
_CACHED_LENGTH = 80


def emit_object(obj: Mapping[str, Any]) -> str:
    """Return one object as block YAML, keys in their order, ending in a newline."""
    out: list[str] = []
    if obj:
        _mapping(out, obj, "", "")
    else:
        out.append("{}\n")
    return "".join(out)


def emit_stream(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as one YAML stream, with ``---`` between documents."""
    return "".join(iter_stream(objects))


def iter_stream(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the same stream in pieces, for large output."""
    first = True
    for obj in objects:
        yield emit_object(obj) if first else "---\n" + emit_object(obj)
        first = False


def emit_json(objects: Iterable[Mapping[str, Any]]) -> str:
    """Return objects as a JSON ``v1`` List, as ``kubectl get -o json`` prints several objects."""
    items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return json.dumps(items, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _mapping(out: list[str], obj: Mapping[str, Any], pad: str, lead: str) -> None:
    """Append the entries of a mapping. The first line starts with ``lead``, the others with ``pad``."""
    deeper = pad + "  "
    for key, value in obj.items():
        name = _CACHE.get(key) or _key(key, pad)
        kind = type(value)
        if kind is str:
            out.append(f"{lead}{name}: {_CACHE.get(value) or _text(value, deeper)}\n")
        elif kind is int:
            out.append(f"{lead}{name}: {value}\n")
        elif kind is dict or (kind is not list and isinstance(value, Mapping)):
            if value:
                out.append(f"{lead}{name}:\n")
                _mapping(out, value, deeper, deeper)
            else:
                out.append(f"{lead}{name}: {{}}\n")
        elif isinstance(value, (list, tuple)):
            if value:
                out.append(f"{lead}{name}:\n")
                _sequence(out, value, pad, pad)
            else:
                out.append(f"{lead}{name}: []\n")
        else:
            out.append(f"{lead}{name}: {_scalar(value, deeper)}\n")
        lead = pad


def _sequence(out: list[str], items: Iterable[Any], pad: str, lead: str) -> None:
    deeper = pad + "  "
    first, others = lead + "- ", pad + "- "
    for item in items:
        kind = type(item)
        if kind is str:
            out.append(f"{first}{_CACHE.get(item) or _text(item, deeper)}\n")
        elif (kind is dict or isinstance(item, Mapping)) and item:
            _mapping(out, item, deeper, first)
        elif isinstance(item, (list, tuple)) and item:
            _sequence(out, item, deeper, first)
        else:
            out.append(f"{first}{_scalar(item, deeper)}\n")
        first = others


def _scalar(value: Any, pad: str) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        return _text(str(value), pad)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    raise TypeError(f"{type(value).__name__} is not JSON")


def _float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} is not JSON")
    text = repr(value)
    # YAML 1.1 requires a decimal point and a signed exponent: PyYAML reads 1e20 as text.
    mantissa, exponent_mark, exponent = text.partition("e")
    if exponent_mark:
        mantissa = mantissa if "." in mantissa else mantissa + ".0"
        exponent = exponent if exponent[0] in "+-" else "+" + exponent
        return f"{mantissa}e{exponent}"
    return text


def _key(key: str, pad: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"a key must be text, not {type(key).__name__}")
    rendered = _remember(key, _inline(key))
    # Readers limit keys without a `?` to 1024 characters, some to fewer.
    return rendered if len(rendered) <= _LONGEST_SIMPLE_KEY else f"? {rendered}\n{pad}"


def _text(text: str, pad: str) -> str:
    """Return a string value; literal blocks are indented by ``pad``."""
    if "\n" in text and not re.search(_NOT_LITERAL, text):
        stripped = text.rstrip("\n")
        chomping = "-" if stripped == text else "" if len(text) - len(stripped) == 1 else "+"
        lines = stripped.split("\n")
        body = "\n".join(pad + line if line else "" for line in lines)
        return f"|{chomping}\n{body}" + "\n" * max(0, len(text) - len(stripped) - 1)
    return _remember(text, _inline(text))


def _remember(text: str, rendered: str) -> str:
    # Text of several lines is quoted as a key and a block as a value, so it must not be cached.
    if len(rendered) <= _CACHED_LENGTH and "\n" not in text:
        if len(_CACHE) >= _CACHE_SIZE:
            _CACHE.clear()
        _CACHE[text] = rendered
    return rendered


def _inline(text: str) -> str:
    """Return a string on one line: plain if that is safe, else double-quoted."""
    is_plain = _PLAIN.match(text) or (text[:1].isdecimal() and re.match(_UNIT, text))
    if is_plain and text.lstrip("-").lower() not in _WORDS:
        return text
    quoted = _QUOTED(text)
    if quoted.isascii() and "\x7f" not in quoted:
        return quoted
    return re.sub(_ESCAPED, lambda match: f"\\u{ord(match[0]):04x}", quoted)

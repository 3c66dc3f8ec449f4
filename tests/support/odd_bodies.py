"""Bodies that no program of good will sends. None of them is what any path takes: each is answered with 400."""

from __future__ import annotations

from typing import NamedTuple

JSON, YAML = "application/json", "application/yaml"


class OddBody(NamedTuple):
    """A body, its declared content type, and a part of the error if fields are expected as JSON."""

    kind: str
    body: bytes
    told: str = ""


def _lines(*lines: str) -> bytes:
    return "\n".join(lines).encode()


_ALIASES = [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)]
_MERGES = [f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{', '.join(['*' + chr(97 + n)] * 9)}]}}" for n in range(9)]
_DEEP, _TWICE, _HALF = "nested deeper than 64 levels", "given twice", "surrogate"
_FIELDS = b'"name": "x", "key": "a", "value": "b", "resource": "jobs", "action": "get", "condition": "done"'


def _among(field: bytes) -> bytes:
    """Fields that some paths take, and one more."""
    return b"{" + _FIELDS + b", " + field + b"}"


BODIES: dict[str, OddBody] = {
    "nothing": OddBody(JSON, b"", "not valid JSON"),
    "a NUL": OddBody(JSON, b"\0", "not valid JSON"),
    "half of a text": OddBody(JSON, b'"x', "not valid JSON"),
    "a list": OddBody(JSON, b"[]", "body"),
    "null": OddBody(JSON, b"null", "body"),
    "a byte order mark": OddBody(JSON, b'\xef\xbb\xbf{"x": 1}', "not valid JSON"),
    "UTF-16": OddBody(f"{JSON}; charset=utf-16", '{"x": 1}'.encode("utf-16"), "UTF-8"),
    "Latin-1": OddBody(f"{JSON}; charset=latin-1", '{"é": 1}'.encode("latin-1"), "UTF-8"),
    "brackets": OddBody(JSON, b"[" * 100_000, _DEEP),
    "brackets that close": OddBody(JSON, b"[" * 100_000 + b"]" * 100_000, _DEEP),
    "maps in maps": OddBody(JSON, b'{"a":' * 50_000 + b"1" + b"}" * 50_000, _DEEP),
    "a deep field": OddBody(JSON, _among(b'"users": ' + b"[" * 500 + b"]" * 500), _DEEP),
    "very many values": OddBody(JSON, _among(b'"users": [' + b"0," * 100_000 + b"0]"), "more than 50000 values"),
    "many digits": OddBody(JSON, _among(b'"timeout": ' + b"9" * 100_000), "too many digits"),
    "a large exponent": OddBody(JSON, _among(b'"timeout": 1e999'), "infinite"),
    "NaN": OddBody(JSON, _among(b'"timeout": NaN'), "NaN is not a number"),
    "infinity": OddBody(JSON, _among(b'"timeout": -Infinity'), "-Infinity is not a number"),
    "a key twice": OddBody(JSON, b'{"name": "x", "name": "y"}', _TWICE),
    "the last of many keys twice": OddBody(
        JSON, b"{%s}" % b",".join(b'"k%d": 1' % min(n, 49_999) for n in range(50_001)), _TWICE
    ),
    "half a character": OddBody(JSON, rb'{"yamlContent": "kind: \ud800"}', _HALF),
    "half a character in a key": OddBody(JSON, rb'{"\udfff": 1}', _HALF),
    "half a character in a list": OddBody(JSON, rb'{"yamlContents": ["\ud83d"], "nodeNames": ["\udc00"]}', _HALF),
    "NUL in texts": OddBody(JSON, rb'{"name": "\u0000", "key": "\u0000", "yamlContent": "\u0000"}', ""),
    "too many entries": OddBody(JSON, b'{"yamlContents": [' + b'"",' * 100 + b'""]}', ""),
    "an object": OddBody(YAML, b"!!python/object/apply:os.getcwd []"),
    "brackets in YAML": OddBody(YAML, b"[" * 100_000),
    "dashes in YAML": OddBody(YAML, b"- " * 100_000),
    "questions in YAML": OddBody(YAML, b"? " * 100_000),
    "maps in YAML": OddBody(YAML, b"{a: " * 20_000),
    "aliases of aliases": OddBody(YAML, _lines("a: &a [x, x]", *_ALIASES)),
    "merges of merges": OddBody(YAML, _lines("a: &a {x: 1}", *_MERGES)),
    "an alias of itself": OddBody(YAML, b"name: &a [*a]"),
    "no such alias": OddBody(YAML, b"name: *a"),
    "a key twice in YAML": OddBody(YAML, b"name: a\nname: b"),
    "a list as key": OddBody(YAML, b"? [a]\n: b"),
    "half a character in YAML": OddBody(YAML, rb'name: "\uD800"'),
    "half a character as bytes": OddBody(YAML, b"name: \xed\xa0\x80"),
    "no character": OddBody(YAML, rb'name: "\U00110000"'),
    "many documents": OddBody(YAML, b"---\n" * 100_000),
    "no version of YAML": OddBody(YAML, b"%YAML 9.9\n---\nx: 1"),
}

"""PyYAML, ruamel.yaml (1.2 and 1.1) and kubectl's reader read the emitter's output back exactly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gpuctl.backend.emitter import emit_json, emit_object, emit_stream
from properties.readers import read_all, read_go, read_pyyaml, read_ruamel, same
from properties.scale import examples, part_of
from properties.strings import NASTY, STRINGS

PLENTY = examples(150)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 1.0, 1e20, 1e-7, 1.5e300, 5e-324, 2.0**53, 1e16, 1e22, 123456789.125]),
    STRINGS,
)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(STRINGS, inner, max_size=4)),
    max_leaves=15,
)
OBJECTS = st.dictionaries(STRINGS, TREES, max_size=4)


def around(text: str) -> dict[str, Any]:
    """An object with a string in every position that there is, at several depths."""
    return {
        "value": text,
        "list": [text, [text, [text]], {"a": text, text: "b"}, [{text: text}], {}, [], None],
        "nested": {"deep": {text: {"deeper": text, "list": [text]}}, text: [text], "last": {text: {}}},
        text + " key": {text: None},
        text: text,
    }


def assert_same(objects: Sequence[dict[str, Any]], *, both: bool = False) -> None:
    """Every reader gives back every object, with the keys in their order.

    :param both: with both versions of YAML; what is another in each run is read with one of them.
    """
    texts = [emit_object(obj) for obj in objects]
    for obj, text, read in zip(objects, texts, read_all(texts, both=both), strict=True):
        for reader, value in read.items():
            assert same(value, obj), f"{reader} reads {value!r} from {text!r}, written for {obj!r}"
        assert json.dumps(read["pyyaml"]) == json.dumps(obj), text


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_known_strings_round_trip(text: str) -> None:
    assert_same([around(text)], both=True)


@PLENTY
@given(st.lists(STRINGS, min_size=1, max_size=4))
def test_strings_round_trip_in_every_position(texts: list[str]) -> None:
    assert_same([around(text) for text in texts])


@PLENTY
@given(st.lists(OBJECTS, min_size=1, max_size=3))
def test_objects_round_trip(objects: list[dict[str, Any]]) -> None:
    assert_same(objects)


@PLENTY
@given(st.characters(exclude_categories=["Cs"]), st.sampled_from(["", "a", "1", " ", "\n", "-", "a "]))
@example("\x00", "")
def test_single_characters_round_trip(character: str, other: str) -> None:
    assert_same([{"a": character + other, "b": [other + character], other + character + other: character}])


def test_basic_plane_characters_round_trip() -> None:
    """Each character at the start, inside and at the end of a value and of a key."""
    characters = [chr(code) for code in range(0x10000) if not 0xD800 <= code < 0xE000]
    blocks = [characters[start : start + 1024] for start in range(0, len(characters), 1024)]
    # These have all the special ones.
    special = [blocks[0], blocks[8], blocks[-1]]
    objects = [
        {"values": [form for c in block for form in (c, f"{c}a", f"a{c}", f"a{c}a")]} | {f"a{c}a": c for c in block}
        for block in [*special, *part_of([block for block in blocks if block not in special], 4)]
    ]
    texts = [emit_object(obj) for obj in objects]
    for obj, text, go in zip(objects, texts, read_go(texts), strict=True):
        assert read_pyyaml(text) == obj
        assert go == obj
    # Ruamel's own scanner takes long.
    for obj, text in zip(objects[: len(special)], texts, strict=False):
        assert read_ruamel(text) == obj


def test_json_shows_chinese_text() -> None:
    assert '"text": "中文"' in emit_json([{"text": "中文"}])


@PLENTY
@given(st.lists(OBJECTS, max_size=4))
def test_streams_round_trip(objects: list[dict[str, Any]]) -> None:
    text = emit_stream(objects)
    assert list(yaml.load_all(text, Loader=yaml.CSafeLoader)) == objects
    assert json.loads(emit_json(objects))["items"] == objects
    # What was emitted before changes nothing: the emitter remembers what it has quoted.
    assert emit_stream(objects) == text
    assert "".join(("" if index == 0 else "---\n") + emit_object(obj) for index, obj in enumerate(objects)) == text


@PLENTY
@given(OBJECTS)
def test_output_has_no_hidden_characters(obj: dict[str, Any]) -> None:
    """No character that an editor, a diff or a terminal would hide, and a newline at the end."""
    text = emit_object(obj)
    assert text.endswith("\n")
    for line in text.split("\n"):
        assert all(character == "\t" or ord(character) >= 32 for character in line), line
    for hidden in "\x7f\x85\u2028\u2029\ufeff\u202e\u200b":
        assert hidden not in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), {1}, b"x", object()])
def test_non_json_values_are_rejected(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        emit_object({"a": value})
    with pytest.raises((TypeError, ValueError)):
        emit_object({"a": [value]})


def test_keys_must_be_text() -> None:
    with pytest.raises(TypeError):
        emit_object({1: "a"})  # type: ignore[dict-item]


def test_output_does_not_depend_on_earlier_output() -> None:
    text = "first\nsecond\n"
    alone = emit_object({"key": text})
    emit_object({text: "as a key"})
    assert emit_object({"key": text}) == alone

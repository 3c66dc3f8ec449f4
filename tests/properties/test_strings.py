"""Every string that a user can write arrives unchanged, for every reader of manifests."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gpuctl
from gpuctl.backend.emitter import emit_object, emit_stream
from properties.readers import read_go, read_pyyaml, read_ruamel

TRICKY = """
1|0|-1|+1|007|012|0o755|0x1F|0b101|1_000|1e5|2e-5|1E5|.5|5.|1.0|-0|+12e03|1e+3|685.230_15e+03|190:20:30|12:30:45|1:30
.inf|-.inf|+.inf|.NaN|nan|inf|Infinity|-inf|~|null|Null|NULL|nil|none|true|True|FALSE|yes|No|ON|off|y|N|2024-01-01
2024-01-01T00:00:00Z|2001-12-14 21:59:43.10 -5|<<|=|-|--|---|...|- a|? a|: a|a:|a: b|a :b|a::b|key:|#a|a #b|a#b|&a|*a
!a|!!str a|%a|@a|`a|{a}|[a]|a]|a}|{{ x }}|$(A)|$$|"a"|'a'|it's|say "x"|\\|a\\nb|,|a,b|;|100%|128Gi|500m|1.5Gi|5M|1k|7d
http://x:80/a?b=c#d|--model|-m|--lr=2e-5|/data/x|registry.example.com:5000/a/b:v1@sha256:abc|中文|中文：说明|é|😀 x|a	b
""".replace("\n", "|").split("|")
TRICKY += [
    "",
    " ",
    "  a",
    "a ",
    "\n",
    "a\n",
    "a\n\n",
    "\na",
    "a\nb",
    "a\n b\n",
    " a\nb",
    "a\n\tb",
    "a \nb",
    "\ta",
    "a\r\nb",
]
TRICKY += [
    "a\rb",
    "a\x85b",
    "a\u2028b",
    "a\u2029b",
    "\ufeffa",
    "a\ufeffb",
    "a\x7fb",
    "\x01",
    "\x1b[0m",
    "\xa0a",
    "a\u3000",
]
TRICKY += ["\u200b", "\ufffe", "\uffff", "\U0001fffe", "x" * 3000, "x: " * 500, "line\n" * 300, "a\n\n\nb\n\n\n"]

CHARACTERS = st.characters(blacklist_categories=["Cs"])
PIECES = st.one_of(
    st.sampled_from(TRICKY),
    st.text(CHARACTERS, max_size=12),
    st.text("ab01:-.#\n\t \"'{}[],&*!|>%@`~?=_/\\", max_size=10),
)
STRINGS = st.one_of(PIECES, st.lists(PIECES, max_size=3).map("".join))
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), STRINGS)
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(STRINGS, inner, max_size=4)),
    max_leaves=12,
)


def same(tree: Any) -> str:
    """The emitted text, after both Python readers gave the tree back."""
    text = emit_object(tree)
    assert read_pyyaml(text) == tree
    assert read_ruamel(text) == tree
    return text


@pytest.mark.parametrize("text", TRICKY, ids=range(len(TRICKY)))
def test_tricky_strings(text: str) -> None:
    tree = {"key": text, "list": [text, [text], {"a": text, "b": text}], "nested": {"deep": {"deeper": text}}}
    if text:
        tree[text] = text
    emitted = same(tree)
    assert read_ruamel(emitted, "1.1") == tree


def test_tricky_strings_for_kubectl() -> None:
    trees = [{"key": text, "list": [text, {"a": text}], text or "empty": {"deep": text}} for text in TRICKY]
    assert read_go([emit_object(tree) for tree in trees]) == trees


COLLECTED: list[tuple[str, Any]] = []


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(STRINGS, TREES, min_size=1, max_size=4))
def test_trees_round_trip(tree: dict[str, Any]) -> None:
    COLLECTED.append((same(tree), tree))


def test_trees_round_trip_for_kubectl() -> None:
    """The trees of the test before, in one process."""
    assert COLLECTED
    for (text, tree), read in zip(COLLECTED, read_go([text for text, _ in COLLECTED]), strict=True):
        assert read == tree, text


def _quoted(text: str, style: str) -> str | None:
    """A YAML scalar that stands for the text in a style, or None where the style cannot carry it."""
    if style == "single":
        return "'" + text.replace("'", "''") + "'" if text.isprintable() else None
    escaped = "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in text)
    return f'"{escaped}"'


def _plain(text: str) -> bool:
    """Whether the text is a plain scalar in a flow list: asked of a reader that is not ours."""
    if not text.isprintable() or text != text.strip() or any(c in text for c in ",[]{}\"'#&*!|>%@`") or not text:
        return False
    try:
        nodes = [token.value for token in yaml.scan(f"[{text}]") if hasattr(token, "value")]
    except yaml.YAMLError:
        return False
    return nodes == [text]


@pytest.mark.parametrize("seed", range(6))
def test_end_to_end(seed: int) -> None:
    """From a document in every style of writing, through the compiler, to all three readers."""
    generator = random.Random(seed)
    alphabet = "ab01yesno:-.#\"'{}[],&*!|>%@`~?=_/\\ 中é😀$()"
    words = [word for word in TRICKY if "\0" not in word and len(word) < 200]
    words += ["".join(generator.choice(alphabet) for _ in range(generator.randint(1, 9))) for _ in range(300)]
    words = [word for word in words if "{{" not in word and "\ufffe" not in word and "\uffff" not in word]
    written: list[tuple[str, str]] = []
    for word in words:
        for style in ("single", "double"):
            scalar = _quoted(word, style)
            if scalar is not None:
                written.append((scalar, word))
        if _plain(word) and word not in ("~", "null", "Null", "NULL"):
            written.append((word, word))
    arguments = ", ".join(scalar for scalar, _ in written)
    lines = "".join(f"    - {{name: V{number}, value: {scalar}}}\n" for number, (scalar, _) in enumerate(written))
    text = (
        "kind: compute\nversion: v0.1\njob: {name: demo}\nenvironment:\n  image: app:1\n"
        f"  args: [{arguments}]\n  env:\n{lines}"
    )
    result = gpuctl.compile(gpuctl.Source("demo.yaml", text))
    assert result.ok, [(item.message, str(item.span)) for item in result.diagnostics if item.severity.value == "error"]
    (deployment,) = [obj for obj in result.objects if obj["kind"] == "Deployment"]
    emitted = emit_stream([deployment])
    for read in (read_pyyaml(emitted), read_ruamel(emitted), read_go([emitted])[0]):
        container = read["spec"]["template"]["spec"]["containers"][0]
        assert container["args"] == [word for _, word in written]
        values = {item["name"]: item["value"] for item in container["env"] if item["name"].startswith("V")}
        assert values == {f"V{number}": word for number, (_, word) in enumerate(written)}

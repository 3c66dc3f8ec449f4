"""What is read line by line is what libyaml reads: the same tree, each node at the same place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuctl.frontend.composer import compose_events
from gpuctl.frontend.diagnostics import Diagnostic
from gpuctl.frontend.plain_yaml import read_plain
from gpuctl.frontend.reader import split
from gpuctl.frontend.source import Source, decode
from gpuctl.frontend.tree import Chunk, YamlNode

ROOT = Path(__file__).parents[2]
KEYS = ("", "", "a: ", "b: ", "b:", "kind:", "a_b-c.d/e: ", "'q': ", "<<: ", "~: ", "x :", "a:b: ", "? ", "1: ")
VALUES = (
    *("", "", "x", "2e-5", "~", "null", "a b  c", "r.example.com/x:v1", "a#b", "a #b", "a: b", "a:", "-", "-x", "--y"),
    *(
        '"q"',
        "'q'",
        '"a\\n"',
        "'it''s'",
        '"a" b',
        '"a" #b',
        "''",
        '""',
        "&a x",
        "*a",
        "!t x",
        "|",
        ">",
        "%x",
        "@x",
        "`x",
    ),
    *("[]", "[ ]", "[a]", "[a, b]", "[\"a\", 'b' , -c, --d, 2e-5 ]", "[a,b]", "[a, ]", "[, a]", "[a b, c]", "[a: b]"),
    *("[?a]", "[[a]]", "[a", "a]", "[a] b", "[a#b]", "[a #b]", "[-]", "[- a]", "[-, a]", "{a: b}", "{}", "任务", "é x"),
    *(
        "a\tb",
        "\u00a0x",
        "a\u2028b",
        "x\ufeff",
        "...",
        "---",
        "--- x",
        "a ? b",
        "?x",
        ":x",
        ", x",
        "x,",
        "=",
        "(a)",
        "$A",
    ),
)
LINES = st.builds(
    lambda indent, dash, key, value, end: " " * indent + dash + key + value + end,
    st.integers(0, 6),
    st.sampled_from(("", "", "", "- ", "-   ", "-", "- - ")),
    st.sampled_from(KEYS),
    st.sampled_from(VALUES),
    st.sampled_from(("", "", "", " ", " # c", "# c", "\t")),
)
FREE = st.text(st.sampled_from("ab:- #,[]'\"\n\n  ?{}&*|"), max_size=30)


def shown(node: YamlNode) -> Any:
    """A node as plain data, offsets included."""
    value = node.value
    if node.kind == "list":
        value = [shown(item) for item in value]
    elif node.kind == "mapping":
        value = [(shown(key), shown(item)) for key, item in value]
    return (node.kind, value, node.start, node.end, node.plain)


def check(chunk: Chunk) -> bool:
    """Hold the two against each other; whether the chunk was read line by line."""
    root = read_plain(chunk.text)
    if root is None:
        return False
    found: list[Diagnostic] = []
    assert [shown(other) for other in compose_events(chunk, found)] == [shown(root)]
    assert found == []
    return True


@settings(max_examples=1500)
@given(
    st.lists(LINES, max_size=7).map("\n".join) | FREE | FREE.map("a:\n  {}".format),
    st.sampled_from(("", "---\n", "--- # c\n", "--- ")),
    st.sampled_from(("", "\n", "\n\n", "\n  ", "\n# c")),
)
@example("a:\n- x\n- b: c\nd: e", "", "")
@example("a:\n  b:\n    c: d\n  e: [f, 'g']\nh:", "---\n", "\n  ")
@example("- a:\n  - b\n- c: d\n  e: f", "", "")
def test_the_same_tree(body: str, head: str, tail: str) -> None:
    text = head + body + tail
    check(Chunk(Source("x.yaml", text), 0, len(text), 0))


@settings(max_examples=300)
@given(st.data())
def test_the_same_tree_of_blocks_that_fit(data: st.DataObject) -> None:
    """Nested blocks as people write them, which random lines seldom are."""

    def block(indent: str, depth: int) -> list[str]:
        lines = []
        in_list = data.draw(st.booleans()) and depth > 0
        for number in range(data.draw(st.integers(1, 3))):
            lead = indent + ("- " if in_list else "")
            if in_list and data.draw(st.booleans()):
                lines.append(lead + data.draw(st.sampled_from(("x", '"y"', "[a, b]", "-c"))))
                continue
            value = data.draw(st.sampled_from(("x", "2e-5 # c", "'y'", "[]", "", None)))
            lines.append(f"{lead}k{number}:{f' {value}' if value else ''}")
            if value is None and depth < 4:
                inner = indent + ("  " if in_list else "") + data.draw(st.sampled_from(("  ", "    ", "  ")))
                lines += block(inner, depth + 1)
            if data.draw(st.integers(0, 5)) == 0:
                lines.append(data.draw(st.sampled_from(("", "   ", "# c", "         # c"))))
        return lines

    text = "\n".join(block("", 0)) + data.draw(st.sampled_from(("", "\n")))
    check(Chunk(Source("x.yaml", text), 0, len(text), 0))


def test_the_documents_of_examples_and_golden_cases() -> None:
    files = sorted(path for folder in ("examples", "golden") for path in (ROOT / folder).rglob("*.yaml"))
    chunks = []
    for path in files:
        text = decode(path.name, path.read_bytes())
        if isinstance(text, str) and "expected" not in path.parts:
            chunks += split(Source(str(path), text))
    read = [chunk for chunk in chunks if _is_yaml(chunk) and check(chunk)]
    # The rest has what a line cannot hold: tabs, mappings in brackets, anchors, text of several lines.
    assert len(read) > len(chunks) * 2 // 3


def _is_yaml(chunk: Chunk) -> bool:
    return "kind" in chunk.text


@pytest.mark.parametrize(
    "line",
    [
        "{0}|",
        "a:{0}|",
        "a: b{0}|:",
        "a: b{0}: c",
        "-{0}|",
        "a: [b{0}|",
        'a: "b"{0}|',
        "a: [b,{0}|]",
        "a: {1}|: ",
        "a: [{1}",
    ],
)
def test_long_lines_that_do_not_fit_end(line: str) -> None:
    """With a pattern that tries every split of the blanks this would take days."""
    text = line.format(" " * 200_000, "b " * 100_000)
    assert read_plain(text) is None

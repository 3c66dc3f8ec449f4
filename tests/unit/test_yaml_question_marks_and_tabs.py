"""A `?` in YAML flow collections (YAML 1.1 reads a key indicator where 1.2 reads text, gpuctl rejects it), and tabs."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.composer import compose
from gpuctl.frontend.diagnostics import SourceSpan
from gpuctl.frontend.source import Source
from gpuctl.frontend.yaml_tree import Chunk, YamlNode


def tree(text: str) -> Any:
    """Return scalars as text, an empty plain scalar as None, and mappings as lists of pairs."""

    def of(node: YamlNode) -> Any:
        if node.kind == "scalar":
            return None if node.plain and not node.value else node.value
        if node.kind == "list":
            return [of(item) for item in node.value]
        return [(of(key), of(value)) for key, value in node.value]

    source = Source("x.yaml", text)
    (root,) = compose(Chunk(source, 0, len(text), 0), [])
    return of(root)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[c?d, e ?f, g?]", ["c?d", "e ?f", "g?"]),
        ("[http://x/?a=b, '?a=b']", ["http://x/?a=b", "?a=b"]),
        # Before a blank the `?` is a key indicator in YAML 1.2, too.
        ("[? a]", [[("a", None)]]),
        ("{? a : b}", [("a", "b")]),
        ("{?\ta: b}", [("a", "b")]),
        # Outside of brackets it is text.
        ("?a", "?a"),
        ("- ?a\n- b", ["?a", "b"]),
    ],
)
def test_accepted_question_marks(text: str, wanted: Any) -> None:
    assert tree(text) == wanted


@pytest.mark.parametrize(
    ("text", "column"),
    [
        *(("[a,?b]", 7), ("[?a]", 5), ("{?a: b}", 5), ("{?a}", 5), ("[?x: ,y]", 5), ("{?: b}", 5), ('[?"a"]', 5)),
        *(("[[?a], b]", 6), ("[\ue000, ?b]", 8)),
    ],
)
def test_question_mark_directly_before_text_is_an_error(text: str, column: int) -> None:
    (error,) = gpuctl.compile(gpuctl.Source("x.yaml", f"kind: training\nx: {text}\n")).diagnostics
    assert (error.code, error.message) == ("GPU004", "a `?` in brackets starts a key")
    assert error.span == SourceSpan("x.yaml", 2, column, 2, column + 1)
    assert error.hint == "quote the text that starts with it"


@pytest.mark.parametrize("text", ["{a: ?b}", "[??a]", "[x, ?[a]]"])
def test_unreadable_question_mark_is_an_error_at_its_line(text: str) -> None:
    (error,) = gpuctl.compile(gpuctl.Source("x.yaml", f"kind: training\nx: {text}\n")).diagnostics
    assert (error.code, error.span and error.span.line) == ("GPU004", 2)


TABS = "kind: compute\n\t \nversion: v0.1\njob: {{name: web}}\n \t\nenvironment:\n  image: app:1\n  command: {}\n\t\n"


@pytest.mark.parametrize("command", ["['a']", "\n\t\n    - a"])
def test_line_of_tabs_between_entries_is_an_empty_line(command: str) -> None:
    result = gpuctl.compile(gpuctl.Source("x.yaml", TABS.format(command)))
    assert [str(item) for item in result.diagnostics if item.severity is gpuctl.Severity.ERROR] == []


def test_line_of_tabs_in_block_text_belongs_to_the_text() -> None:
    text = "- |\n  a\n    \t\n  b\n"
    assert tree(text) == ["a\n  \t\nb\n"]


def test_lines_of_tabs_between_entries_and_in_block_text_are_an_error() -> None:
    text = TABS.format("[bash, -c, x]") + "x: |\n  a\n    \t\n  b\n"
    (error,) = gpuctl.compile(gpuctl.Source("x.yaml", text)).diagnostics
    assert (error.code, error.span) == ("GPU005", SourceSpan("x.yaml", 12, 5, 12, 6))

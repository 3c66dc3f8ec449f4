"""Text in YAML's brackets arrives as it is written: libyaml takes a `?` there for the mark of a key, YAML 1.2 does not."""

from __future__ import annotations

from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.diagnostics import Span
from gpuctl.frontend.reader import compose
from gpuctl.frontend.source import Source
from gpuctl.frontend.tree import Chunk, YamlNode


def tree(text: str) -> Any:
    """Scalars as their text, an empty plain one as None, mappings as lists of pairs."""

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
        ("[a,?b]", ["a", "?b"]),
        ("[?a]", ["?a"]),
        ("[?a, ?b, c?d, e ?f]", ["?a", "?b", "c?d", "e ?f"]),
        ("[a,\n  ?b]", ["a", "?b"]),
        ("{?a: b}", [("?a", "b")]),
        ("{?a}", [("?a", None)]),
        ("[?x: ,y]", [[("?x", None)], "y"]),
        ("{?: b}", [("?", "b")]),
        ("[[?a], {b: [?c]}]", [["?a"], [("b", ["?c"])]]),
        ('[?"a"]', ['?"a"']),
        ("[http://x/?a=b, ?a=b]", ["http://x/?a=b", "?a=b"]),
        # With a blank after it the `?` is a mark in YAML 1.2 as well.
        ("[? a]", [[("a", None)]]),
        ("{? a : b}", [("a", "b")]),
        ("{?\ta: b}", [("a", "b")]),
        # Outside of brackets it never was one.
        ("?a", "?a"),
        ("- ?a\n- b", ["?a", "b"]),
    ],
)
def test_question_marks(text: str, wanted: Any) -> None:
    assert tree(text) == wanted


@pytest.mark.parametrize("text", ["{a: ?b}", "[??a]"])
def test_what_cannot_be_read_is_an_error_at_its_place(text: str) -> None:
    (error,) = gpuctl.compile(gpuctl.Source("x.yaml", f"kind: training\nx: {text}\n")).diagnostics
    assert (error.code, error.span and error.span.line) == ("GPU004", 2)


def test_a_question_mark_in_a_command() -> None:
    text = "kind: compute\nversion: v0.1\njob: {name: web}\nenvironment: {image: app:1, args: [a,?b, '?c', \ue000?d]}\n"
    result = gpuctl.compile(gpuctl.Source("x.yaml", text))
    assert [str(item) for item in result.diagnostics if item.severity is gpuctl.Severity.ERROR] == []
    (pod,) = [obj["spec"]["template"]["spec"] for obj in result.objects if obj["kind"] == "Deployment"]
    assert pod["containers"][0]["args"] == ["a", "?b", "?c", "\ue000?d"]


def test_where_an_error_stands_behind_a_question_mark() -> None:
    text = "kind: compute\nversion: v0.1\njob: {name: web, annotations: {?a: b}}\nenvironment: {image: app:1}\n"
    (error,) = gpuctl.compile(gpuctl.Source("x.yaml", text)).diagnostics
    assert (error.code, error.span) == ("GPU212", Span("x.yaml", 3, 32, 3, 34))

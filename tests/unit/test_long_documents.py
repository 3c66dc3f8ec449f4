"""Documents with very many entries, each with its own diagnostic."""

from collections.abc import Iterator
from typing import Any

import pytest

import gpuctl
from gpuctl.frontend.spans import child
from gpuctl.frontend.yaml_tree import YamlNode

PLATFORM = gpuctl.Source("platform", "kind: platform\nversion: v0.1\n")
JOB = "kind: training\nversion: v0.1\njob: {{name: a}}\nenvironment: {{image: r/x:1, env: {{{}}}}}\n"


class PassCountingList(list[Any]):
    """A list that counts how often it is iterated over."""

    def __init__(self, pairs: list[Any]) -> None:
        super().__init__(pairs)
        self.passes = 0

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        return super().__iter__()


def scalar(text: str) -> YamlNode:
    return YamlNode("scalar", text, 0, 0)


def test_aliases_count_their_expanded_values() -> None:
    """An alias counts every scalar and collection that it repeats."""
    text = "kind: training\nversion: v0.1\njob: {{name: a}}\nx: &x [{}]\ny: [{}]\n"
    long = text.format(", ".join(["1"] * 500), ", ".join(["*x"] * 250))
    (error,) = (item for item in gpuctl.compile(gpuctl.Source("a.yaml", long)).diagnostics if item.code == "GPU007")
    assert error.message == "the document's aliases expand to more than 100000 values"


@pytest.mark.parametrize(
    "long",
    ["{}".format("b: c\n" * 125_001), "x: [{}]\n".format(", ".join("a" * 250_001)), "x:\n" + "- [[]]\n" * 125_001],
    ids=["scalars", "items", "collections"],
)
def test_document_of_more_than_250000_values_is_an_error(long: str) -> None:
    result = gpuctl.compile(gpuctl.Source("a.yaml", f"kind: training\nversion: v0.1\n{long}"))
    assert [(item.code, item.message) for item in result.diagnostics] == [
        ("GPU003", "the document has more than 250000 values")
    ]


def test_only_values_count_as_values() -> None:
    """An empty list at the end of each of 100,000 entries is a value, its end is none: events are no measure."""
    long = "x:\n" + "- []\n" * 100_000 + "y: [" + "a, " * 49_000 + "]\n"
    result = gpuctl.compile(gpuctl.Source("a.yaml", f"kind: training\nversion: v0.1\n{long}"))
    assert "GPU003" not in {item.code for item in result.diagnostics}


def test_pool_of_20000_nodes_is_read() -> None:
    long = "kind: pool\nversion: v0.1\nmetadata: {name: p}\nnodes:\n" + "".join(
        f"  n{number}: {{gpu-type: a}}\n" for number in range(20_000)
    )
    result = gpuctl.compile(gpuctl.Source("a.yaml", long))
    assert "GPU003" not in {item.code for item in result.diagnostics}


class InterruptError(Exception):
    """Raised by the ``interrupt`` callback."""


def test_compile_can_be_interrupted_at_every_step() -> None:
    text = "---\n".join(
        f"kind: compute\nversion: v0.1\njob: {{name: a{n}}}\nenvironment: {{image: r/x:1}}\n" for n in range(5)
    )
    source = gpuctl.Source("a.yaml", text)
    calls = 0

    def count() -> None:
        nonlocal calls
        calls += 1

    objects = gpuctl.compile(source, interrupt=count).objects
    assert calls == 5 + 5 + 5 + len(objects)
    for most in range(calls):
        left = iter(range(most))

        def stop(left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise InterruptError

        with pytest.raises(InterruptError):
            gpuctl.compile(source, interrupt=stop)


@pytest.mark.parametrize("depth", [65, 999, 1001, 5000])
@pytest.mark.parametrize("level", ["[]", "{a: }"], ids=["sequences", "mappings"])
def test_deep_nesting_has_one_code_in_all_pyyaml_releases(depth: int, level: str) -> None:
    """Some releases stop at their own limit, before the composer has counted 64 levels."""
    text = f"kind: training\nx: {level[:-1] * depth}{level[-1] * depth}\n"
    errors = [
        item for item in gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics if item.code in {"GPU004", "GPU008"}
    ]
    assert [(item.code, item.message) for item in errors] == [("GPU008", "nested deeper than 64 levels")]


def test_keys_of_a_long_mapping_are_indexed_once() -> None:
    pairs = PassCountingList([(scalar(f"key-{number}"), scalar(str(number))) for number in range(500)])
    node = YamlNode("mapping", pairs, 0, 0)
    for number in range(500):
        written, folded = child(node, f"key-{number}"), child(node, f"Key_{number}")
        assert written is not None
        assert written[1].value == str(number)
        assert folded is not None
        assert folded[1].value == str(number)
    assert child(node, "key-500") is None
    assert pairs.passes == 1


def test_exact_key_precedes_a_case_folded_key() -> None:
    pairs = [(scalar(f"k{number}"), scalar("x")) for number in range(40)]
    node = YamlNode("mapping", [(scalar("A_B"), scalar("first")), *pairs, (scalar("ab"), scalar("second"))], 0, 0)
    found = [child(node, part) for part in ("ab", "A_B", "a-b")]
    assert [step and step[1].value for step in found] == ["second", "first", "first"]


def test_each_of_many_errors_has_its_own_span() -> None:
    names = ", ".join(f"1A{number}: b" for number in range(60))
    result = gpuctl.compile(gpuctl.Source("j.yaml", JOB.format(names)), platform=PLATFORM)
    spans = [item.span for item in result.diagnostics if item.code == "GPU215"]
    assert len(spans) == 60
    columns = [span.column for span in spans if span is not None]
    assert columns == sorted(set(columns))

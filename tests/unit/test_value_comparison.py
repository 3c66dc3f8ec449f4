"""Changes inside of lists: reported item by item, or as one change of the list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuctl.gitops.value_change import ValueChange
from gpuctl.gitops.value_comparison import value_changes


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        ([{"x": 1}, {"x": 2}], [{"x": 1}, {"x": 3}], "a[1].x"),
        ([[1], [2]], [[1], [3]], "a[1]"),
        (["run", "fast"], ["run", "slow"], "a"),
        ([{"x": 1}, "b"], [{"x": 2}, "b"], "a"),
        ([{"x": 1}], [{"x": 1}, {"x": 2}], "a"),
    ],
)
def test_changes_of_lists(before: list[Any], after: list[Any], path: str) -> None:
    assert [change.path for change in value_changes({"a": before}, {"a": after})] == [path]


def test_added_and_removed_keys() -> None:
    assert value_changes({"a": 1, "b": 2}, {"b": 2, "c": 3}) == [
        ValueChange("a", 1, None),
        ValueChange("c", None, 3),
    ]


LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, 1.0, "a", "b", "two\nlines", ""])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c d", "0", "e.f/g'h"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_changes_match_those_of_a_simple_walk(before: Any, after: Any) -> None:
    assert value_changes(before, after, "p") == list(expected(before, after, "p"))


def expected(before: Any, after: Any, path: str) -> Iterator[ValueChange]:
    """Yield the changes by walking both values."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            if key in before and key in after:
                yield from expected(before[key], after[key], f"{path}.{key}")
            else:
                yield ValueChange(f"{path}.{key}", before.get(key), after.get(key))
    elif (
        isinstance(before, list)
        and isinstance(after, list)
        and len(before) == len(after)
        and all(isinstance(item, (dict, list)) for item in [*before, *after])
    ):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from expected(one, other, f"{path}[{index}]")
    elif before != after:
        yield ValueChange(path, before, after)

"""How far the report of a change goes into lists: item by item, or the list as one value."""

from __future__ import annotations

from typing import Any

import pytest

from gpuctl.gitops.objects import ValueChange, value_changes


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
def test_lists(before: list[Any], after: list[Any], path: str) -> None:
    assert [change.path for change in value_changes({"a": before}, {"a": after})] == [path]


def test_values_of_both_sides() -> None:
    assert list(value_changes({"a": 1, "b": 2}, {"b": 2, "c": 3})) == [
        ValueChange("a", 1, None),
        ValueChange("c", None, 3),
    ]

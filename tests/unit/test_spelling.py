"""Which names are suggested for a misspelt one."""

from __future__ import annotations

from itertools import permutations

import pytest

from gpuctl.language.spelling import all_nearest, did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "names", "meant"),
    [
        ("gpuTyp", ["cpu", "gpu-type"], "gpu-type"),
        ("NODE_1", ["node-1", "node-2"], "node-1"),
        ("abcde", ["abcxy"], "abcxy"),
        ("abcde", ["abxyz"], None),
        ("node", [], None),
    ],
)
def test_nearest_name_has_most_letters_of_the_word(word: str, names: list[str], meant: str | None) -> None:
    assert nearest(word, names) == meant
    assert did_you_mean(word, names) == (f"did you mean `{meant}`?" if meant else None)


def test_nearest_name_does_not_depend_on_the_order_of_names() -> None:
    assert {nearest("node-3", names) for names in permutations(["node-1", "node-2", "master"])} == {"node-2"}


def test_all_equally_near_names_are_found_in_order() -> None:
    assert all_nearest("node-3", ["node-2", "node-1", "nodes-of-a"]) == ["node-1", "node-2"]
    assert all_nearest("node-3", ["master"]) == []


def test_caller_may_ask_for_more_similar_names() -> None:
    assert nearest("role", ["quota", "roles"], 0.75) == "roles"
    assert nearest("source", ["resource-pool"], 0.75) is None
    assert nearest("source", ["resource-pool"]) == "resource-pool"

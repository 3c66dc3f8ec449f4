"""Digests in names and annotations are the same for every version of gpuctl."""

from __future__ import annotations

from gpuctl.objects.json_digest import json_digest


def test_digests_never_change() -> None:
    """Neither the order of keys nor text that is not ASCII or not UTF-8 matters."""
    assert json_digest({"b": [1, {"ü": "训", "a": None}], "a": 1.5}) == "af6bf9d6d578fcbadce60996dc236188"
    assert json_digest({"a": 1.5, "b": [1, {"a": None, "ü": "\ud800"}]}) == "ed21ac6b97b5f0c719e78d3cfca0df7c"

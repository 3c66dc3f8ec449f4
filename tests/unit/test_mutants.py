"""The mutation testing tool: its mutants compile, and the forked process runs the mutated function."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

from gpuctl.objects import durations
from mutants.changes import Change, changes
from mutants.forks import CannotChange, replace

CODE = """
LIMIT = 3

def first(items, least=1):
    '''Words.'''
    for item in items:
        if not item or len(item) < least:
            continue
        return max(item, LIMIT)
    raise ValueError(f"none of {len(items) + 1}")
"""


def changes_of(code: str) -> list[Change]:
    return changes(Path("code.py"), code.encode())


def test_mutants_of_a_function() -> None:
    assert [(item.was, item.now, item.scope) for item in changes_of(CODE)] == [
        ("3", "4", ""),
        ("3", "(2)", ""),
        ("1", "2", ""),
        ("1", "(0)", ""),
        ("not item or len(item) < least", "(not item and len(item) < least)", "first"),
        ("not item", "bool(item)", "first"),
        ("len(item) < least", "(len(item) <= least)", "first"),
        ("continue", "pass", "first"),
        ("return max(item, LIMIT)", "return None", "first"),
        ("return max(item, LIMIT)", "return True", "first"),
        ("return max(item, LIMIT)", "return False", "first"),
        ("max(item, LIMIT)", "min(item, LIMIT)", "first"),
        ("max(item, LIMIT)", "max(LIMIT, item)", "first"),
        ('raise ValueError(f"none of {len(items) + 1}")', "pass", "first"),
    ]


def test_replace_swaps_the_code_of_a_live_function() -> None:
    path = Path(durations.__file__)
    function = durations.suggest_duration
    own = function.__code__
    ways = changes(path, path.read_bytes())
    # The tool scans all objects of the process; a dead weak reference must not make it fail.
    gone = weakref.proxy(type("Gone", (), {})())
    try:
        replace(path, next(item for item in ways if item.scope == "suggest_duration" and item.in_function))
        assert function.__code__ is not own
    finally:
        function.__code__ = own
        assert type(gone) is weakref.ProxyType
    with pytest.raises(CannotChange):
        replace(path, Change(path, 1, "", "constant", 0, 0, "", "", False))

"""CONTRIBUTING's "Where to look" names files and functions that are there."""

from __future__ import annotations

import ast
import re

import pytest

from support.pages import ROOT, rows

SOURCES = {"gpuctl_server": ROOT / "server", "gpuctl_usage": ROOT / "server"}
"""Where packages are that the paths begin with; the others are of gpuctl itself."""
TABLE = rows("CONTRIBUTING.md", "Where to look")


def names_in(path: str) -> set[str]:
    """The functions, types and constants of a module."""
    found = set()
    source = SOURCES.get(path.partition("/")[0], ROOT / "compiler" / "gpuctl") / path
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_it_answers_at_least_twenty_questions() -> None:
    assert len({what for what, _, _ in TABLE}) >= 20


@pytest.mark.parametrize(("what", "where", "begin"), TABLE)
def test_what_is_named_is_there(what: str, where: str, begin: str) -> None:
    files = re.findall(r"`([^`]+\.py)`", where)
    # A file without a room is beside the one before it.
    paths = [name if "/" in name else f"{files[0].rpartition('/')[0]}/{name}".lstrip("/") for name in files]
    assert paths
    there = {name for path in paths for name in names_in(path)}
    wanted = re.findall(r"`(\w+)`", begin)
    assert wanted
    assert set(wanted) <= there, what

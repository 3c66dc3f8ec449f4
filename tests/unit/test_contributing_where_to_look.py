"""CONTRIBUTING's "Where to look" names existing files and functions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.pages import ROOT, rows

SOURCES = {"gpuctl_server": ROOT / "server", "gpuctl_usage": ROOT / "server", "sdk": ROOT}
"""Source directories by the first part of a path; other paths are in gpuctl itself."""
TABLE = rows("CONTRIBUTING.md", "Where to look")


def source_of(path: str) -> Path:
    """Return the file that a row names."""
    return SOURCES.get(path.partition("/")[0], ROOT / "compiler" / "gpuctl") / path


def names_in(path: str) -> set[str]:
    """Return the functions, classes and constants of a module."""
    found = set()
    for node in ast.parse(source_of(path).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_table_answers_at_least_twenty_questions() -> None:
    assert len({what for what, _, _ in TABLE}) >= 20


@pytest.mark.parametrize(("what", "where", "begin"), TABLE)
def test_named_files_and_functions_exist(what: str, where: str, begin: str) -> None:
    files = re.findall(r"`([^`]+\.py)`", where)
    # A file without a directory is in the directory of the first file.
    paths = [name if "/" in name else f"{files[0].rpartition('/')[0]}/{name}".lstrip("/") for name in files]
    assert paths
    there = {name for path in paths for name in names_in(path)}
    wanted = re.findall(r"`(\w+)`", begin)
    assert wanted
    assert set(wanted) <= there, what
    text = "".join(source_of(path).read_text(encoding="utf-8") for path in paths)
    assert [code for code in re.findall(r"GPU\d{3}", what) if f'"{code}"' not in text] == []


def test_paths_outside_the_table_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", "\n".join(lines)))
    assert {"apply/workflow.py", "usecases/changes/applying.py"} <= named
    places = (ROOT, ROOT / "compiler" / "gpuctl", ROOT / "server")
    assert not [name for name in named if not any((place / name).exists() for place in places)]

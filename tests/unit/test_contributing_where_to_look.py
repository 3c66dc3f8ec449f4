"""CONTRIBUTING's "Where to look" names existing files and functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from support.pages import ROOT, rows

SOURCES = {"gpuctl_server": ROOT / "server", "gpuctl_usage": ROOT / "server", "sdk": ROOT}
"""Source directories by the first part of a path; other paths are in gpuctl itself."""
FILES = re.compile(r"`([\w./-]+\.(?:py|go|js|yaml))`")
DEFINED = re.compile(r"(?m)^(?:export default function|export function|type) (\w+)")
"""Definitions in Go and JavaScript."""
TABLES = rows("CONTRIBUTING.md", "Where to look")


def source_of(path: str) -> Path:
    """Return the file that a row names."""
    return SOURCES.get(path.partition("/")[0], ROOT / "compiler" / "gpuctl") / path


def names_in(path: str) -> set[str]:
    """Return the functions, classes and constants of a module."""
    found = set()
    for node in ast.parse(source_of(path).read_text(encoding="utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found


def test_rows_have_one_topic_and_few_files() -> None:
    topics = [what for what, _, _ in TABLES]
    assert len(topics) > 200
    assert [what for what in topics if ";" in what] == []
    assert [topic for topic, number in Counter(topics).items() if number > 1] == []
    assert [what for what, where, _ in TABLES if len(FILES.findall(where)) > 2] == []


def test_named_files_and_functions_exist() -> None:
    for what, where, begin in TABLES:
        paths = FILES.findall(where)
        assert paths, what
        texts = {path: source_of(path).read_text(encoding="utf-8") for path in paths}
        wanted = set(re.findall(r"`(\w+)`", begin))
        assert wanted, what
        found = {name for path in paths if path.endswith(".py") for name in names_in(path)}
        found |= {word for path, text in texts.items() if not path.endswith(".py") for word in DEFINED.findall(text)}
        assert wanted <= found, what
        text = "".join(texts.values())
        assert [code for code in re.findall(r"GPU\d{3}", what) if f'"{code}"' not in text] == [], what


def test_paths_outside_the_table_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", "\n".join(lines)))
    assert {"apply/workflow.py", "usecases/changes/applying.py"} <= named
    places = (ROOT, ROOT / "compiler" / "gpuctl", ROOT / "server")
    assert not [name for name in named if not any((place / name).exists() for place in places)]

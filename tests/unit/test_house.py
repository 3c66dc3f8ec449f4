"""The house itself: what stands where, and what may not know of what."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def imported(path: Path) -> set[str]:
    """The last parts of all names that a module imports: modules, and what is taken from them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    return found


def test_no_test_module_is_imported() -> None:
    """What several tests use is in ``support/``: else a helper's change is one of another room's tests."""
    modules = {path.stem for path in TESTS.rglob("test_*.py")}
    assert "test_house" in modules
    wrong = {str(path.relative_to(TESTS)): sorted(imported(path) & modules) for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in wrong.items() if names} == {}

"""Import rules of the test suite."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]


def imported_names(path: Path) -> set[str]:
    """Return the last part of every name that a module imports: modules and their members."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.rpartition(".")[2] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.module or "").rpartition(".")[2], *(alias.name for alias in node.names)}
    return found


def test_no_test_module_is_imported() -> None:
    """Shared helpers belong in ``support/``. Otherwise a change to one test module breaks others."""
    modules = {path.stem for path in TESTS.rglob("test_*.py")}
    assert "test_test_imports" in modules
    wrong = {str(path.relative_to(TESTS)): sorted(imported_names(path) & modules) for path in TESTS.rglob("*.py")}
    assert {path: names for path, names in wrong.items() if names} == {}

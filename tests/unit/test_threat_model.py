"""Each promise of the threat model names existing tests; and a promise that no other test checks."""

from __future__ import annotations

import ast
import re

import pytest

from support.pages import ROOT, read, rows

MODEL = "docs/threat-model.md"
PROMISES = "What gpuctl never does"
REFERENCE = re.compile(r"`(?P<path>tests/[\w/]+\.py)::(?P<test>\w+)(?:\[(?P<case>[\w-]+)\])?`")

PROGRAMS = {
    "usecases/revisions/files_at_revision.py": "git",
    "apply/state/git_repository.py": "git",
    "kube/exec_plugin.py": "a credential plugin",
}
"""Modules that start programs, and the program of each."""

RUNNERS = re.compile(
    r"(eval|exec|__import__|os\.(system|popen|exec\w*|spawn\w*|posix_spawn\w*)|subprocess\.get\w*output)$"
)
"""Functions that run text as code or in a shell."""


@pytest.mark.parametrize("promise", rows(MODEL, PROMISES), ids=lambda row: row[0][:40])
def test_each_promise_names_existing_tests(promise: list[str]) -> None:
    named = list(REFERENCE.finditer(promise[1]))
    assert named, promise[0]
    assert REFERENCE.sub("", promise[1]).strip(", ") == "", "name only tests, as `tests/path.py::test_name`"
    for reference in named:
        tree = ast.parse(read(reference["path"]))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert reference["test"] in functions, reference[0]
        if reference["case"] is not None:
            assert (ROOT / "golden" / reference["case"]).is_dir(), reference[0]


def test_product_runs_no_shell_and_no_external_code() -> None:
    """Programs are started in three modules, with a list of arguments; no text is run as code."""
    product = ROOT / "compiler" / "gpuctl"
    starting = set()
    for path in product.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names]
                if "subprocess" in names or getattr(node, "module", None) == "subprocess":
                    starting.add(path.relative_to(product).as_posix())
                assert not {"pickle", "marshal", "shelve", "system", "popen"} & set(names), path
            if isinstance(node, ast.Call):
                assert not RUNNERS.match(ast.unparse(node.func)), f"{path}:{node.lineno}"
                assert "shell" not in {keyword.arg for keyword in node.keywords}, f"{path}:{node.lineno}"
    assert starting == set(PROGRAMS)

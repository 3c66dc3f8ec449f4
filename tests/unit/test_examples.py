"""The documents in ``examples/``: a comment with a command, no warnings, and a line in the list."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.pages import ROOT, rows
from support.repositories import gpuctl

EXAMPLES = ROOT / "examples"
JOBS, KUEUE, TOUR, TEAM, HAMI = (EXAMPLES / name for name in ("jobs", "kueue", "tour", "team-repo", "hami"))
ALONE = sorted(path for directory in (JOBS, KUEUE, TOUR, HAMI) for path in directory.glob("*.yaml"))
DOCUMENTS = [*ALONE, *sorted(TEAM.glob("[a-z]*.yaml"))]
DOCUMENTS += sorted(path for name in ("jobs", "pools") for path in (TEAM / name).rglob("*.yaml"))
_TOP = re.compile(r"# [A-Z].+\.\n# Try: (gpuctl .+)\nkind: ")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_command_at_the_top_runs_without_warnings(path: Path) -> None:
    found = _TOP.match(path.read_text(encoding="utf-8"))
    assert found, "the file does not begin with a sentence and `# Try: gpuctl ...`"
    directory = TEAM if TEAM in path.parents else ROOT
    _, *arguments = shlex.split(found[1])
    assert (directory / arguments[-1]).resolve() in (path, *path.parents), "the command is about another file"
    result = gpuctl(directory, *arguments)
    assert result.code == 0, result.err
    assert "warning" not in result.err


@pytest.mark.parametrize("directory", [JOBS, KUEUE, TOUR, TEAM, HAMI], ids=lambda path: path.name)
def test_directory_is_valid_under_strict(directory: Path) -> None:
    result = gpuctl(ROOT, "validate", "--strict", str(directory))
    assert (result.code, result.err) == (0, ""), result.out


@pytest.mark.parametrize("path", ALONE, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_document_is_valid_alone(path: Path) -> None:
    result = gpuctl(ROOT, "validate", "--strict", str(path))
    assert (result.code, result.err) == (0, ""), result.out


def test_list_of_examples_is_complete() -> None:
    page = "examples/README.md"
    listed = [
        re.findall(r"\((.+)\)", row[0])
        for row in (*rows(page, "Jobs"), *rows(page, "Shares of cards"), *rows(page, "Settings"))
    ]
    documents = sorted([*HAMI.iterdir(), *JOBS.glob("*.yaml")])
    assert sorted(listed) == [[str(path.relative_to(EXAMPLES))] for path in documents]
    directories = re.findall(r"^\| \[([\w-]+)\]\(\1\) \|", (EXAMPLES / "README.md").read_text(encoding="utf-8"), re.M)
    assert sorted(directories) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())

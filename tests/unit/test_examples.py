"""The documents of ``examples/tour`` and ``examples/team-repo``: a comment with a command, and no warnings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from support.repositories import gpuctl

ROOT = Path(__file__).resolve().parents[2]
TOUR, TEAM = ROOT / "examples" / "tour", ROOT / "examples" / "team-repo"
DOCUMENTS = [*sorted(TOUR.glob("*.yaml")), *sorted(TEAM.glob("[a-z]*.yaml"))]
DOCUMENTS += sorted(path for name in ("jobs", "pools") for path in (TEAM / name).rglob("*.yaml"))
_TOP = re.compile(r"# [A-Z].+\.\n# Try: (gpuctl .+)\nkind: ")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_command_at_the_top_runs_without_warnings(path: Path) -> None:
    found = _TOP.match(path.read_text(encoding="utf-8"))
    assert found, "the file does not begin with a sentence and `# Try: gpuctl ...`"
    directory = TEAM if TEAM in path.parents else ROOT
    _, *arguments = shlex.split(found[1])
    assert (directory / arguments[-1]).resolve() in (path, *path.parents), "the command is about another file"
    result = gpuctl(directory, *arguments)
    assert result.code == 0, result.err
    assert "warning" not in result.err


@pytest.mark.parametrize("directory", [TOUR, TEAM], ids=lambda path: path.name)
def test_directory_is_valid_under_strict(directory: Path) -> None:
    result = gpuctl(ROOT, "validate", "--strict", str(directory))
    assert (result.code, result.err) == (0, ""), result.out


@pytest.mark.parametrize("path", sorted(TOUR.glob("*.yaml")), ids=lambda path: path.name)
def test_file_of_the_tour_is_valid_alone(path: Path) -> None:
    result = gpuctl(ROOT, "validate", "--strict", str(path))
    assert (result.code, result.err) == (0, ""), result.out

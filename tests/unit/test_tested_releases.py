"""The releases of Kubernetes, Kueue, JobSet and LeaderWorkerSet in the documentation: those that the tests build."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.releases import releases

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["upgrades.md", "upgrades.zh-CN.md"])
def test_documented_releases_are_those_that_tests_build(page: str) -> None:
    rows = [line.split("|") for line in (DOCS / page).read_text().splitlines() if line.startswith("| ")]
    rules = {cells[1].strip().lower(): cells[2] for cells in rows}
    for program, release in releases().items():
        assert f" {release}" in rules[program]

"""The git work tree of a file: all parts of the program find the one that git finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.cli.output.repository_paths import repository_path
from gpuctl.frontend.code_tree import repository_of
from gpuctl.gitops.sources import build_sources


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a work tree with a directory in which `.git` is a broken link, which git ignores."""
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    jobs = tmp_path / "tree" / "jobs"
    jobs.mkdir()
    (jobs / ".git").symlink_to("nowhere")
    (jobs / "job.yaml").touch()
    return tmp_path / "tree"


def test_broken_link_is_no_work_tree(tree: Path) -> None:
    file = str(tree / "jobs" / "job.yaml")
    assert repository_of(str(tree / "jobs")) == str(tree)
    assert repository_path(file) == "jobs/job.yaml"
    (source,) = build_sources([file], tree / "jobs" / "rendered", None, lambda root: None)
    assert source.path == "jobs/job.yaml"


def test_root_of_a_work_tree_is_in_it(tree: Path) -> None:
    (tree / "module" / ".git").mkdir(parents=True)
    assert repository_path(str(tree / "module")) == "."

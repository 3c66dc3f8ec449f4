"""The commands of ``docs/gitops.md`` run from top to bottom in one directory."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from support.pages import assert_output, blocks, read

DOCUMENT = "docs/gitops.md"
NOT_RUN = {
    "kubectl apply -f application.yaml\n": "needs a cluster with Argo CD",
    **{block.text: "settings of Argo CD" for block in blocks(DOCUMENT) if "ignoreDifferences:" in block.text},
    "gpuctl drift git:origin/main jobs cluster.yaml --fail -o markdown > drift.md\n": "needs a cluster",
    next(block.text for block in blocks(DOCUMENT) if "  ignore:" in block.text): "settings of the platform file",
}
"""Code blocks that are not run, with the reason."""


@pytest.fixture
def reader(programs: Path) -> dict[str, str]:
    """Return the environment of a user who has installed gpuctl and configured a git identity."""
    who = {f"GIT_{who}_{what}": "dev@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PYTHONPATH"))}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    return {**kept, **who, "PATH": path, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def test_commands_of_gitops_docs_run_in_order(tmp_path: Path, reader: dict[str, str]) -> None:
    def shell(command: str, directory: Path, *codes: int) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command], cwd=directory, env=reader, capture_output=True, text=True
        )
        assert done.returncode in (codes or (0,)), f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    here = tmp_path
    left_out = []
    for block in blocks(DOCUMENT):
        if (name := block.note_after("file:")) is not None:
            (here / name).write_text(block.text, encoding="utf-8")
        elif (command := block.note_after("output:")) is not None:
            # The text of this block says that the change does not fit.
            code = 1 if "Does not fit" in block.text else 0
            assert_output(block.text, shell(command, here, code))
        elif block.note == "run":
            # `cd` in one block applies to the following blocks, as in a user's shell.
            here = Path(shell(f"{{ {block.text}\n}} > /dev/null\npwd -P", here).strip())
        elif block.note_after("from:") is None:
            left_out.append(block.text)
    assert left_out == list(NOT_RUN)
    assert here.name == "gpu-jobs"
    assert shell("git status --porcelain", here) == "?? application.yaml\n?? impact.md\n"
    assert (here / "impact.md").read_text().startswith("## GPU impact: +12 GPUs")
    assert shell("git log --format=%s", here) == "Fine-tune on two nodes\nThe first job\n"


def test_quoted_files_match_the_repository() -> None:
    quoted = [block for block in blocks(DOCUMENT) if block.note.startswith("from:")]
    assert len(quoted) == 2
    for block in quoted:
        assert block.text in read(block.note.removeprefix("from:").strip())
    (application,) = (block.text for block in blocks(DOCUMENT) if block.note == "file: application.yaml")
    assert yaml.safe_load(application) == yaml.safe_load(read("deploy/argocd/application.yaml"))


def test_build_for_argocd_warns_of_a_ttl(tmp_path: Path) -> None:
    from support.repositories import gpuctl, training

    (tmp_path / "a.yaml").write_text(training("a").replace("namespace: nlp", "namespace: nlp, ttl: 1d"))
    found = gpuctl(tmp_path, "build", "a.yaml", "-o", "rendered", "--gitops", "argocd")
    assert found.code == 0
    assert re.search(r"warning\[GPU\d+\]: .*ttl", found.err)

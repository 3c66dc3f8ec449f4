"""Messages about files in git: merge conflicts, links, repositories of other users."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import gpuctl
from gpuctl.gitops.build_error import RevisionError
from gpuctl.usecases.revisions.files_at_revision import read_revision
from support.repositories import Repository

JOB = "kind: compute\nversion: v0.1\njob: {name: a}\n"
IMAGE = "environment: {image: 'a:1'}\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"{JOB}<<<<<<< HEAD\n{IMAGE}=======\n{IMAGE}>>>>>>> theirs\n", 4),
        (f"{JOB}{IMAGE}=======\n{IMAGE}>>>>>>> theirs\n", 5),
        (f"<<<<<<< HEAD\n{JOB}||||||| base\n=======\n{JOB}>>>>>>> theirs\n{IMAGE}", 1),
        (f"{JOB}{IMAGE}---\n<<<<<<< HEAD\n{JOB}{IMAGE}=======\n>>>>>>> theirs\n", 6),
    ],
)
def test_merge_conflict_error_is_at_its_first_line(text: str, line: int) -> None:
    errors = [item for item in gpuctl.compile(gpuctl.Source("a.yaml", text)).diagnostics if item.code == "GPU004"]
    assert [error.message for error in errors] == ["this line is of a merge conflict that is not resolved"]
    assert errors[0].span is not None
    assert errors[0].span.line == line


def test_dangling_link_has_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").symlink_to("gone.yaml")
    (tmp_path / "b.yaml").write_text(JOB + IMAGE)
    for given in (tmp_path, tmp_path / "a.yaml"):
        (error,) = (item for item in gpuctl.compile(given).diagnostics if item.code == "GPU001")
        assert error.message.endswith(": it is a link to a file that does not exist")
        assert error.hint == "correct the link, or remove it"


def test_left_out_node_labels_are_noted_once() -> None:
    pool = "kind: pool\nversion: v0.1\npool: {{name: {0}}}\nnodes: {{{0}-1: {{gpu-type: A}}, {0}-2: {{gpu-type: A}}}}\n"
    result = gpuctl.compile(gpuctl.Source("p.yaml", pool.format("x") + "---\n" + pool.format("y")))
    (note,) = (item for item in result.diagnostics if item.code == "GPU606")
    assert note.message.startswith("the labels of the nodes of 2 pools (4) are left out")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_printed_command_trusts_another_users_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(tmp_path / "theirs and ours")
    repository.write("a.yaml", JOB + IMAGE)
    repository.commit()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    for name in ("SUDO_UID", "GIT_CONFIG_COUNT"):
        monkeypatch.delenv(name, raising=False)
    os.chown(repository.root, 12345, 12345)
    os.chown(repository.root / ".git", 12345, 12345)
    monkeypatch.chdir(repository.root)
    with pytest.raises(RevisionError) as caught:
        read_revision("HEAD", ["."])
    command = str(caught.value).rpartition("run `")[2].removesuffix("`")
    assert command == f"git config --global --add safe.directory '{repository.root}'"
    assert os.system(command) == 0
    assert len(read_revision("HEAD", ["."]).sources) == 1

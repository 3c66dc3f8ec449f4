"""Names of sources do not depend on the machine, and files too large for a manifest are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuctl.gitops import object_changes
from gpuctl.gitops.build_error import BuildError
from gpuctl.gitops.sources import source_names


def test_sources_are_named_relative_to_their_common_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("jobs", "pools"):
        (tmp_path / "team" / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    name = source_names(["team/jobs", str(tmp_path / "team/pools"), "-"])
    assert name("team/jobs/a.yaml") == "jobs/a.yaml"
    assert name(str(tmp_path / "team/pools/b.yaml")) == "pools/b.yaml"
    assert name("<stdin>") == "<stdin>"
    assert name("team/jobs/../pools/./c.yaml") == "pools/c.yaml"
    assert name("teams.yaml") == "../teams.yaml", "outside the directory, despite the common prefix"
    assert name(f"/{tmp_path}/team/jobs/d.yaml") == "jobs/d.yaml", "POSIX keeps two slashes at the beginning"
    assert source_names(["/a.yaml"])("//b.yaml") == "b.yaml"


def test_file_too_large_for_a_manifest_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n"
    (tmp_path / "a.yaml").write_text(text)
    monkeypatch.setattr(object_changes, "_LARGEST", len(text))
    assert [key.name for key in object_changes.objects_in(tmp_path)] == ["a"]
    monkeypatch.setattr(object_changes, "_LARGEST", len(text) - 1)
    with pytest.raises(BuildError, match="is too large to be a manifest"):
        object_changes.objects_in(tmp_path)

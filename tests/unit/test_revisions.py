"""Documents at a git revision are the same as in a checkout of it."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

import gpuctl as library
from gpuctl.gitops.build_error import RevisionError
from gpuctl.usecases.documents.change_options import DocumentOptions
from gpuctl.usecases.revisions.files_at_revision import read_revision
from gpuctl.usecases.revisions.revision_pairs import compiled_at
from support.repositories import Repository, gpuctl, pool, training

PRICED = "kind: platform\nversion: v0.1\nprices: {{a100: {price}}}\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "team")


def names_at(repository: Repository, reference: str, *inputs: str) -> list[str]:
    """Return the jobs at a revision, after checking that a checkout of it has the same ones."""
    paths = [os.path.join(repository.root, name) for name in inputs or (".",)]
    compilation = compiled_at(reference, DocumentOptions(paths))
    found = [] if compilation is None else compilation.objects
    commit = repository.git("rev-parse", f"{reference}^{{commit}}").strip()
    checkout = repository.root.parent / f"checkout-{commit}"
    if not checkout.exists():
        repository.git("clone", "--quiet", "--no-local", str(repository.root), str(checkout))
        Repository(checkout).git("checkout", "--quiet", commit)
    there = [os.path.join(checkout, name) for name in inputs or (".",) if (checkout / name).exists()]
    expected = library.compile(there, nodes=True, namespaces=True).objects if there else []
    assert json.dumps(found) == json.dumps(expected)
    return sorted(obj["metadata"]["name"] for obj in found if obj["kind"] == "Job")


def test_files_added_removed_renamed_and_moved(repository: Repository) -> None:
    repository.write("jobs/a.yaml", training("a"))
    repository.write("jobs/b.yaml", training("b"))
    first = repository.commit()
    repository.remove("jobs/b.yaml")
    repository.write("jobs/c.yaml", training("c"))
    second = repository.commit()
    repository.git("mv", "jobs/a.yaml", "jobs/renamed.yml")
    repository.git("mv", "jobs/c.yaml", ".")
    third = repository.commit()
    assert [names_at(repository, commit) for commit in (first, second, third)] == [["a", "b"], ["a", "c"], ["a", "c"]]
    assert [names_at(repository, commit, "jobs") for commit in (first, second, third)] == [
        ["a", "b"],
        ["a", "c"],
        ["a"],
    ]
    assert names_at(repository, first, "jobs/b.yaml") == ["b"]
    assert names_at(repository, second, "jobs/b.yaml") == []


def test_work_tree_and_index_are_not_read(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    repository.write("a.yaml", training("changed"))
    repository.write("untracked.yaml", training("untracked"))
    repository.write("staged.yaml", training("staged"))
    repository.git("add", "staged.yaml")
    before = repository.git("status", "--porcelain")
    assert names_at(repository, "HEAD") == ["a"]
    assert repository.git("status", "--porcelain") == before


def test_revision_by_hash_tag_branch_or_expression(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    first = repository.commit()
    repository.git("tag", "--annotate", "--message", "a tag", "v1")
    repository.write("b.yaml", training("b"))
    repository.commit()
    for reference in (first, first[:9], "v1", "HEAD~1", "main^", "refs/tags/v1", "v1^{commit}"):
        assert names_at(repository, reference) == ["a"], reference


@pytest.mark.parametrize(
    "reference", ["nowhere", "--upload-pack=x", "-", "", "HEAD..HEAD", "^HEAD", "HEAD:a.yaml", "HEAD^{tree}", "HEAD\nx"]
)
def test_invalid_revisions_are_rejected(repository: Repository, reference: str) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    found = repository.gpuctl("impact", f"--from={reference}", "a.yaml")
    assert (found.code, found.out) == (2, "")
    assert re.search("there is no revision `.*` here|`.*` is not a revision|the value is empty", found.err)
    assert "Traceback" not in found.err


def test_git_option_as_a_revision_has_no_effect(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    for reference in ("--output=made", "--git-dir=/", "--exec=touch made"):
        assert repository.gpuctl("impact", "--from", reference, "a.yaml").code == 2
    assert sorted(path.name for path in repository.root.iterdir()) == [".git", "a.yaml"]


def test_shallow_clone_error_names_git_fetch(repository: Repository, tmp_path: Path) -> None:
    repository.write("a.yaml", training("a"))
    first = repository.commit()
    repository.write("b.yaml", training("b"))
    repository.commit()
    repository.git("clone", "--quiet", "--depth=1", f"file://{repository.root}", str(tmp_path / "shallow"))
    for reference in (first, "HEAD~1"):
        found = gpuctl(tmp_path / "shallow", "impact", "--from", reference)
        assert found.code == 2
        assert "git fetch origin" in found.err
    assert gpuctl(tmp_path / "shallow", "impact", "--from", "HEAD").code == 0


def test_directory_outside_git_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(training("a"))
    found = gpuctl(tmp_path, "impact", "--from", "HEAD", "a.yaml")
    assert found.code == 2
    assert "not a git repository" in found.err


def test_missing_git_is_reported(repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 2
    assert "git is not installed" in found.err


def test_repository_without_commits_has_no_revision(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 2
    assert "there is no revision `HEAD` here" in found.err


def test_path_outside_the_repository_is_rejected(repository: Repository, tmp_path: Path) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    (tmp_path / "other.yaml").write_text(training("other"))
    found = repository.gpuctl("impact", "--from", "HEAD", "a.yaml", "../other.yaml")
    assert found.code == 2
    assert "`../other.yaml` is not in the git repository" in found.err


def test_standard_input_has_no_revisions(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    for inputs in (["-"], ["a.yaml", "-"]):
        found = repository.gpuctl("impact", "--from", "HEAD", "--to", "HEAD", *inputs)
        assert found.code == 2
        assert "standard input has no revisions" in found.err


def test_path_missing_on_both_sides_is_rejected(repository: Repository) -> None:
    repository.write("jobs/a.yaml", training("a"))
    repository.commit()
    for more in ([], ["--to", "HEAD"]):
        found = repository.gpuctl("impact", "--from", "HEAD", *more, "jobs", "jbos")
        assert found.code == 2
        assert "`jbos` exists on neither side" in found.err


def test_inputs_are_relative_to_the_working_directory(repository: Repository, tmp_path: Path) -> None:
    repository.write("jobs/a.yaml", training("a"))
    repository.write("b.yaml", training("b"))
    repository.commit()
    for directory, name, jobs in (
        (repository.root / "jobs", ".", ["a"]),
        (repository.root / "jobs", "..", ["a", "b"]),
        (repository.root / "jobs", "../b.yaml", ["b"]),
        (tmp_path, "team", ["a", "b"]),
    ):
        before = Path.cwd()
        os.chdir(directory)
        try:
            found = compiled_at("HEAD", DocumentOptions([name]))
        finally:
            os.chdir(before)
        assert found is not None
        assert sorted(document.model.job.name for document in found.documents) == jobs  # type: ignore[union-attr]


def test_removed_directory_is_read_at_the_revision(repository: Repository) -> None:
    repository.write("old/deep/a.yaml", training("a"))
    repository.commit()
    repository.remove("old")
    for name in ("old", "old/deep", "old/deep/a.yaml"):
        found = repository.gpuctl("impact", "--from", "HEAD", "-o", "json", name)
        assert (found.code, [job["after"] for job in json.loads(found.out)["jobs"]]) == (0, [None]), found.err


def test_empty_input_beside_another_is_compared(repository: Repository) -> None:
    repository.write("a/a.yaml", training("a"))
    repository.write("b/b.yaml", training("b"))
    repository.commit()
    repository.remove("b/b.yaml")
    found = repository.gpuctl("impact", "--from", "HEAD", "-o", "json", "a", "b")
    assert [(job["name"], job["after"]) for job in json.loads(found.out)["jobs"]] == [("b", None)], found.err


# The platform ----------------------------------------------------------------------------------------------


def price_at(repository: Repository, reference: str, *inputs: str) -> float | None:
    found = compiled_at(reference, DocumentOptions([str(repository.root / name) for name in inputs]))
    assert found is not None
    return found.settings.platform.prices.get("a100")


def test_platform_is_read_at_the_revision(repository: Repository) -> None:
    repository.write("jobs/a.yaml", training("a"))
    repository.write("platform.yaml", PRICED.format(price=1))
    first = repository.commit()
    repository.write("platform.yaml", PRICED.format(price=2))
    second = repository.commit()
    repository.write("jobs/platform.yaml", PRICED.format(price=3))
    third = repository.commit()
    repository.remove("jobs/platform.yaml")
    repository.remove("platform.yaml")
    fourth = repository.commit()
    repository.write("platform.yaml", PRICED.format(price=5))
    found = [price_at(repository, commit, "jobs") for commit in (first, second, third, fourth)]
    assert found == [1, 2, 3, None]
    assert price_at(repository, third, "jobs/a.yaml") == 3


def test_platforms_above_and_below_the_input_must_agree(repository: Repository) -> None:
    """A platform below the input is one of its documents, one above it is discovered: they must agree."""
    repository.write("platform.yaml", PRICED.format(price=2))
    repository.write("teams/a.yaml", training("a"))
    repository.write("teams/settings.yaml", PRICED.format(price=2))
    repository.commit()
    assert price_at(repository, "HEAD", "teams") == 2
    assert names_at(repository, "HEAD", "teams") == ["a"]
    repository.write("platform.yaml", PRICED.format(price=1))
    repository.commit()
    for arguments in (("validate", "teams"), ("impact", "--from", "HEAD", "teams")):
        found = repository.gpuctl(*arguments)
        said = found.out + found.err
        assert found.code == (1 if arguments[0] == "validate" else 2)
        assert "error[GPU603]: a second platform, different from the first" in said
        assert "platform.yaml" in said
        assert "teams/settings.yaml" in said


def test_platforms_of_every_input_count_at_a_revision(repository: Repository) -> None:
    repository.write("a/platform.yaml", PRICED.format(price=1))
    repository.write("a/job.yaml", training("a"))
    repository.write("b/job.yaml", training("b"))
    repository.commit()
    for inputs in (("a/job.yaml", "b/job.yaml"), ("b/job.yaml", "a/job.yaml")):
        assert price_at(repository, "HEAD", *inputs) == 1
    repository.write("b/platform.yaml", PRICED.format(price=2))
    repository.commit()
    assert "error[GPU603]" in repository.gpuctl("impact", "--from", "HEAD", "b/job.yaml", "a/job.yaml").err


def test_platforms_above_the_repository_do_not_count(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "platform.yaml").write_text(PRICED.format(price=9))
    repository.write("a.yaml", training("a"))
    repository.commit()
    assert price_at(repository, "HEAD", ".") is None


def test_named_platform_file_at_a_revision(repository: Repository, tmp_path: Path) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    repository.write("settings/own.yaml", PRICED.format(price=1))
    repository.commit()
    repository.write("settings/own.yaml", PRICED.format(price=2))
    (tmp_path / "shared.yaml").write_text(PRICED.format(price=7))
    inputs = [str(repository.root / "a.yaml")]

    def prices(name: str, *references: str | None) -> list[float | None]:
        found = [compiled_at(reference, DocumentOptions(inputs, name)) for reference in references]
        return [item and item.settings.platform.prices.get("a100") for item in found]

    assert prices(str(repository.root / "settings/own.yaml"), "HEAD~1", "HEAD", None) == [None, 1, 2]
    assert prices(str(tmp_path / "shared.yaml"), "HEAD", None) == [7, 7]
    with pytest.raises(RevisionError, match="there is no platform file"):
        compiled_at("HEAD", DocumentOptions(inputs, str(repository.root / "settings/won.yaml")))


# Other files beside documents -------------------------------------------------------------------------------


def test_foreign_and_hidden_yaml_is_skipped(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.write("chart/values.yaml", "replicas: 3\n")
    repository.write("chart/templates/x.yaml", "kind: {{ .Values.kind }}\n  name: [\n")
    repository.write(".github/workflows/ci.yaml", training("hidden"))
    repository.write(".hidden.yaml", training("hidden"))
    repository.write("notes.txt", training("text"))
    repository.commit()
    assert names_at(repository, "HEAD") == ["a"]
    assert names_at(repository, "HEAD", "notes.txt") == ["text"]
    assert names_at(repository, "HEAD", ".github") == ["hidden"]


def test_only_foreign_yaml_gives_no_documents(repository: Repository) -> None:
    repository.write("values.yaml", "replicas: 3\n")
    repository.commit()
    assert compiled_at("HEAD", DocumentOptions([str(repository.root)])) is None
    repository.write("a.yaml", training("a"))
    found = repository.gpuctl("impact", "--from", "HEAD", "-o", "json")
    assert (found.code, [job["before"] for job in json.loads(found.out)["jobs"]]) == (0, [None])


def test_rendered_directory_is_skipped(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    assert repository.gpuctl("build", ".", "-o", "rendered").code == 0
    repository.commit()
    assert names_at(repository, "HEAD") == ["a"]
    repository.write("a.yaml", training("a", gpu=2))
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert (found.code, found.err) == (0, "")
    assert "-2 GPUs; 1 object changed" in found.out
    assert "GPU105" not in repository.gpuctl("validate", ".").out


def test_file_that_is_not_utf8_is_reported(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.write("b.yaml", b"kind: training\n\xff\n")
    repository.commit()
    repository.remove("b.yaml")
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert (found.code, found.out) == (2, "")
    assert "byte 0xff, which is not UTF-8" in found.err
    assert "b.yaml@" in found.err


def test_file_names_that_are_not_utf8(repository: Repository) -> None:
    for name in (b"caf\xe9.yaml", "名.yaml".encode(), b'a b\tc\nd".yaml'):
        path = os.path.join(os.fsencode(repository.root), name)
        with open(path, "w") as stream:
            stream.write(training(f"job-{len(name)}"))
    repository.commit()
    assert names_at(repository, "HEAD") == ["job-13", "job-8", "job-9"]
    with open(os.path.join(os.fsencode(repository.root), b"caf\xe9.yaml"), "w") as stream:
        stream.write("kind: training\n")
    repository.commit()
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 2
    assert "Traceback" not in found.err


def test_crlf_and_byte_order_mark_are_ignored(repository: Repository) -> None:
    repository.write("a.yaml", b"\xef\xbb\xbf" + training("a").replace("\n", "\r\n").encode())
    repository.commit()
    assert names_at(repository, "HEAD") == ["a"]
    repository.write("a.yaml", training("a"))
    assert "no object changes" in repository.gpuctl("impact", "--from", "HEAD").out


def test_symlinks_are_followed(repository: Repository) -> None:
    repository.write("shared/a.yaml", training("a"))
    repository.write("shared/pool.yaml", pool({"n1": "gpu-type: A, gpu-count: 8"}))
    (repository.root / "team").mkdir()
    (repository.root / "team" / "a.yaml").symlink_to("../shared/a.yaml")
    (repository.root / "team" / "again.yaml").symlink_to("a.yaml")
    (repository.root / "team" / "folder.yaml").symlink_to("../shared")
    repository.commit()
    assert names_at(repository, "HEAD", "team") == ["a"]
    assert names_at(repository, "HEAD", ".") == ["a"]
    assert "no object changes" in repository.gpuctl("impact", "--from", "HEAD", "team").out


@pytest.mark.parametrize("target", ["/etc/hostname", "../../outside.yaml", "gone.yaml", "loop.yaml"])
def test_dangling_symlinks_are_reported(repository: Repository, target: str) -> None:
    repository.write("a.yaml", training("a"))
    (repository.root / "loop.yaml").symlink_to(target)
    repository.commit()
    repository.remove("loop.yaml")
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 2
    assert "leads to no file of the repository" in found.err


def test_submodules_are_read_if_checked_out(repository: Repository, tmp_path: Path) -> None:
    inner = Repository(tmp_path / "inner")
    inner.write("shared.yaml", training("shared"))
    inner.commit()
    repository.write("a.yaml", training("a"))
    repository.git("submodule", "--quiet", "add", str(inner.root), "vendor")
    first = repository.commit()
    sub = Repository(repository.root / "vendor")
    sub.write("more.yaml", training("more"))
    sub.commit()
    repository.commit()

    def jobs(reference: str | None) -> list[str]:
        found = compiled_at(reference, DocumentOptions([str(repository.root)]))
        assert found is not None
        return sorted(document.model.job.name for document in found.documents)  # type: ignore[union-attr]

    assert jobs(first) == ["a", "shared"]
    assert jobs("HEAD") == jobs(None) == ["a", "more", "shared"]
    # A submodule that is not checked out does not exist, on disk and at any revision.
    shutil.rmtree(repository.root / "vendor")
    (repository.root / "vendor").mkdir()
    assert jobs(first) == jobs("HEAD") == jobs(None) == ["a"]


def test_environment_of_a_git_hook_is_ignored(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Repository(tmp_path / "other")
    other.write("b.yaml", training("b"))
    other.commit()
    repository.write("a.yaml", training("a"))
    repository.commit()
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "nowhere")
    found = read_revision("HEAD", [str(repository.root)])
    assert [source.name for source in found.sources] == [f"a.yaml@{found.commit[:10]}"]


def test_missing_git_object_is_reported(repository: Repository) -> None:
    repository.write("a.yaml", training("a"))
    repository.commit()
    blob = repository.git("rev-parse", "HEAD:a.yaml").strip()
    repository.remove(f".git/objects/{blob[:2]}/{blob[2:]}")
    found = repository.gpuctl("impact", "--from", "HEAD")
    assert found.code == 2
    assert f"git lacks the file {blob}" in found.err

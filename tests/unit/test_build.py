"""``gpuctl build``: the files it writes, which files it owns, and its errors."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import yaml

from gpuctl.cli.main import cli
from gpuctl.gitops.layout import path_of
from gpuctl.gitops.manifest import MANIFEST, merge_manifests, parse_manifest
from support.repositories import Outcome

ROOT = Path(__file__).resolve().parents[2]
QUOTA = "kind: quota\nversion: v0.1\nmetadata: {name: teams}\nusers:\n  li-si: {gpu: 4}\n"
POOL = "kind: pool\nversion: v0.1\nmetadata: {name: a100}\nnodes:\n  gpu-1: {gpu-type: A100-80G}\n"


def training(name: str, image: str = "registry.example.com/train:v1", more: str = "") -> str:
    return (
        f"kind: training\nversion: v0.1\njob:\n  name: {name}\n  namespace: team-a\n{more}"
        f'environment:\n  image: {image}\n  command: ["python", "train.py"]\n'
        "resources:\n  gpu: 4\n  cpu: 32\n  memory: 128Gi\n"
    )


Build = Callable[..., Outcome]


@pytest.fixture
def build() -> Build:
    def call(*arguments: str | Path) -> Outcome:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                # Not `build`'s command object: click would cache its help without the group's `-h`.
                code = cli.main(["build", *map(str, arguments)], "gpuctl", standalone_mode=False)
            except click.ClickException as error:
                error.show()
                code = error.exit_code
        return Outcome(code, out.getvalue(), err.getvalue())

    return call


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a job and a quota, which is the current directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "src/jobs").mkdir(parents=True)
    (tmp_path / "src/jobs/sft.yaml").write_text(training("sft"))
    (tmp_path / "src/quota.yaml").write_text(QUOTA)
    return tmp_path


def tree(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def is_unchanged(here: Path, before: dict[str, bytes]) -> bool:
    return tree(here) == before


EXPECTED_FILES = {
    "_cluster/namespace-li-si.yaml",
    "_cluster/namespace-team-a.yaml",
    "_cluster/priorityclass-gpuctl-medium.yaml",
    "li-si/limitrange-teams-li-si.yaml",
    "li-si/resourcequota-teams-li-si.yaml",
    "team-a/job-sft.yaml",
}


def test_each_object_is_written_to_its_own_file(build: Build, here: Path) -> None:
    found = build("src", "-o", "rendered")
    assert (found.code, found.err) == (0, "")
    paths = set(tree(here / "rendered")) - {MANIFEST}
    assert paths == EXPECTED_FILES
    for path in paths:
        (obj,) = yaml.safe_load_all((here / "rendered" / path).read_text())
        assert path == path_of(obj)
    assert found.out.splitlines() == [*(f"created {path}" for path in sorted(paths)), f"rendered: {len(paths)} created"]


def test_manifest_lists_hashes_and_sources(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    data = (here / "rendered" / MANIFEST).read_bytes()
    head, source, *lines = data.decode().splitlines()
    assert head.startswith("# gpuctl-manifest 1: ")
    assert source == '# source: {"path": "src"}'
    entries = [json.loads(line) for line in lines]
    by_path = {entry["path"]: entry for entry in entries}
    assert list(by_path) == sorted(set(tree(here / "rendered")) - {MANIFEST})
    for path, entry in by_path.items():
        assert entry["sha256"] == hashlib.sha256((here / "rendered" / path).read_bytes()).hexdigest()
    assert by_path["team-a/job-sft.yaml"]["source"] == "jobs/sft.yaml"
    assert by_path["li-si/resourcequota-teams-li-si.yaml"]["source"] == "quota.yaml"
    assert by_path["_cluster/namespace-team-a.yaml"]["shared"] is True


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85"])
def test_unicode_line_separator_in_a_file_name_is_kept(build: Build, here: Path, sign: str) -> None:
    """Unicode has more line separators than YAML and JSON; a line of the manifest ends at a line feed only."""
    build("src", "-o", "rendered")
    (here / "src/jobs/sft.yaml").rename(here / f"src/jobs/s{sign}ft.yaml")
    assert build("src", "-o", "rendered").code == 0
    manifest = (here / "rendered" / MANIFEST).read_bytes()
    before = written(here)
    assert build("src", "-o", "rendered").code == 0
    assert build("src", "-o", "rendered", "--check").code == 0
    assert written(here) == before
    entries = parse_manifest(manifest, MANIFEST)
    assert set(entries) == set(tree(here / "rendered")) - {MANIFEST}
    line = f'{{"path": "team-a/job-other.yaml", "sha256": "0", "source": "a{sign}.yaml"}}\n'.encode()
    assert parse_manifest(merge_manifests(manifest, line), MANIFEST) == {
        **entries,
        "team-a/job-other.yaml": frozenset("0"),
    }
    assert parse_manifest(manifest.replace(b"\n", b"\r\n"), MANIFEST) == entries


def lines_without_sources(manifest: bytes) -> list[bytes]:
    return [line for line in manifest.splitlines() if not line.startswith(b"# source: ")]


def written(here: Path) -> dict[Path, tuple[int, ...]]:
    """Return what any write would change of each file; the access time, which reads change, is left out."""
    stats = {path: path.stat() for path in here.rglob("*")}
    return {path: (at.st_ino, at.st_mode, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for path, at in stats.items()}


def test_second_build_writes_no_file(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    before = written(here)
    found = build("src", "-o", "rendered")
    assert (found.code, found.out) == (0, f"rendered: {len(tree(here / 'rendered')) - 1} unchanged\n")
    assert written(here) == before


def test_build_keeps_the_inode_of_the_directory(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    before = (here / "rendered").stat().st_ino
    (here / "src/jobs/sft.yaml").write_text(training("sft", "other:v2"))
    assert build("src", "-o", "rendered").out.startswith("changed team-a/job-sft.yaml\n")
    assert (here / "rendered").stat().st_ino == before


def test_stale_files_are_removed_and_foreign_files_kept(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    (here / "rendered/team-a/NOTES.md").write_text("foreign")
    (here / "rendered/li-si/patch.yaml").symlink_to("nowhere")
    (here / "src/jobs/sft.yaml").rename(here / "sft.yaml")
    (here / "src/quota.yaml").write_text(QUOTA.replace("li-si", "wang-wu"))
    inode = (here / "rendered/team-a/NOTES.md").stat().st_ino
    found = build("src", "-o", "rendered")
    assert "removed team-a/job-sft.yaml" in found.out
    assert set(tree(here / "rendered")) == {
        MANIFEST,
        "_cluster/namespace-li-si.yaml",
        "_cluster/namespace-team-a.yaml",
        "_cluster/namespace-wang-wu.yaml",
        "team-a/NOTES.md",
        "wang-wu/limitrange-teams-wang-wu.yaml",
        "wang-wu/resourcequota-teams-wang-wu.yaml",
    }
    assert (here / "rendered/team-a/NOTES.md").stat().st_ino == inode
    assert os.readlink(here / "rendered/li-si/patch.yaml") == "nowhere"
    (here / "rendered/li-si/patch.yaml").unlink()
    (here / "src/quota.yaml").unlink()
    (here / "src/pool.yaml").write_text(POOL)
    build("src", "-o", "rendered")
    assert sorted(path.name for path in (here / "rendered").iterdir() if path.is_dir()) == [
        "_cluster",
        "gpuctl-system",
        "li-si",
        "team-a",
    ]


def test_build_without_documents_fails_and_removes_nothing(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    shutil.rmtree(here / "src")
    (here / "src").mkdir()
    before = tree(here)
    found = build("src", "-o", "rendered")
    assert (found.code, found.out) == (1, "")
    assert "no .yaml or .yml file" in found.err
    assert is_unchanged(here, before)


def test_invalid_document_prevents_all_writes(build: Build, here: Path) -> None:
    (here / "src/bad.yaml").write_text(training("bad").replace("gpu: 4", "gpu: four"))
    before = tree(here)
    assert build("src", "-o", "rendered").code == 1
    assert is_unchanged(here, before)


# Edits by hand ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stale", [False, True])
def test_manual_edit_is_reported_and_kept(build: Build, here: Path, stale: bool) -> None:
    build("src", "-o", "rendered")
    edited = here / "rendered/team-a/job-sft.yaml"
    edited.write_text(edited.read_text() + "# by hand\n")
    (here / "src/quota.yaml").write_text(QUOTA.replace("4", "8"))
    if stale:
        (here / "src/jobs/sft.yaml").unlink()
    before = tree(here)
    found = build("src", "-o", "rendered")
    assert (found.code, found.out) == (1, "")
    assert found.err == (
        "error: `rendered/team-a/job-sft.yaml` was edited by hand: move the edit to its document; --force drops it\n"
    )
    assert is_unchanged(here, before)
    checked = build("src", "-o", "rendered", "--check")
    assert checked.code == 1
    assert f"  {'stale' if stale else 'differs':<7} team-a/job-sft.yaml (edited by hand)\n" in checked.out
    assert "-# by hand\n" in checked.out
    assert is_unchanged(here, before)
    assert build("src", "-o", "rendered", "--force").code == 0
    assert edited.exists() != stale
    assert build("src", "-o", "rendered", "--check").code == 0


def test_manually_deleted_file_is_written_again(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    before = tree(here)
    (here / "rendered/team-a/job-sft.yaml").unlink()
    (here / "rendered/team-a").rmdir()
    assert "  missing team-a/job-sft.yaml\n" in build("src", "-o", "rendered", "--check").out
    assert build("src", "-o", "rendered").out.startswith("created team-a/job-sft.yaml\n")
    assert is_unchanged(here, before)


def test_conflict_markers_in_the_manifest_keep_files_owned(build: Build, here: Path) -> None:
    """With conflict markers the manifest still lists the files of both sides; the next build rewrites it."""
    build("src", "-o", "rendered")
    before = tree(here)
    path = here / "rendered" / MANIFEST
    lines = path.read_text().splitlines(keepends=True)
    theirs = lines[-1].replace(json.loads(lines[-1])["sha256"], "0" * 64)
    path.write_text("".join([*lines[:-1], "<<<<<<< HEAD\n", theirs, "=======\n", lines[-1], ">>>>>>> topic\n"]))
    assert build("src", "-o", "rendered", "--check").code == 1
    assert build("src", "-o", "rendered").code == 0
    assert is_unchanged(here, before)


# --check ------------------------------------------------------------------------------------------------------


def test_check_prints_differences_and_writes_nothing(build: Build, here: Path) -> None:
    before = tree(here)
    missing = build("src", "-o", "rendered", "--check")
    assert missing.code == 1
    assert "rendered is out of date:\n" in missing.out
    assert "  missing team-a/job-sft.yaml\n" in missing.out
    assert is_unchanged(here, before)
    assert not (here / "rendered").exists()
    build("src", "-o", "rendered")
    assert build("src", "-o", "rendered", "--check") == Outcome(0, "rendered is up to date\n", "")
    (here / "src/jobs/sft.yaml").write_text(training("sft", "other:v2"))
    before = tree(here)
    found = build("src", "-o", "rendered", "--check")
    assert found.code == 1
    assert found.out.startswith(
        "rendered is out of date:\n  differs .gpuctl-manifest\n  differs team-a/job-sft.yaml\n"
        "--- rendered (now)/team-a/job-sft.yaml\n+++ rendered (built)/team-a/job-sft.yaml\n"
    )
    assert "-        image: registry.example.com/train:v1\n+        image: other:v2\n" in found.out
    assert is_unchanged(here, before)


def _edit_keeping_size_and_times(path: Path) -> None:
    """Edit a file and restore its size and times, so that only its content differs."""
    seen = path.stat()
    path.write_bytes(path.read_bytes().replace(b"train:v1", b"train:v2"))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (seen.st_size, seen.st_mtime_ns)


def _replace_by_link(path: Path) -> None:
    path.rename(path.with_name("aside"))
    path.symlink_to("aside")


DIFFERENCES: dict[str, tuple[Callable[[Path], object], str]] = {
    "another character, size and times as before": (_edit_keeping_size_and_times, "differs"),
    "a byte more": (lambda path: path.write_bytes(path.read_bytes() + b"\n"), "differs"),
    "empty": (lambda path: path.write_bytes(b""), "differs"),
    "gone": (lambda path: path.unlink(), "missing"),
    "a link to the same content": (_replace_by_link, "differs"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "differs"),
}


@pytest.mark.parametrize("how", DIFFERENCES)
def test_check_detects_any_changed_file(build: Build, here: Path, how: str) -> None:
    build("src", "-o", "out")
    assert build("src", "-o", "out", "--check") == Outcome(0, "out is up to date\n", "")
    change, word = DIFFERENCES[how]
    change(here / "out/team-a/job-sft.yaml")
    found = build("src", "-o", "out", "--check")
    assert (found.code, found.out.splitlines()[0]) == (1, "out is out of date:")
    assert f"  {word:<7} team-a/job-sft.yaml" in found.out


def test_manifest_with_json_escapes_is_equivalent(build: Build, here: Path) -> None:
    """An escaped path of a kept namespace is recognized."""
    build("src", "-o", "out")
    (here / "src/quota.yaml").unlink()
    manifest = here / "out" / MANIFEST
    before = build("src", "-o", "out", "--check").err
    assert before.startswith("note: no document needs the namespace")
    manifest.write_text(manifest.read_text().replace("_cluster/namespace-", "_cluster\\/n\\u0061mespace-"))
    assert build("src", "-o", "out", "--check").err == before


def test_check_masks_credentials(build: Build, here: Path) -> None:
    token = "hf_" + "abcdefghijklmnopqrst"
    (here / "src/jobs/sft.yaml").write_text(training("sft").replace("train.py", f"--token={token}"))
    found = build("src", "-o", "rendered", "--check")
    assert "--token=" in found.out
    assert token not in found.out


def test_identical_files_without_a_manifest_are_adopted(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    before = tree(here)
    (here / "rendered" / MANIFEST).unlink()
    assert build("src", "-o", "rendered").code == 0
    assert is_unchanged(here, before)


# Options ------------------------------------------------------------------------------------------------------


def test_kustomization_lists_files_in_apply_order(build: Build, here: Path) -> None:
    build("src", "-o", "rendered", "--kustomization")
    value = yaml.safe_load((here / "rendered/kustomization.yaml").read_text())
    assert value["kind"] == "Kustomization"
    assert sorted(value["resources"]) == sorted(set(tree(here / "rendered")) - {MANIFEST, "kustomization.yaml"})
    assert value["resources"][0].startswith("_cluster/namespace-"), "in apply order"
    assert "removed kustomization.yaml" in build("src", "-o", "rendered").out


def test_foreign_kustomization_is_not_replaced(build: Build, here: Path) -> None:
    (here / "rendered").mkdir()
    (here / "rendered/kustomization.yaml").write_text("resources: []\n")
    before = tree(here)
    for options in ([], ["--force"]):
        found = build("src", "-o", "rendered", "--kustomization", *options)
        assert (found.code, found.out) == (1, "")
        assert found.err == (
            "error: `rendered/kustomization.yaml` was not written by gpuctl, which needs the name: move it away\n"
        )
        assert is_unchanged(here, before)
    assert build("src", "-o", "rendered").code == 0


def test_build_options_change_the_written_objects(build: Build, here: Path) -> None:
    (here / "src/pool.yaml").write_text(POOL)
    build("src", "-o", "plain")
    build("src", "-o", "argo", "--gitops", "argocd", "--nodes", "--embed")
    build("src", "-o", "bare", "--no-shared")
    (job,) = (here / "argo/team-a").glob("job-sft-??????.yaml")
    assert "argocd.argoproj.io/sync-options" not in job.read_text()
    assert "/document:" in job.read_text()
    assert "Prune=false,Delete=false" in (here / "argo/_cluster/namespace-team-a.yaml").read_text()
    assert "argocd" not in (here / "plain/team-a/job-sft.yaml").read_text()
    assert (here / "argo/_cluster/node-gpu-1.yaml").exists()
    assert not (here / "plain/_cluster/node-gpu-1.yaml").exists()
    assert (here / "plain/_cluster").exists()
    assert not (here / "bare/_cluster").exists()


def test_namespace_file_is_kept_until_it_is_removed_by_name(build: Build, here: Path) -> None:
    """A controller that prunes would delete the namespace with everything in it."""
    options = ("src", "-o", "rendered", "--gitops", "argocd", "--kustomization")
    build(*options)
    (here / "src/jobs/sft.yaml").unlink()
    path = here / "rendered/_cluster/namespace-team-a.yaml"
    before = path.read_bytes()
    for _ in range(2):
        found = build(*options)
        assert found.code == 0
        assert "no document needs the namespace team-a; its file stays" in found.err
        assert "`--remove-namespace team-a` removes the file" in found.err
        assert path.read_bytes() == before
        assert "_cluster/namespace-team-a.yaml" in (here / "rendered/kustomization.yaml").read_text()
    assert build(*options, "--check").code == 0
    # With --no-shared too: another repository may not have the file yet.
    assert "namespace team-a" in build(*options, "--no-shared", "--check").err
    refused = build(*options, "--remove-namespace", "li-si")
    assert (refused.code, refused.out) == (1, "")
    assert "documents need the namespace" in refused.err
    refused = build(*options, "--remove-namespace", "team-b")
    assert refused.code == 1
    assert "has no file for this namespace" in refused.err
    found = build(*options, "--remove-namespace", "team-a")
    assert "removed _cluster/namespace-team-a.yaml" in found.out
    assert found.err == ""
    assert not path.exists()
    assert build(*options, "--check").code == 0


def test_kept_namespace_file_gets_prune_protection(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    path = here / "rendered/_cluster/namespace-team-a.yaml"
    assert "argocd" not in path.read_text()
    (here / "src/jobs/sft.yaml").unlink()
    build("src", "-o", "rendered", "--gitops", "argocd")
    assert "Prune=false,Delete=false" in path.read_text()


def test_deleted_file_of_an_unneeded_namespace_is_not_written_again(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    (here / "src/jobs/sft.yaml").unlink()
    (here / "rendered/_cluster/namespace-team-a.yaml").unlink()
    assert build("src", "-o", "rendered").err == ""
    assert not (here / "rendered/_cluster/namespace-team-a.yaml").exists()


@pytest.mark.parametrize(
    "arguments", [["src"], ["-o", "rendered"], ["src", "-o", ""], ["src", "-o", "x", "--check", "--force"]]
)
def test_wrong_arguments_exit_with_code_2(build: Build, arguments: list[str]) -> None:
    assert build(*arguments).code == 2


# The same bytes -----------------------------------------------------------------------------------------------


def test_output_does_not_depend_on_order_place_and_spelling_of_inputs(
    build: Build, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "src/jobs/two.yaml").write_text(training("two", more="  priority: high\n"))
    build("src", "-o", "rendered", "--kustomization")
    wanted = tree(here / "rendered")
    files = ["src/quota.yaml", "src/jobs/two.yaml", "src/jobs/sft.yaml"]
    build(*files, "-o", "one", "--kustomization")
    build(*reversed(files), "-o", "deep/er/two", "--kustomization")
    build(here / "src", "-o", here / "three", "--kustomization")
    shutil.copytree(here / "src", here / "elsewhere/copied")
    monkeypatch.chdir(here / "elsewhere/copied")
    build(".", "-o", "../four", "--kustomization")
    for other in ("one", "deep/er/two", "three", "elsewhere/four"):
        found = tree(here / other)
        assert lines_without_sources(found.pop(MANIFEST)) == lines_without_sources(wanted[MANIFEST]), other
        assert found == {path: data for path, data in wanted.items() if path != MANIFEST}, other


def test_output_does_not_depend_on_hash_seed_locale_and_time_zone(build: Build, here: Path) -> None:
    build("src", "-o", "rendered")
    environment = {**os.environ, "PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Shanghai"}
    environment["PYTHONPATH"] = str(ROOT / "compiler")
    code = "import sys; from gpuctl.cli.commands.build import command; command.main(sys.argv[1:])"
    subprocess.run([sys.executable, "-c", code, "src", "-o", "other"], env=environment, check=True, capture_output=True)
    assert tree(here / "other") == tree(here / "rendered")


def test_output_directory_is_not_read_as_a_source(build: Build, here: Path) -> None:
    """A repository may build into itself: the manifests are not read, not even invalid ones."""
    first = build(".", "-o", "rendered")
    assert first.err == ""
    before = tree(here)
    (here / "rendered/team-a/foreign.yaml").write_text("a: [\n")
    again = build(".", "-o", "rendered")
    assert (again.code, again.err) == (0, "")
    (here / "rendered/team-a/foreign.yaml").unlink()
    assert is_unchanged(here, before)
    assert json.loads((here / "rendered" / MANIFEST).read_text().splitlines()[-1])["source"] == "src/jobs/sft.yaml"


def test_platform_is_found_if_the_output_is_inside_the_source(build: Build, here: Path) -> None:
    (here / "platform.yaml").write_text("kind: platform\nversion: v0.1\nlabels:\n  domain: gpu.example.com\n")
    build("src", "-o", "src/rendered")
    build("src", "-o", "src/rendered")
    build("src/quota.yaml", "src/jobs", "-o", "src/jobs/rendered")
    assert "gpu.example.com" in (here / "src/jobs/rendered/team-a/job-sft.yaml").read_text()
    assert "gpu.example.com" in (here / "src/rendered/team-a/job-sft.yaml").read_text()


def test_training_whose_name_gains_or_loses_its_hash_starts_anew(build: Build, here: Path) -> None:
    (here / "src/jobs/a.yaml").write_text(training("a"))
    for options, has in (([], None), (["--gitops", "argocd"], "a"), ([], "no")):
        said = f"starts anew: training a in team-a: its name has {has} hash now\n"
        assert (said in build("src", "-o", "rendered", *options).out) == (has is not None)


@pytest.mark.parametrize(
    ("platform", "options", "same_as"),
    [
        ("gitops: argocd", [], ["--gitops", "argocd"]),
        ("gitops: flux", [], ["--gitops", "flux"]),
        ("gitops: argocd", ["--gitops", "flux"], ["--gitops", "flux"]),
        ("gitops: argocd", ["--gitops", "none"], []),
        ("gitops: argocd", ["--job-names", "plain"], ["--gitops", "argocd", "--job-names", "plain"]),
    ],
)
@pytest.mark.parametrize("documents", [1, 20])
def test_platform_sets_the_default_gitops_controller(
    build: Build, here: Path, platform: str, options: list[str], same_as: list[str], documents: int
) -> None:
    """Compiled at once, in parts, or from the cache of an earlier run."""
    for number in range(documents):
        (here / f"src/jobs/{number}.yaml").write_text(training(f"a{number}"))
    (here / "src/platform.yaml").write_text("kind: platform\nversion: v0.1\n")
    build("src", "-o", "wanted", *same_as)
    (here / "src/platform.yaml").write_text(f"kind: platform\nversion: v0.1\n{platform}\n")
    for output in ("first", "second"):
        assert build("src", "-o", output, *options).code == 0
        assert tree(here / output) == tree(here / "wanted")

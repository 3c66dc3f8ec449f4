"""``gpuctl build`` from other sources than before: removals of files require ``--allow-source``."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuctl.cli.main import cli
from gpuctl.gitops.manifest import MANIFEST
from support.repositories import Repository

Build = Callable[..., "Outcome"]
JOB = "kind: {kind}\nversion: v0.1\njob: {{name: {name}, namespace: {team}}}\nenvironment: {{image: 'a:1'}}\n"
JOB += "resources: {{cpu: 1, memory: 1Gi}}\n"


class Outcome(NamedTuple):
    """The output and the exit code of a command line."""

    exit_code: int
    stdout: str
    stderr: str


def write(path: Path, name: str, team: str = "nlp", more: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(JOB.format(kind="compute", name=name, team=team) + more)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with the documents of two teams and of another site."""
    root = tmp_path / "clone"
    for path, name in (("main/nlp/a.yaml", "a"), ("main/bio/b.yaml", "b"), ("edge/c.yaml", "c")):
        write(root / path, name)
    Repository(root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Build:
    def call(*arguments: str | Path, text: str = "") -> Outcome:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli.main(["build", *map(str, arguments)], "gpuctl", standalone_mode=False)
        return Outcome(code, out.getvalue(), err.getvalue())

    return call


def recorded_sources(directory: Path) -> list[str]:
    lines = (directory / MANIFEST).read_text().splitlines()
    return [line.removeprefix("# source: ") for line in lines if line.startswith("# source: ")]


REFUSED = (
    "`rendered` was built from `main`, and this build, from {}, would remove 4 files: name the same sources, or add"
)


@pytest.mark.parametrize(
    ("inputs", "shown"),
    [
        (["edge"], "`edge`"),
        (["edge/c.yaml"], "`edge/c.yaml`"),
        (["-"], "`-`"),
    ],
)
@pytest.mark.parametrize("check", [[], ["--check"]])
def test_removal_by_other_sources_requires_allow_source(
    build: Build, here: Path, inputs: list[str], shown: str, check: list[str]
) -> None:
    assert build("main", "-o", "rendered").exit_code == 0
    before = (here / "rendered" / MANIFEST).read_text()
    text = JOB.format(kind="compute", name="z", team="z")
    found = build(*inputs, "-o", "rendered", *check, text=text)
    assert (found.exit_code, found.stdout) == (1, "")
    assert REFUSED.format(shown) in found.stderr
    assert (here / "rendered" / MANIFEST).read_text() == before
    done = build(*inputs, "-o", "rendered", *check, "--allow-source", text=text)
    assert done.exit_code == (1 if check else 0), done.stderr
    if not check:
        assert recorded_sources(here / "rendered") == [f'{{"path": "{inputs[0]}"}}']
        assert build("main", "-o", "rendered").exit_code == 1, "the way back is refused as well"


def test_removal_by_a_part_of_the_sources_is_refused(build: Build, here: Path) -> None:
    build("main", "-o", "rendered")
    found = build("main/nlp", "-o", "rendered", "--force")
    assert found.exit_code == 1
    assert "was built from `main`, and this build, from `main/nlp`, would remove 2 files" in found.stderr


def test_directory_does_not_contain_standard_input(build: Build, here: Path) -> None:
    assert build("-", "-o", "rendered", text=JOB.format(kind="compute", name="z", team="z")).exit_code == 0
    found = build(".", "-o", "rendered")
    assert found.exit_code == 1
    assert "was built from `-`, and this build, from `.`, would remove 2 files" in found.stderr


def test_additional_sources_are_accepted(build: Build, here: Path) -> None:
    """A directory that contains the old sources, or one beside them; deleted documents are removed from the output."""
    build("main/nlp", "-o", "rendered")
    assert build("main", "-o", "rendered").exit_code == 0
    (here / "main/bio/b.yaml").unlink()
    assert "removed nlp/deployment-b.yaml" in build("main", "edge", "-o", "rendered").stdout
    assert recorded_sources(here / "rendered") == ['{"path": "edge"}', '{"path": "main"}']
    (here / "main/nlp/a.yaml").unlink()
    assert "removed nlp/deployment-a.yaml" in build(".", "-o", "rendered").stdout
    assert recorded_sources(here / "rendered") == ['{"path": "."}']


def test_deleted_sources_do_not_count_as_other_sources(build: Build, here: Path) -> None:
    """A deleted file that a glob named before, and a renamed directory."""
    build("main/nlp/a.yaml", "main/bio/b.yaml", "-o", "rendered")
    (here / "main/bio/b.yaml").unlink()
    assert "removed nlp/deployment-b.yaml" in build("main/nlp/a.yaml", "-o", "rendered").stdout
    (here / "main").rename(here / "prod")
    write(here / "prod/nlp/a.yaml", "other")
    assert "removed nlp/deployment-a.yaml" in build("prod", "-o", "rendered").stdout


def test_sources_are_the_same_from_any_working_directory_or_path(
    build: Build, here: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another working directory, an absolute path, a link, a moved clone, a renamed output. No path of the machine is
    recorded.
    """
    build("main", "-o", "rendered")
    (here / "main/bio/b.yaml").unlink()
    (here / "link").symlink_to("main")
    for inputs, output, place in (
        (["./main/"], "rendered", "."),
        ([here / "main"], here / "rendered", "/"),
        ([".."], "../../rendered", "main/nlp"),
        (["link"], "rendered", "."),
    ):
        monkeypatch.chdir(here / place)
        assert "stale   nlp/deployment-b.yaml" in build(*inputs, "-o", output, "--check").stdout
    monkeypatch.chdir(tmp_path)
    (here / "rendered").rename(here / "out")
    here.rename(tmp_path / "moved")
    assert "stale   nlp/deployment-b.yaml" in build("moved/main", "-o", "moved/out", "--check").stdout
    assert str(tmp_path) not in (tmp_path / "moved/out" / MANIFEST).read_text()


def test_check_accepts_other_sources_with_the_same_files(build: Build, here: Path) -> None:
    build("main", "-o", "rendered")
    for inputs in (["main/nlp", "main/bio"], ["main/nlp/a.yaml", "main/bio/b.yaml"], ["main"]):
        assert build(*inputs, "-o", "rendered", "--check").exit_code == 0, inputs


def test_removal_by_a_build_for_another_cluster_is_refused(build: Build, here: Path) -> None:
    """A build for all clusters contains the files of a build for one."""
    (here / "platform.yaml").write_text(
        "kind: platform\nversion: v0.1\nclusters: {one: {context: one}, two: {context: two}}\n"
    )
    write(here / "main/bio/b.yaml", "b", more="placement: {clusters: [one]}\n")
    build("main", "-o", "rendered", "--cluster", "one")
    found = build("main", "-o", "rendered", "--cluster", "two")
    assert "was built from `main` for cluster one, and this build, from `main` for cluster two," in found.stderr
    assert found.exit_code == 1
    (here / "main/nlp/a.yaml").unlink()
    assert build("main", "-o", "rendered").exit_code == 0


def test_sources_of_another_repository_are_recorded_with_its_remote(build: Build, here: Path, tmp_path: Path) -> None:
    """Without a remote, and outside of git, a source is identified by its path alone."""
    for name, url in (("documents", "git@github.com:team/jobs.git"), ("nowhere", "")):
        write(tmp_path / name / "main/x.yaml", "x")
        write(tmp_path / name / "edge/y.yaml", "y")
        repository = Repository(tmp_path / name)
        if url:
            repository.git("remote", "add", "origin", url)
    build("../documents/main", "-o", "rendered")
    assert recorded_sources(here / "rendered") == ['{"path": "main", "repository": "github.com/team/jobs"}']
    found = build("../documents/edge", "-o", "rendered")
    assert "was built from `main` of github.com/team/jobs, and this build, from `edge` of github.com" in found.stderr
    assert "from `main`, would remove" in build("main", "-o", "rendered").stderr
    assert "from `edge` of another directory, would" in build("../nowhere/edge", "-o", "rendered").stderr


def test_sources_outside_git_are_relative_to_the_output(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "plain/main/a.yaml", "a")
    write(tmp_path / "plain/edge/b.yaml", "b")
    monkeypatch.chdir(tmp_path / "plain")
    build("main", "-o", "rendered")
    assert recorded_sources(Path("rendered")) == ['{"path": "main"}']
    assert build("edge", "-o", "rendered").exit_code == 1
    monkeypatch.chdir(tmp_path)
    Path("plain").rename("other")
    assert build("other/main", "-o", "other/rendered").exit_code == 0


@pytest.mark.parametrize("line", ["# source: main", "# source: []", '# source: {"path": 1}', "# source:"])
def test_manifest_without_sources_accepts_any_source(build: Build, here: Path, line: str) -> None:
    """The first build that changes files records its sources; a build without changes leaves the manifest unchanged."""
    build("main", "-o", "rendered")
    path = here / "rendered" / MANIFEST
    older = path.read_text().replace('# source: {"path": "main"}\n', f"{line}\n" if line != "# source:" else "")
    path.write_text(older)
    assert build("edge", "main", "-o", "rendered").exit_code == 0
    assert recorded_sources(here / "rendered") == ['{"path": "edge"}', '{"path": "main"}']


def test_sources_of_both_merge_sides_count(build: Build, here: Path) -> None:
    build("main", "edge", "-o", "rendered")
    path = here / "rendered" / MANIFEST
    both = '<<<<<<< ours\n# source: {"path": "edge"}\n=======\n# source: {"path": "main"}\n>>>>>>> theirs\n'
    path.write_text(path.read_text().replace('# source: {"path": "edge"}\n# source: {"path": "main"}\n', both))
    assert build("main", "-o", "rendered").exit_code == 1
    assert build("edge", "main", "-o", "rendered").exit_code == 0


def test_union_merge_of_the_manifest_is_up_to_date(build: Build, here: Path) -> None:
    """docs/gitops.md recommends this .gitattributes; git leaves the lines unsorted and repeats some."""
    repository = Repository(here)

    def commit(name: str | None) -> None:
        if name is not None:
            write(here / f"main/{name}.yaml", name)
        assert build("main", "-o", "rendered").exit_code == 0
        repository.commit()

    (here / ".gitattributes").write_text("rendered/** -text\nrendered/.gpuctl-manifest merge=union\n")
    repository.git("switch", "-q", "-c", "one")
    commit(None)
    repository.git("switch", "-q", "-c", "two")
    commit("b2")
    repository.git("switch", "-q", "one")
    commit("b3")
    repository.git("merge", "two", "-m", "m")
    assert build("main", "-o", "rendered", "--check").exit_code == 0
    lines = (here / "rendered" / MANIFEST).read_text().splitlines()
    assert lines != sorted(set(lines)), "git now sorts the lines: the test checks nothing"


def test_removal_with_another_profile_requires_allow_source(build: Build, here: Path) -> None:
    write(here / "main/nlp/a.yaml", "a", more="profiles: {prod: {job: {namespace: prod}}}\n")
    build("main/nlp", "-o", "rendered", "--profile", "prod")
    assert recorded_sources(here / "rendered") == ['{"path": "main/nlp", "profile": "prod"}']
    found = build("main/nlp", "-o", "rendered")
    assert found.exit_code == 1
    assert "was built from `main/nlp` with profile prod, and this build, from `main/nlp`, would remove" in found.stderr
    assert build("main/nlp", "-o", "rendered", "--profile", "prod", "--check").exit_code == 0

"""Releases: one version everywhere, what ``make release`` rejects, the images, and the program without Python."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import make_release
import pytest
import yaml
from make_release import Release, ReleaseError, check_version
from set_version import NAMED, texts, with_version

from gpuctl.capacity.snapshot.snapshot_document import render as render_snapshot
from gpuctl.cli.main import cli
from gpuctl.release import __version__
from support.actionlint import run_actionlint
from support.fit_objects import cluster, node
from support.go_programs import ProgramMissing
from support.pages import read
from support.repositories import Repository, gpuctl, training

ROOT = Path(__file__).resolve().parents[2]
# The version -----------------------------------------------------------------------------------------------


def test_every_text_names_the_current_version() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {match[0].strip()}": match["version"]
        for path in texts()
        for match in NAMED.finditer(path.read_text(encoding="utf-8"))
    }
    assert {place for place, version in found.items() if version != __version__} == set()
    named = {place.partition(": ")[0] for place in found}
    assert named >= {
        "compiler/gpuctl/release.py",
        "deploy/Dockerfile",
        "deploy/argocd/sidecar.yaml",
        "deploy/chart/Chart.yaml",
        "deploy/github/gpuctl-apply.yml",
        "deploy/service/base/deployment.yaml",
        "deploy/service/example/kustomization.yaml",
        "deploy/usage/base/deployment.yaml",
        "docs/gitops.md",
        "docs/service.zh-CN.md",
        "docs/upgrades.md",
        "examples/team-repo/.pre-commit-config.yaml",
        "sdk/go/client.go",
        "sdk/python/gpuctl_sdk/exchange.py",
    }


def test_new_version_replaces_only_versions_of_gpuctl() -> None:
    text = "image: r.example.com/gpuctl-server:0.1.0 # nginx:0.1.0\nversion: v0.1\nuses: o/gpuctl/deploy/a@v0.1.0\n"
    changed = "image: r.example.com/gpuctl-server:0.2.0 # nginx:0.1.0\nversion: v0.1\nuses: o/gpuctl/deploy/a@v0.2.0\n"
    assert with_version(text, "0.2.0") == changed


def test_packages_and_the_rest_document_have_the_version() -> None:
    assert make_release.version_of_source() == __version__
    assert json.loads((ROOT / "schemas/rest/openapi.json").read_text())["info"]["version"] == __version__
    for project in ("pyproject.toml", "sdk/python/pyproject.toml"):
        text = (ROOT / project).read_text()
        assert 'dynamic = ["version"]' in text
        assert not re.search(r"^version =", text, re.MULTILINE)


def test_actions_and_images_that_texts_name_are_published() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in texts())
    actions = set(re.findall(r"\bgpuctl((?:/[\w-]+)*)@v\d", text))
    assert actions == {"", "/deploy/github/apply"}
    for action in actions:
        assert (ROOT / action.lstrip("/") / "action.yml").is_file()
    images = set(re.findall(r"/(gpuctl(?:-\w+)?):\d", text))
    workflow = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["image"]["strategy"]["matrix"]["include"]
    assert images == {built["name"] for built in matrix}
    assert {built["file"] for built in matrix} == set(IMAGES)


CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2030-01-01\n\n- A change.\n"


def test_release_needs_a_section_of_the_changelog() -> None:
    check_version("1.2.3", [], CHANGELOG)
    check_version(__version__, [], (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    with pytest.raises(ReleaseError, match=r"no section `## \[1\.2\.4\]"):
        check_version("1.2.4", [], CHANGELOG)
    ahead = CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n- Forgotten.\n")
    check_version("1.2.3", [], ahead)
    with pytest.raises(ReleaseError, match="move them to the section of"):
        check_version("1.2.3", ["v1.2.3"], ahead)


def test_release_rejects_another_tag() -> None:
    check_version("1.2.3", ["v1.2.3", "nightly"], CHANGELOG)
    with pytest.raises(ReleaseError, match=r"the commit has the tag `v1\.2\.4`"):
        check_version("1.2.3", ["v1.2.3", "v1.2.4"], CHANGELOG)


# Files -----------------------------------------------------------------------------------------------------


def test_archives_are_reproducible(tmp_path: Path) -> None:
    contents = []
    for name in ("first", "second"):
        release = Release(tmp_path / name, tmp_path / "work")
        release.dist.mkdir()
        os.utime(ROOT / "deploy" / "chart" / "Chart.yaml")
        contents.append(release.chart().read_bytes())
    assert contents[0] == contents[1]
    listed = subprocess.run(["tar", "-tzf", tmp_path / "first" / f"gpuctl-{__version__}.tgz"], capture_output=True)
    assert {"gpuctl/Chart.yaml", "gpuctl/values.schema.json"} <= set(listed.stdout.decode().split())


def test_checksums_are_checked_by_sha256sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = Release(tmp_path / "dist", tmp_path / "work")
    release.dist.mkdir()
    release.chart()
    release.checksums()
    assert "SHA256SUMS is not signed: set RELEASE_KEY" in capsys.readouterr().out
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=release.dist, check=True)


def test_checksums_are_signed_with_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    monkeypatch.setenv("RELEASE_KEY", "release@example.com")
    generate = [
        "gpg",
        "--batch",
        "--quiet",
        "--passphrase",
        "",
        "--quick-generate-key",
        "release@example.com",
        "ed25519",
    ]
    subprocess.run(generate, check=True)
    release = Release(tmp_path / "dist", tmp_path / "work")
    release.dist.mkdir()
    release.chart()
    sums = release.checksums()
    subprocess.run(["gpg", "--batch", "--verify", f"{sums}.asc", sums], check=True)
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=True)


def test_installation_downloads_files_of_a_release() -> None:
    """The product documents download this file."""
    for page in ("README.md", "README.zh-CN.md"):
        names = re.findall(r"releases/latest/download/(\S+)", read(page))
        assert names == ["gpuctl-linux-amd64"]
        assert "gpuctl-linux-amd64.tar.gz" in read(page)
    extras = re.findall(r"gpuctl-k8s\[(\w+)\]", read("README.md"))
    stated = re.findall(r"^(\w+) = \[$", read("pyproject.toml").partition("[project.optional-dependencies]")[2], re.M)
    assert set(extras) <= set(stated)


def test_release_tags_the_go_module() -> None:
    """Otherwise `go get` finds no release, and takes the newest commit. Source: go.dev/ref/mod#vcs-version."""
    module = re.findall(r"^module (\S+)$", read("sdk/go/go.mod"), re.MULTILINE)
    assert module == ["github.com/gpuctl/gpuctl/sdk/go"]
    assert '"ref=refs/tags/sdk/go/$TAG"' in read(".github/workflows/release.yml")


@pytest.mark.slow
def test_workflows_are_valid_for_actionlint(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    for name in ("release.yml", "gpuctl-apply.yml"):
        (path,) = [*ROOT.glob(f".github/workflows/{name}"), *ROOT.glob(f"deploy/github/{name}")]
        text = path.read_text().replace(f"your-org/gpuctl/deploy/github/apply@v{__version__}", "./deploy/github/apply")
        repository.write(f".github/workflows/{name}", text)
    shutil.copytree(ROOT / "deploy" / "github", tmp_path / "deploy" / "github")
    try:
        assert run_actionlint(tmp_path) == []
    except ProgramMissing as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        (
            "gitlab-ci",
            (".gitlab-ci.yml", "deploy/gitlab/gpuctl.gitlab-ci.yml", "deploy/gitlab/gpuctl-apply.gitlab-ci.yml"),
        ),
        ("github-workflows", (".github/workflows/release.yml", "deploy/github/gpuctl-apply.yml")),
        ("github-actions", ("action.yml", "deploy/github/apply/action.yml")),
    ],
)
def test_workflows_are_valid_for_their_published_schema(schema: str, files: tuple[str, ...]) -> None:
    if find_spec("check_jsonschema") is None:
        assert "CI" not in os.environ, "check-jsonschema is not installed"
        pytest.skip("check-jsonschema is not installed: make setup")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


# Images ----------------------------------------------------------------------------------------------------

IMAGES = ("deploy/Dockerfile", "deploy/service/Dockerfile")


def instructions(image: str) -> list[str]:
    """The instructions of a Dockerfile, each on one line."""
    text = re.sub(r"^#.*\n", "", (ROOT / image).read_text(), flags=re.MULTILINE)
    return re.sub(r"\\\n\s*", " ", text).splitlines()


@pytest.mark.parametrize("image", IMAGES)
def test_images_run_without_root(image: str) -> None:
    users = [line.split()[1] for line in instructions(image) if line.startswith("USER ")]
    assert users
    assert all(user.split(":")[0].isdigit() and int(user.split(":")[0]) > 0 for user in users)
    assert instructions(image)[-1].startswith(("CMD", "ENTRYPOINT"))


@pytest.mark.slow
@pytest.mark.parametrize("image", IMAGES)
def test_pip_lines_of_images_install_gpuctl(image: str, tmp_path: Path) -> None:
    """The copied files are enough for the RUN lines; apt-get is not run."""
    source = tmp_path / "src"
    for line in instructions(image):
        if line.startswith("COPY ") and "--from" not in line:
            for name in line.split()[1:-1]:
                target = source / name
                target.parent.mkdir(parents=True, exist_ok=True)
                (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
    (command,) = (line.removeprefix("RUN ") for line in instructions(image) if "pip install" in line)
    venv = tmp_path / "venv"
    if "-m venv" not in command:
        subprocess.run(["python3", "-m", "venv", str(venv)], check=True)
    command = command.replace("/opt/gpuctl", str(venv)).replace("/src", str(source))
    environment = {**os.environ, "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", command], cwd=source, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    started = "gpuctl-server" if "service" in image else "gpuctl"
    subprocess.run([str(venv / "bin" / started), "--help"], check=True, capture_output=True)
    shown = subprocess.run([str(venv / "bin" / "gpuctl"), "--version"], check=True, capture_output=True, text=True)
    assert shown.stdout == f"{__version__}\n"


# The program -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The single-file program: that of GPUCTL_PROGRAM, or one that is built now."""
    named = os.environ.get("GPUCTL_PROGRAM")
    if named:
        return Path(named).resolve()
    directory = tmp_path_factory.mktemp("release")
    release = Release(directory / "dist", directory / "work")
    release.dist.mkdir()
    return release.program(release.distributions())


def ran(program: Path, directory: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    """Run the program where there is no Python; git is found only if PATH is given."""
    home = {"HOME": str(directory), "PATH": "/nonexistent", **environment}
    done = subprocess.run([str(program), *arguments], cwd=directory, env=home, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def all_groups(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Group]]:
    """Yield every group of commands with its path, the program itself first."""
    if isinstance(command, click.Group):
        yield path, command
        for name, inner in subcommands(command).items():
            yield from all_groups(inner, (*path, name))


def subcommands(group: click.Group) -> dict[str, click.Command]:
    """Return the subcommands of a group by name."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}


@pytest.mark.slow
def test_program_has_every_command(program: Path, tmp_path: Path) -> None:
    """A completion of a group imports each of its commands, and prints the texts in their modules."""
    assert ran(program, tmp_path, "--help").startswith("Usage: gpuctl ")
    groups = list(all_groups(cli))
    assert len(groups) > 5
    for path, group in groups:
        words = {"COMP_WORDS": " ".join(["gpuctl", *path, ""]), "COMP_CWORD": str(len(path) + 1)}
        shown = ran(program, tmp_path, _GPUCTL_COMPLETE="zsh_complete", **words)
        texts = [f"plain\n{name}\n{inner.get_short_help_str()}\n" for name, inner in subcommands(group).items()]
        assert shown == "".join(texts), path


@pytest.mark.slow
def test_program_compiles_documents(program: Path, tmp_path: Path) -> None:
    """Kubernetes' schemas, templates and translations are in it; its output is that of the package."""
    shutil.copytree(ROOT / "examples" / "team-repo", tmp_path / "team")
    team = tmp_path / "team"
    for arguments in (
        ("validate", "--strict", "."),
        ("validate", ".", "-o", "sarif"),
        ("validate", ".", "-o", "gitlab"),
        ("render", "-f", ".", "-o", "json"),
        ("explain", "training.resources.gpu"),
        ("explain", "GPU203"),
        ("explain", "GPU203", "--lang", "zh"),
        ("explain", "training.resources", "--lang", "zh"),
        ("fmt", "--check", "."),
        ("build", ".", "-o", "rendered", "--gitops", "argocd", "--check"),
        ("schema", "training"),
        *(("init", kind) for kind in ("training", "inference", "notebook", "compute", "pool", "quota", "platform")),
    ):
        expected = gpuctl(team, *arguments)
        assert ran(program, team, *arguments, code=expected.code) == expected.out + expected.err, arguments
    for version in yaml.safe_load(ran(program, team, "version", "-o", "json"))["kubernetes"]:
        (team / "platform.yaml").write_text(f"kind: platform\nversion: v0.1\nkubernetes: {{version: '{version}'}}\n")
        assert "documents ok" in ran(program, team, "validate", ".")


@pytest.mark.slow
def test_program_answers_fit_from_a_snapshot(program: Path, tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text(render_snapshot(cluster([node("n1", gpus=8)])))
    (tmp_path / "job.yaml").write_text(training("finetune", gpu=4).replace("pool: a100, ", ""))
    shown = ran(program, tmp_path, "fit", "-f", "job.yaml", "--snapshot", "snapshot.json")
    assert "finetune -n nlp: fits" in shown
    (tmp_path / "job.yaml").write_text(training("finetune", gpu=9).replace("pool: a100, ", ""))
    assert "never fits" in ran(program, tmp_path, "fit", "-f", "job.yaml", "--snapshot", "snapshot.json", code=1)


@pytest.mark.slow
def test_program_runs_git_with_the_libraries_of_the_system(program: Path, tmp_path: Path) -> None:
    git = shutil.which("git")
    assert git is not None
    # A git that reports the library path that it was started with.
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "git"
    fake.write_text(f'#!/bin/sh\necho "${{LD_LIBRARY_PATH-unset}}" >> {tmp_path}/paths\nexec {git} "$@"\n')
    fake.chmod(0o755)
    subprocess.run([git, "init", "-q", str(tmp_path / "team")], check=True)
    shutil.copy(make_release.EXAMPLE, tmp_path / "team")
    commit = ["-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "one"]
    for arguments in (["add", "."], commit):
        subprocess.run([git, "-C", str(tmp_path / "team"), *arguments], check=True)
    for given, expected in (({}, "unset"), ({"LD_LIBRARY_PATH": "/opt/lib"}, "/opt/lib")):
        (tmp_path / "paths").unlink(missing_ok=True)
        ran(program, tmp_path / "team", "impact", "--from", "HEAD", ".", PATH=f"{tmp_path}/bin:/usr/bin:/bin", **given)
        assert set((tmp_path / "paths").read_text().split()) == {expected}


@pytest.mark.slow
def test_program_names_the_package_of_the_service(program: Path, tmp_path: Path) -> None:
    assert "pip install 'gpuctl-k8s[server]'" in ran(program, tmp_path, "serve", code=3)
    assert "pip install 'gpuctl-k8s[server]'" in ran(program, tmp_path, "usage", "collect", code=3)

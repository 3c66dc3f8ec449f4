"""`code.local`: which files are packed, the same archive everywhere, and the errors for what cannot be packed."""

from __future__ import annotations

import base64
import io
import os
import random
import re
import stat
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from gpuctl.apply.plan.code_steps import code_change
from gpuctl.apply.plan.plan import Step
from gpuctl.frontend import code_files
from gpuctl.objects.api_resources import Key
from gpuctl.usecases.revisions.files_at_revision import read_revision
from support.repositories import Repository
from support.repositories import gpuctl as run_gpuctl

DOCUMENT = """\
kind: training
version: v0.1
job: {{name: train}}
environment: {{image: "app:1", command: [python, train.py]}}
code: {{local: {local}{more}}}
"""


def write(directory: Path, **files: str | bytes) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a document in `jobs`, and code in `src`."""
    path = tmp_path / "repository"
    files = {
        "src/train.py": "print(1)",
        "src/configs/7b.yaml": "lr: 1",
        "jobs/job.yaml": DOCUMENT.format(local="../src", more=""),
    }
    write(path, **files)
    Repository(path)
    return path


def compiled(repository: Path) -> gpuctl.Compilation:
    return gpuctl.compile(repository / "jobs")


def archive(result: gpuctl.Compilation) -> dict[str, Any]:
    assert result.ok, result.diagnostics
    (found,) = (obj for obj in result.objects if obj["kind"] == "ConfigMap")
    return found


def members(obj: dict[str, Any]) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(obj["binaryData"]["code.tar.gz"]))) as opened:
        return {item.name: item for item in opened}


def error(result: gpuctl.Compilation) -> tuple[str, str, str]:
    (found,) = (item for item in result.diagnostics if item.severity.value == "error")
    return found.code, found.message, found.hint or ""


def test_archive_is_the_same_for_equal_files(repository: Path, tmp_path: Path) -> None:
    names = [f"m{number}.py" for number in range(30)]
    found = []
    for seed in (1, 2):
        copy = tmp_path / f"copy-{seed}" / f"deeper-{seed}"
        random.Random(seed).shuffle(names)
        for name in names:
            write(copy, **{f"src/{name}": name})
            os.utime(copy / "src" / name, (seed, seed))
            (copy / "src" / name).chmod(0o600 if seed == 1 else 0o664)
        write(copy, **{"jobs/job.yaml": DOCUMENT.format(local=["../src", "./../src/"][seed - 1], more="")})
        Repository(copy)
        found.append(archive(compiled(copy)))
    assert found[0] == found[1]
    assert {item.mode for item in members(found[0]).values()} == {0o666}
    assert {(item.mtime, item.uid, item.gid, item.uname) for item in members(found[0]).values()} == {(0, 0, 0, "")}


def test_name_follows_content_and_mode(repository: Path) -> None:
    names = [archive(compiled(repository))["metadata"]["name"]]
    write(repository, **{"src/train.py": "print(2)"})
    names.append(archive(compiled(repository))["metadata"]["name"])
    (repository / "src" / "train.py").chmod(0o755)
    names.append(archive(compiled(repository))["metadata"]["name"])
    assert len(set(names)) == 3
    assert all(re.fullmatch("train-code-[0-9a-f]{10}", name) for name in names)


def test_ignored_files_are_those_of_git(repository: Path) -> None:
    files = [
        *("a.log", "deep/a.log", "deep/keep.log", "data/x.py", "deep/data/x.py", "out/x", "deep/out/x", "tmp1/x"),
        *(
            "deep/er/only.txt",
            "deep/er/a.txt",
            "a b.py",
            "star*.py",
            "starred.py",
            "#hash",
            "!bang",
            "trailing ",
            "up.bin",
        ),
    ]
    write(repository, **{f"src/{name}": name for name in files})
    ignore = "*.log\n/src/out/\ndata\n# comment\n\ntmp?/\n\\#hash\n\\!bang\nstar\\*.py\n*.bin\n"
    write(repository, **{".gitignore": ignore, "src/deep/.gitignore": "!keep.log\n/er/*\n!/er/only.txt\n"})
    Repository(repository).commit()
    tracked = Repository(repository).git("ls-files", "-z", "src").split("\0")[:-1]
    assert members(archive(compiled(repository))).keys() == {name.removeprefix("src/") for name in tracked}


def test_directories_of_tools_and_builds_are_left_out(repository: Path) -> None:
    write(repository, **{f"src/{name}/x.py": "" for name in ("__pycache__", ".venv", "node_modules", ".git")})
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="..", more=", path: src")})
    before = archive(compiled(repository))
    built = run_gpuctl(repository, "build", "jobs", "--output", "rendered")
    assert built.code == 0, built.err
    assert archive(compiled(repository)) == before
    # Nor is the document itself part of its code.
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="..", more=", path: src") + "# changed\n"})
    assert archive(compiled(repository))["metadata"]["name"] == before["metadata"]["name"]
    assert members(before).keys() == {"src/train.py", "src/configs/7b.yaml"}


def test_script_unpacks_for_every_user(repository: Path, tmp_path: Path) -> None:
    (repository / "src" / "train.py").chmod(0o700)
    (repository / "src" / "link.py").symlink_to("configs/../train.py")
    result = compiled(repository)
    target = tmp_path / "code"
    write(target, **{".left": "by a container that was killed"})
    (tmp_path / "code.tar.gz").write_bytes(base64.b64decode(archive(result)["binaryData"]["code.tar.gz"]))
    (job,) = (obj for obj in result.objects if obj["kind"] == "Job")
    container = job["spec"]["template"]["spec"]["initContainers"][0]
    script = container["command"][2].replace("cd /code", f"cd {target}").replace("/etc/gpuctl/code", str(tmp_path))
    env = {item["name"]: item["value"].replace("$$", "$") for item in container["env"]} | {"PATH": os.environ["PATH"]}
    done = subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpuctl: the code is ../src, SHA-256 ")
    assert sorted(path.name for path in target.iterdir()) == ["configs", "link.py", "train.py"]
    modes = [stat.S_IMODE((target / name).stat().st_mode) for name in ("train.py", "configs", "configs/7b.yaml")]
    assert modes == [0o777, 0o777, 0o666]
    assert (target / "link.py").read_text() == "print(1)"


@pytest.mark.parametrize("name", [".env", ".env.prod", "keys/server.pem", "id_rsa", "a [b]*.key", ".kube/config"])
def test_credentials_are_refused_until_ignored(repository: Path, name: str) -> None:
    write(repository, **{f"src/{name}": "secret"})
    code, message, hint = error(compiled(repository))
    assert (code, f"`../src/{name}`" in message) == ("GPU239", True)
    advice = re.search("add the line `(.*?)` to `(.*?)`", hint)
    assert advice is not None
    write(repository / "jobs", **{advice[2]: advice[1] + "\n"})
    assert members(archive(compiled(repository))).keys() == {".gitignore", "train.py", "configs/7b.yaml"}


def test_templates_of_credentials_are_packed(repository: Path) -> None:
    write(repository, **{"src/.env.example": "TOKEN="})
    assert ".env.example" in members(archive(compiled(repository)))


@pytest.mark.parametrize("target", ["/etc/passwd", "../../..", "../jobs/job.yaml"])
def test_links_out_of_the_directory_are_refused(repository: Path, target: str) -> None:
    (repository / "src" / "link").symlink_to(target)
    code, message, hint = error(compiled(repository))
    assert (code, message) == ("GPU236", f"`../src/link` is a link to `{target}`, outside of the directory")
    assert "the line `/link` to `../src/.gitignore`" in hint


@pytest.mark.parametrize(
    ("local", "text"),
    [
        ("../../other", "is outside of the repository"),
        ("../source", "there is no directory `../source` beside this file"),
        ("../src/train.py", "there is no directory"),
        ("../away", "there is no directory"),
        ("/src", "is not a path relative to this file"),
    ],
)
def test_paths_that_are_no_directory_of_the_repository_are_refused(repository: Path, local: str, text: str) -> None:
    write(repository.parent, **{"other/secret.py": ""})
    (repository / "away").symlink_to("../other")
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local=local, more="")})
    assert text in error(compiled(repository))[1]


def test_without_a_repository_only_directories_beside_the_file_count(tmp_path: Path) -> None:
    files = {"src/a.py": "", "jobs/src/a.py": "", "jobs/job.yaml": DOCUMENT.format(local="../src", more="")}
    write(tmp_path, **files)
    assert "is outside of the repository" in error(compiled(tmp_path))[1]
    write(tmp_path, **{"jobs/job.yaml": DOCUMENT.format(local="src", more="")})
    assert archive(compiled(tmp_path))


def test_large_trees_name_the_largest_files(repository: Path) -> None:
    write(repository, **{"src/model.bin": random.Random(1).randbytes(950 * 1024), "src/small.bin": b"x" * 2048})
    code, message, hint = error(compiled(repository))
    assert code == "GPU432"
    assert "The largest files: model.bin (950 KiB), small.bin (2 KiB), train.py" in message
    assert "code: {git: URL, ref: COMMIT}" in hint


def test_huge_trees_are_not_listed_to_their_end(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_files, "_MOST_FILES", 2)
    write(repository, **{f"src/data/{number}": "" for number in range(9)})
    code, message, _ = error(compiled(repository))
    assert code == "GPU432"
    assert "has more than 2 files" in message


def test_names_in_errors_have_no_control_characters(repository: Path) -> None:
    write(repository, **{"src/\x1b[31m.bin": b"\0" * (65 * 2**20)})
    assert "\\x1b[31m.bin (65.0 MiB)" in error(compiled(repository))[1]


def test_volume_of_a_pod_patch_is_no_archive() -> None:
    volumes = [{"name": "code-archive", "emptyDir": {}}, {"name": "code-archive", "configMap": {"name": "mine"}}]
    for volume in volumes:
        pod = {"volumes": [volume]}
        metadata = {"name": "train", "namespace": "nlp", "labels": {"app": "train"}}
        live = {"kind": "Job", "metadata": metadata, "spec": {"template": {"spec": pod}}}
        step = Step("unchanged", Key("Job", "nlp", "train"), live=live)
        assert code_change([], [live], step, "training/train") == ([], None, None)


def test_documents_without_a_file_have_no_directory(repository: Path) -> None:
    text = DOCUMENT.format(local="../src", more="")
    assert error(gpuctl.compile(gpuctl.Source("job.yaml", text)))[0] == "GPU236"
    assert error(gpuctl.compile("-", stdin=io.BytesIO(text.encode())))[0] == "GPU236"


def test_stored_document_refers_to_its_archive(repository: Path) -> None:
    name = archive(compiled(repository))["metadata"]["name"]
    (job,) = (obj for obj in compiled(repository).objects if obj["kind"] == "Job")
    variables = {item["name"]: item["value"] for item in job["spec"]["template"]["spec"]["initContainers"][0]["env"]}
    stored = DOCUMENT.format(local="../src", more=f", sha256: {variables['GPUCTL_CODE_SHA256']}")
    result = gpuctl.compile(gpuctl.Source("stored.yaml", stored))
    assert result.ok
    assert [obj for obj in result.objects if obj["kind"] == "ConfigMap"] == []
    (again,) = (obj for obj in result.objects if obj["kind"] == "Job")
    assert again == job
    assert {"name": "code-archive", "configMap": {"name": name}} in job["spec"]["template"]["spec"]["volumes"]
    write(repository, **{"jobs/job.yaml": stored, "src/train.py": "print(2)"})
    assert "are not those of the stored document" in error(compiled(repository))[1]


def test_revision_has_the_files_of_its_commit(repository: Path) -> None:
    (repository / "src" / "run.sh").write_text("exit 0")
    (repository / "src" / "run.sh").chmod(0o755)
    (repository / "src" / "link.py").symlink_to("train.py")
    Repository(repository).commit()
    on_disk = archive(compiled(repository))
    write(repository, **{"src/train.py": "print(2)"})
    revision = read_revision("HEAD", [str(repository / "jobs")])
    assert archive(gpuctl.compile(revision.sources, platform=revision.platform)) == on_disk
    assert archive(compiled(repository)) != on_disk


def at_commit(repository: Path) -> gpuctl.Compilation:
    Repository(repository).commit()
    revision = read_revision("HEAD", [str(repository / "jobs")])
    return gpuctl.compile(revision.sources, platform=revision.platform)


@pytest.mark.parametrize("local", ["../link", "../outer/inner", "../outer/back/src", "../link/configs"])
def test_links_to_directories_are_followed_on_disk_and_at_a_commit(repository: Path, local: str) -> None:
    (repository / "link").symlink_to("src")
    (repository / "outer").mkdir()
    (repository / "outer" / "inner").symlink_to("../link")
    (repository / "outer" / "back").symlink_to("..")
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local=local, more=""), "src/.gitignore": "*.log"})
    write(repository, **{"src/a.log": "", "src/configs/a.log": ""})
    on_disk = archive(compiled(repository))
    assert "a.log" not in members(on_disk)
    assert members(on_disk).keys() & {"train.py", "7b.yaml"}
    assert archive(at_commit(repository)) == on_disk


def test_links_do_not_pack_what_git_ignores(repository: Path) -> None:
    (repository / "link").symlink_to("src")
    (repository / "jobs" / "self").symlink_to(".")
    write(repository, **{".gitignore": "/src/private.txt\n", "src/private.txt": "x"})
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="../link", more="")})
    on_disk = archive(compiled(repository))
    assert members(on_disk).keys() == {"train.py", "configs/7b.yaml"}
    assert archive(at_commit(repository)) == on_disk
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="self", more=""), "jobs/a.py": ""})
    assert members(archive(compiled(repository))).keys() == {"a.py", "self"}, "the document is no code"


@pytest.mark.parametrize("local", ["../.git", "../hidden", "../.git/hooks"])
def test_directory_of_git_is_refused(repository: Path, local: str) -> None:
    """In CI, its configuration has a token."""
    (repository / "hidden").symlink_to(".git")
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local=local, more="")})
    code, message, _ = error(compiled(repository))
    assert (code, message) == (
        "GPU236",
        f"`{local}` is a directory of git itself, whose configuration may contain credentials",
    )


def test_huge_links_and_rules_are_not_read(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="../link", more=""), "target": "src/" * 2000})
    git = Repository(repository).git
    blob = git("hash-object", "-w", "target").strip()
    (repository / "target").unlink()
    git("add", "-A")
    git("update-index", "--add", "--cacheinfo", f"120000,{blob},link")
    git("commit", "-q", "-m", "a link that no system has")
    revision = read_revision("HEAD", [str(repository / "jobs")])
    found = gpuctl.compile(revision.sources, platform=revision.platform)
    assert error(found)[:2] == ("GPU236", "there is no directory `../link` beside this file")
    monkeypatch.setattr(code_files, "_LONGEST_RULES", 10)
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="../src", more=""), "src/.gitignore": "*.log\n" * 9})
    assert "`src/.gitignore` has 0 KiB, which is too large for patterns" in error(at_commit(repository))[1]


@pytest.mark.parametrize("target", ["{root}/src", "loop", "../repository/src", "src/train.py", "nothing"])
def test_links_that_are_no_directory_of_the_repository_are_refused_alike(repository: Path, target: str) -> None:
    """An absolute link leads elsewhere on another machine."""
    (repository / "loop").symlink_to(target.format(root=repository))
    write(repository, **{"jobs/job.yaml": DOCUMENT.format(local="../loop", more="")})
    told = error(compiled(repository))
    assert told[:2] == ("GPU236", "there is no directory `../loop` beside this file")
    assert error(at_commit(repository)) == told


def test_size_of_files_at_a_commit_is_limited_before_they_are_read(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_files, "_MOST_BYTES", 2048)
    write(repository, **{"src/model.bin": b"x" * 4096})
    told = error(compiled(repository))
    assert told[0] == "GPU432"
    assert "The largest files: model.bin (4 KiB), train.py" in told[1]
    assert error(at_commit(repository)) == told


def test_copies_of_a_sweep_are_limited(repository: Path) -> None:
    write(repository, **{"src/model.bin": random.Random(1).randbytes(800 * 1024)})
    text = DOCUMENT.format(local="../src", more="") + "sweep: {seed: [%s]}\n"
    write(
        repository,
        **{
            "jobs/job.yaml": text.replace("train.py]", 'train.py, "{{{{sweep.seed}}}}"]')
            .replace("{{{{", "{{")
            .replace("}}}}", "}}")
            % ", ".join(map(str, range(30)))
        },
    )
    assert error(compiled(repository))[0] == "GPU432"

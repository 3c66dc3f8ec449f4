"""``code.git`` with a real git: the init container's script, its login, and the command that a warning prints."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import gpuctl
from support.repositories import Repository

URL = "https://git.example.com/nlp/train.git"
EARLIER = "b" * 40


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository with a directory, two commits, an annotated and a plain tag, and a branch with a similar name."""
    made = Repository(tmp_path / "repository")
    for text in ("first", "second"):
        made.write("src dir/train.py", text)
        made.commit()
    made.git("tag", "-a", "v1", "-m", "annotated", "HEAD~1")
    made.git("tag", "plain")
    made.git("branch", "feature/main", "HEAD~1")
    return made


def pod_of(code: dict[str, Any]) -> dict[str, Any]:
    document = {"kind": "training", "version": "v0.1", "job": {"name": "a"}, "environment": {"image": "a:1"}}
    result = gpuctl.compile(gpuctl.Source("job.yaml", str(document | {"code": code})))
    assert result.ok, result.diagnostics
    (job,) = (item for item in result.objects if item["kind"] == "Job")
    return dict(job["spec"]["template"]["spec"])


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """The variables of the init container as Kubernetes sets them; those from Secrets are empty."""
    entries = pod["initContainers"][0]["env"]
    return {item["name"]: item.get("value", "").replace("$$", "$") for item in entries}


def fetch(code: dict[str, Any], repository: Repository, target: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the init container's script with the repository in place of its address."""
    pod = pod_of(code)
    target.mkdir(exist_ok=True)
    script = pod["initContainers"][0]["command"][2].replace("cd /code", f"cd {target}")
    env = variables(pod) | {"PATH": os.environ["PATH"], "GPUCTL_CODE_GIT": f"file://{repository.root}"} | more
    return subprocess.run(["sh", "-c", script], env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("version", ["0", "2"], ids=["whole-history", "one-commit"])
def test_commit_is_checked_out(repository: Repository, tmp_path: Path, version: str) -> None:
    commit = repository.git("rev-parse", "HEAD~1").strip()
    target = tmp_path / "code"
    target.mkdir()
    (target / ".left").write_text("by a container that was killed")
    # Without protocol 2, the server sends no single commits.
    more = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_1": "protocol.version", "GIT_CONFIG_VALUE_1": version}
    done = fetch({"git": URL, "ref": commit, "path": "src dir"}, repository, target, **more)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"gpuctl: the code is commit {commit}\n"
    assert (target / "src dir" / "train.py").read_text() == "first"
    assert not (target / ".left").exists()


@pytest.mark.parametrize("submodules", [True, False])
def test_submodules_are_checked_out(repository: Repository, tmp_path: Path, submodules: bool) -> None:
    whole = Repository(tmp_path / "whole")
    whole.git("submodule", "--quiet", "add", f"file://{repository.root}", "lib")
    whole.git("-C", "lib", "checkout", "-q", "HEAD~1")
    whole.commit()
    # Submodules of the file system are refused, unlike those of a server.
    more = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_1": "protocol.file.allow", "GIT_CONFIG_VALUE_1": "always"}
    done = fetch({"git": URL, "ref": "main", "path": "lib", "submodules": submodules}, whole, tmp_path / "code", **more)
    assert done.returncode == 0, done.stderr
    files = {file.name: file.read_text() for file in tmp_path.glob("code/lib/src dir/*")}
    assert files == ({"train.py": "first"} if submodules else {})


def test_files_are_writable_for_every_user(repository: Repository, tmp_path: Path) -> None:
    fetch({"git": URL, "ref": "main"}, repository, tmp_path / "code")
    file = tmp_path / "code" / "src dir" / "train.py"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o666, 0o777)
    assert Repository(tmp_path / "code").git("status", "--porcelain") == ""


@pytest.mark.parametrize(("ref", "text"), [("main", "second"), ("v1", "first"), ("feature/main", "first")])
def test_printed_command_shows_the_commit_of_a_branch_or_tag(
    repository: Repository, tmp_path: Path, ref: str, text: str
) -> None:
    document = "kind: training\nversion: v0.1\njob: {name: a}\nenvironment: {image: a:1}\n"
    result = gpuctl.compile(gpuctl.Source("job.yaml", f"{document}code: {{git: '{URL}', ref: {ref}}}\n"))
    (warning,) = result.diagnostics
    assert warning.code == "GPU522"
    command = re.search("`(git .*?)`", warning.hint or "")
    assert command is not None
    printed = subprocess.run(
        ["sh", "-c", command[1].replace(URL, str(repository.root))], capture_output=True, text=True, check=True
    )
    commit = printed.stdout.splitlines()[-1].split()[0]
    assert repository.git("cat-file", "-t", commit) == "commit\n"
    done = fetch({"git": URL, "ref": commit}, repository, tmp_path / "code")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "code" / "src dir" / "train.py").read_text() == text


def test_absent_commit_fails(repository: Repository, tmp_path: Path) -> None:
    done = fetch({"git": URL, "ref": EARLIER}, repository, tmp_path / "code")
    assert done.returncode != 0
    assert EARLIER in done.stderr


def test_absent_directory_fails(repository: Repository, tmp_path: Path) -> None:
    done = fetch({"git": URL, "ref": "main", "path": "$(id)/lib"}, repository, tmp_path / "code")
    assert done.returncode == 1
    assert done.stderr == "gpuctl: the repository has no directory $(id)/lib in this commit\n"


def credentials(host: str) -> subprocess.CompletedProcess[str]:
    """Ask git for the login of a host, in the environment of the init container."""
    pod = pod_of({"git": "https://git.example.com:8443/a/b.git", "ref": EARLIER, "secret": "login"})
    env = variables(pod) | {
        "PATH": os.environ["PATH"],
        "GPUCTL_GIT_PASSWORD": 'a"b $(c) %s',
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    question = f"protocol=https\nhost={host}\npath=x/y.git\n\n"
    return subprocess.run(
        ["git", "credential", "fill"], input=question, env=env, capture_output=True, text=True, check=False
    )


def test_login_is_given_to_its_host_only() -> None:
    ours = credentials("git.example.com:8443")
    assert ours.returncode == 0, ours.stderr
    assert 'username=git\npassword=a"b $(c) %s\n' in ours.stdout
    assert credentials("git.example.com").returncode != 0
    assert credentials("other.example.com:8443").returncode != 0

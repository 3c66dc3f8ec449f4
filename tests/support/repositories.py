"""Git repositories of documents for tests, and gpuctl's command line run in them, in this process."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from gpuctl.cli.main import run


class Outcome(NamedTuple):
    """The output and exit code of a command."""

    code: int
    out: str
    err: str


def gpuctl(directory: Path, *arguments: str) -> Outcome:
    """Run gpuctl with ``directory`` as the current one."""
    out, err = io.StringIO(), io.StringIO()
    before = Path.cwd()
    os.chdir(directory)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(arguments)
    finally:
        os.chdir(before)
    return Outcome(code, out.getvalue(), err.getvalue())


class Repository:
    """A git repository in an empty directory; nothing of the machine's configuration of git holds in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, code: int = 0) -> str:
        """Run git here; its output."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_SYSTEM": os.devnull,
            **{f"GIT_{who}_{what}": "dev@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }
        command = ["git", "-c", "protocol.file.allow=always", "-C", str(self.root), *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="surrogateescape")
        assert done.returncode == code, done.stderr
        return done.stdout

    def write(self, name: str, text: str | bytes) -> None:
        """Write a file, with the directories above it."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)

    def remove(self, name: str) -> None:
        """Remove a file or a directory."""
        path = self.root / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()

    def commit(self) -> str:
        """Commit all there is; the commit's id."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        return self.git("rev-parse", "HEAD").strip()

    def gpuctl(self, *arguments: str) -> Outcome:
        """Run gpuctl at the root."""
        return gpuctl(self.root, *arguments)


def rendered_by_another_version(repository: Repository, file: str) -> str:
    """Make a rendered Job look as if another version had rendered it, under another name; its new path."""
    path = repository.root / file
    old = path.stem.removeprefix("job-")
    name = f"{old[:-6]}000000"
    text = path.read_text().replace(old, name).replace("IfNotPresent", "Always")
    anew = file.replace(old, name)
    repository.remove(file)
    repository.write(anew, text)
    manifest = path.parents[1] / ".gpuctl-manifest"
    here = path.parent.name
    entry = {"path": f"{here}/{Path(anew).name}", "sha256": hashlib.sha256(text.encode()).hexdigest()}
    lines = [
        json.dumps({**json.loads(line), **entry}) if f"{here}/{path.name}" in line else line
        for line in manifest.read_text().splitlines()
    ]
    manifest.write_text("\n".join(lines) + "\n")
    return anew


def training(name: str, *, gpu: int = 4, more: str = "", namespace: str = "nlp", resources: str = "") -> str:
    """A training of pool ``a100``; ``more`` and ``resources`` are lines and fields to add."""
    return (
        f"kind: training\nversion: v0.1\njob: {{name: {name}, namespace: {namespace}}}\n"
        'environment: {image: registry.example.com/train:v1, command: ["python", "train.py"]}\n'
        f"resources: {{pool: a100, gpu: {gpu}, cpu: 8, memory: 64Gi{resources}}}\n{more}"
    )


def service(name: str, *, gpu: int = 1, least: int = 1, most: int = 4, resources: str = "") -> str:
    """An inference of pool ``a100`` that scales."""
    return (
        f"kind: inference\nversion: v0.1\njob: {{name: {name}, namespace: nlp}}\n"
        "environment: {image: registry.example.com/serve:v1}\n"
        "service: {port: 8000, health_check: /health}\n"
        f"resources: {{pool: a100, gpu: {gpu}, cpu: 2, memory: 16Gi{resources}}}\n"
        f"autoscaling: {{enabled: true, minReplicas: {least}, maxReplicas: {most}, metric: queue}}\n"
    )


def pool(nodes: dict[str, str], name: str = "a100") -> str:
    """A pool; ``nodes``: name -> its fields, as ``gpu-type: A, gpu-count: 8``."""
    lines = "".join(f"  {node}: {{{fields}}}\n" for node, fields in nodes.items())
    return f"kind: pool\nversion: v0.1\npool: {{name: {name}}}\nnodes:\n{lines}"


def quota(limits: str, name: str = "team", namespace: str = "nlp") -> str:
    """A quota of a namespace; ``limits`` are fields, as ``gpu: 8``."""
    return f"kind: quota\nversion: v0.1\nquota: {{name: {name}}}\nusers:\n  {namespace}: {{{limits}}}\n"

"""`gpuctl set`: the text of a file after a change, and the changes that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuctl.cli.main import run

FILE = """\
# The head.
kind: training
version: v0.1
job:   {name: train,  priority: low}   # flow
environment:
    image: "app:1"     # quoted
    command: [python,  train.py]
    args:
    - --lr
    - "1e-5"   # learning rate
    env:
    - {name: A,   value: '1'}
    - name: B
      secret: s
      key: k
resources: {gpu_type: A100, gpu: 1, cpu: 4, memory: 8Gi} # requests
storage:
  workdirs:
    - path: /a   # a disk
      emptyDir: {}
# The tail.
---
kind: notebook
version: v0.1
job: {name: lab}
environment: {image: "jupyter:1"}
"""

CHANGES = {
    "resources.gpu=8": ("gpu: 1,", "gpu: 8,"),
    "resources.gpuType=H100": ("gpu_type: A100", "gpu_type: H100"),
    "environment.image=app:2": ('"app:1"', '"app:2"'),
    "environment.args[1]=2e-5": ('"1e-5"', '"2e-5"'),
    "environment.args=[x]": ('args:\n    - --lr\n    - "1e-5"   # learning rate', "args: [x]   # learning rate"),
    "environment.env.A=2": ("value: '1'", "value: '2'"),
    "environment.env.C=z": ("      key: k\n", "      key: k\n    - {name: C, value: z}\n"),
    "environment.env[1].key=other": ("key: k", "key: other"),
    "environment.workdir=/w": ("      key: k\n", "      key: k\n    workdir: /w\n"),
    "storage.workdirs[0].path=/b": ("path: /a   #", "path: /b   #"),
    "storage.workdirs[0].emptyDir.size=1Gi": ("emptyDir: {}", "emptyDir: {size: 1Gi}"),
    "storage.workdirs=[]": ("workdirs:\n    - path: /a   # a disk\n      emptyDir: {}", "workdirs: []"),
    "job.description=a, b": ("priority: low}", 'priority: low, description: "a, b"}'),
    'job.labels."example.com/x"=y': ("priority: low}", "priority: low, labels: {example.com/x: y}}"),
    "podPatch.hostIPC=true": ("      emptyDir: {}\n", "      emptyDir: {}\npodPatch:\n  hostIPC: true\n"),
    "lab:job.priority=high": ("{name: lab}", "{name: lab, priority: high}"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.yaml"


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("change", CHANGES)
def test_only_the_field_changes(file: Path, change: str, line_break: str) -> None:
    before, after = (text.replace("\n", line_break) for text in CHANGES[change])
    text = FILE.replace("\n", line_break)
    assert text.count(before) == 1
    file.write_bytes(text.encode())
    argument = change if change.startswith("lab:") else f"train:{change}"
    assert run(["set", str(file), argument]) == 0
    assert file.read_bytes().decode() == text.replace(before, after)


def test_images_are_found_by_name_in_every_document(file: Path) -> None:
    text = FILE.replace("app:1", "registry.example.com:5000/llm/app:1")
    text = text.replace("jupyter:1", "llm/app@sha256:" + "0" * 64)
    file.write_text(text)
    assert run(["set", str(file), "--image", "llm/app=new/app:2"]) == 0
    assert [line.strip() for line in file.read_text().splitlines() if "image" in line] == [
        'image: "new/app:2"     # quoted',
        'environment: {image: "new/app:2"}',
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["resources.gpu=8"], 2, "`resources.gpu`: add `--job NAME`; the file has train, lab"),
        (["--job", "lap", "resources.gpu=8"], 2, "no document is called `lap`"),
        (["train:resources.gpu"], 2, "does not assign a value to a field"),
        (["train:resources.gpu.x=1"], 2, "`resources.gpu` has no fields"),
        (["train:environment.args[7]=1"], 2, "environment.args has no item 7"),
        (["train:environment.env.B=x"], 2, "the variable `B` has no `value`: set `environment.env[1]`"),
        (["train:resources.gpus=8"], 1, "unknown field `gpus` in resources"),
        (["train:resources.gpu="], 1, "`gpu` has no value"),
        (["--image", "nginx=nginx:2"], 2, "there is no image called `nginx`"),
    ],
)
def test_refused_change_leaves_the_file(
    file: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    file.write_text(FILE)
    assert run(["set", str(file), *arguments]) == code
    assert message in capsys.readouterr().err
    assert file.read_text() == FILE


def test_alias_is_not_changed_for_its_other_uses(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aliased = "job: {name: train, labels: &l {a: b}, annotations: *l}"
    text = FILE.replace("job:   {name: train,  priority: low}", aliased)
    file.write_text(text)
    assert run(["set", str(file), "train:job.annotations.a=c"]) == 2
    assert "`job.annotations` is an alias" in capsys.readouterr().err
    assert run(["set", str(file), "train:job.annotations={a: c}"]) == 0
    assert "labels: &l {a: b}, annotations: {a: c}}" in file.read_text()


def test_check_writes_nothing_and_json_lists_the_changes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(FILE)
    assert run(["set", str(file), "train:resources.gpu=8", "--check", "-o", "json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "file": str(file),
        "written": False,
        "changes": [{"document": "train", "path": "resources.gpu", "from": "1", "to": "8"}],
    }
    assert file.read_text() == FILE
    assert run(["set", str(file), "train:resources.gpu=1", "--check"]) == 0


def test_directory_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the first of its files would be changed."""
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(FILE)
    assert run(["set", str(tmp_path), "--image", "app=app:2"]) == 2
    assert "is a directory" in capsys.readouterr().err
    assert {path.read_text() for path in tmp_path.iterdir()} == {FILE}

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
    "job.description=>=40Gi": ("priority: low}", 'priority: low, description: ">=40Gi"}'),
    "environment.args[1]=*.json": ('"1e-5"', '"*.json"'),
    "job.description=@home, | b": ("priority: low}", 'priority: low, description: "@home, | b"}'),
    "job.description=a, b": ("priority: low}", 'priority: low, description: "a, b"}'),
    'job.labels."example.com/x"=y': ("priority: low}", "priority: low, labels: {example.com/x: y}}"),
    "podPatch.hostIPC=true": ("      emptyDir: {}\n", "      emptyDir: {}\npodPatch:\n  hostIPC: true\n"),
    "lab:job.priority=high": ("{name: lab}", "{name: lab, priority: high}"),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "jobs.yaml"


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "byte-order mark"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("change", CHANGES)
def test_only_the_field_changes(file: Path, change: str, line_break: str, mark: str) -> None:
    before, after = (text.replace("\n", line_break) for text in CHANGES[change])
    text = mark + FILE.replace("\n", line_break)
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
        (["train:environment.args[7]=1"], 2, "`environment.args` has no item 7: set the whole list"),
        (["train:storage.mounts[0].path=/a"], 2, "`storage.mounts` has no item 0: set the whole list"),
        (["train:init[0].env[1].value=x"], 2, "`init` has no item 0: set the whole list"),
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


ALTERNATIVES = """\
kind: inference
version: v0.1
job:
  name: chat
  checkpoint:
    # The trainer saves on USR1.
    signal: USR1
    timeout: 5m   # of the largest model
  on:
    stop: [./stop]
  # The tail of job.
environment: {image: "app:1"}
resources: {gpu: 1, gpu_type: A100, gpu-share: 0.5, cpu: 4, memory: 8Gi}
service: {port: 80,  # HTTP
  nodePort: 30080,
  type: NodePort}
autoscaling:
  metric: gpu
  targetGPUUtilization: 50
  maxReplicas: 3
storage:
  mounts:
    - {path: /etc/app, secret: login, mode: "0400"}
    - configMap: settings   # of the team
      path: /etc/team
"""
REPLACED = {
    "job.checkpoint.command=[./save]": (
        "    signal: USR1\n    timeout: 5m   # of the largest model\n",
        "    timeout: 5m   # of the largest model\n    command: [./save]\n",
        ["job.checkpoint.signal"],
    ),
    "job.checkpoint={command: [./save]}": (
        "  checkpoint:\n    # The trainer saves on USR1.\n    signal: USR1\n    timeout: 5m   # of",
        "  checkpoint: {command: [./save]}   # of",
        [],
    ),
    "service.drain=10s": (
        "  on:\n    stop: [./stop]\n  # The tail of job.\n",
        "  # The tail of job.\n",
        ["job.on.stop"],
    ),
    "service.type=ClusterIP": ("  nodePort: 30080,\n  type: NodePort}", "  type: ClusterIP}", ["service.nodePort"]),
    "resources.gpu=0": (
        "{gpu: 1, gpu_type: A100, gpu-share: 0.5, cpu",
        "{gpu: 0, cpu",
        ["resources.gpu-type", "resources.gpu-share"],
    ),
    "autoscaling.metric=cpu": (
        "gpu\n  targetGPUUtilization: 50\n",
        "cpu\n",
        ["autoscaling.targetGPUUtilization"],
    ),
    "storage.mounts[0].configMap=settings": (
        '{path: /etc/app, secret: login, mode: "0400"}',
        '{path: /etc/app, mode: "0400", configMap: settings}',
        ["storage.mounts[0].secret"],
    ),
    "storage.mounts[0].emptyDir={}": (
        '{path: /etc/app, secret: login, mode: "0400"}',
        "{path: /etc/app, emptyDir: {}}",
        ["storage.mounts[0].secret", "storage.mounts[0].mode"],
    ),
    "storage.mounts[1].secret=team": (
        "- configMap: settings   # of the team\n      path: /etc/team\n",
        "- path: /etc/team\n      secret: team\n",
        ["storage.mounts[1].configMap"],
    ),
}


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("change", REPLACED)
def test_new_value_replaces_its_alternatives(
    file: Path, capsys: pytest.CaptureFixture[str], change: str, line_break: str
) -> None:
    before, after, removed = REPLACED[change]
    text = ALTERNATIVES.replace("\n", line_break)
    before, after = (part.replace("\n", line_break) for part in (before, after))
    assert text.count(before) == 1
    file.write_bytes(text.encode())
    assert run(["set", str(file), change]) == 0
    found = file.read_bytes().decode()
    if change.startswith("service.drain"):
        found = found.replace(", drain: 10s", "")
    assert found == text.replace(before, after)
    assert capsys.readouterr().err.splitlines() == [
        f"chat: `{path}` is removed; it cannot stand beside the new values" for path in removed
    ]


def test_two_alternatives_in_one_command_are_an_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(ALTERNATIVES)
    assert run(["set", str(file), "job.checkpoint.command=[./save]", "job.checkpoint.signal=USR2"]) == 1
    assert "both a command and a signal" in capsys.readouterr().err
    assert file.read_text() == ALTERNATIVES


def test_alternative_that_another_part_of_the_file_needs_is_not_removed(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ALTERNATIVES.replace("USR1\n    ", "&s USR1\n    ").replace("image:", "env: {SIGNAL: *s}, image:")
    file.write_text(text)
    assert run(["set", str(file), "job.checkpoint.command=[./save]"]) == 2
    expected = "`job.checkpoint.signal` cannot stay, and cannot be removed in this layout: remove it by hand"
    assert expected in " ".join(capsys.readouterr().err.split())
    assert file.read_text() == text


def test_source_of_a_listed_variable_is_replaced_with_its_key(file: Path) -> None:
    file.write_text(FILE)
    assert run(["set", str(file), "train:environment.env[1].value=x"]) == 0
    assert file.read_text() == FILE.replace("      secret: s\n      key: k\n", "      value: x\n")


def test_two_keys_for_one_thing_stay_an_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Limits of other users are not removed for one that is set under the other key."""
    text = "kind: quota\nversion: v0.1\nquota: {name: q}\nnamespace: {nlp: {gpu: 8}}\n"
    file.write_text(text)
    assert run(["set", str(file), "users.vision.gpu=4"]) == 1
    assert "they mean the same" in capsys.readouterr().err
    assert file.read_text() == text


def test_source_of_a_platform_is_replaced(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "kind: platform\nversion: v0.1\nstorage:\n  default:\n    pvc: {claim: shared}\n"
    file.write_text(text)
    assert run(["set", str(file), "storage.default.nfs={server: nfs.example.com, path: /exports}"]) == 0
    nfs = "nfs: {server: nfs.example.com, path: /exports}"
    assert file.read_text() == text.replace("pvc: {claim: shared}", nfs)
    assert "platform: `storage.default.pvc` is removed" in capsys.readouterr().err

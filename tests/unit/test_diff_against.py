"""``gpuctl diff --against``: documents compared with manifests in a directory or with a git revision, without a
cluster.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuctl.cli.main import run
from support.repositories import Repository

JOB = """kind: training
version: v0.1
job: {name: sft, namespace: nlp}
environment:
  image: registry.example.com/train:v1
  command: ["python", "train.py", "--password", "hunter2"]
resources: {gpu: 2, cpu: 4, memory: 16Gi}
"""
SERVICE = """kind: compute
version: v0.1
job: {name: web, namespace: nlp}
environment: {image: registry.example.com/web:v1}
service: {port: 80}
resources: {cpu: 1, memory: 1Gi}
"""


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a git repository with two jobs in ``jobs/``; no cluster is configured."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "sft.yaml").write_text(JOB)
    (tmp_path / "jobs" / "web.yaml").write_text(SERVICE)
    Repository(tmp_path).commit()
    return tmp_path


def change(directory: Path) -> None:
    """Change an image and delete a job."""
    (directory / "jobs" / "sft.yaml").write_text(JOB.replace("train:v1", "train:v2"))
    (directory / "jobs" / "web.yaml").unlink()


def object_lines(out: str) -> list[str]:
    """Return the first line of each object that differs."""
    return [line for line in out.splitlines() if line.startswith(("create", "update", "replace", "delete"))]


DELETED_LINES = ["delete    Deployment web in nlp", "delete    Service svc-web in nlp"]
EXPECTED_LINES = ["replace   Job sft in nlp", *DELETED_LINES]


def test_unchanged_documents_print_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD"]) == 0
    assert capsys.readouterr().out == ""


def test_diff_against_a_git_revision(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(repository)
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("training sft in nlp: environment.image: ...train:v1 -> ...train:v2\n")
    assert sorted(object_lines(out)) == sorted(EXPECTED_LINES)
    Repository(repository).commit()
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD"]) == 0
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD~1"]) == 1


@pytest.mark.parametrize(
    "options", [[], ["--gitops", "argocd"], ["--gitops", "flux", "--embed"], ["--no-shared"], ["--nodes"]]
)
def test_diff_against_a_built_directory(
    options: list[str], repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Annotations that `build` adds for GitOps are no difference."""
    assert run(["build", "jobs", "-o", "rendered", *options]) == 0
    capsys.readouterr()
    assert run(["diff", "-f", "jobs", "--against", "rendered"]) == 0
    change(repository)
    assert run(["diff", "-f", "jobs", "--against", "rendered"]) == 1
    found = object_lines(capsys.readouterr().out)
    if "--gitops" in options:
        (replaced,) = (line for line in found if line.startswith("replace"))
        assert re.fullmatch(r"replace   Job sft-[0-9a-f]{6} in nlp", replaced)
        assert sorted(found) == sorted([replaced, *DELETED_LINES])
    else:
        assert sorted(found) == sorted(EXPECTED_LINES)


def test_unneeded_namespace_file_is_not_a_difference(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "jobs" / "other.yaml").write_text(SERVICE.replace("nlp", "vision"))
    assert run(["build", "jobs", "-o", "rendered"]) == 0
    (repository / "jobs" / "other.yaml").unlink()
    assert run(["build", "jobs", "-o", "rendered"]) == 0
    assert (repository / "rendered/_cluster/namespace-vision.yaml").exists()
    capsys.readouterr()
    assert run(["diff", "-f", "jobs", "--against", "rendered"]) == 0


def test_replaced_hashed_training_is_one_step_in_json(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = JOB.replace("gpu: 2", "gpu: 2, nodes: 2")
    (repository / "jobs" / "sft.yaml").write_text(text)
    assert run(["build", "jobs", "-o", "rendered", "--gitops", "flux"]) == 0
    (repository / "jobs" / "sft.yaml").write_text(text.replace("train:v1", "train:v2"))
    capsys.readouterr()
    assert run(["diff", "-f", "jobs", "--against", "rendered", "-o", "json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["summary"] == {"replace": 2}
    service, job = sorted(value["steps"], key=lambda step: step["kind"], reverse=True)
    assert service["name"] == job["name"]
    changes = {change["path"]: change["to"] for change in job["changes"]}
    assert changes["metadata.name"] == job["name"]
    assert changes["spec.template.spec.containers[0].image"] == "registry.example.com/train:v2"


def test_foreign_files_in_the_directory_are_ignored(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["render", "-f", "jobs"]) == 0
    out = repository / "out"
    out.mkdir()
    (out / "all.yaml").write_text(capsys.readouterr().out)
    (out / "other.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: theirs}\n")
    (out / "template.yaml").write_text("{{ if .Values.x }}\nkind: y\n{{ end }}\n")
    assert run(["diff", "-f", "jobs", "--against", "out"]) == 0


def test_json_lists_changed_paths_and_masks_credentials(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = JOB.replace("train:v1", "train:v2").replace("hunter2", "hunter3")
    (repository / "jobs" / "sft.yaml").write_text(text)
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD", "-o", "json"]) == 1
    out = capsys.readouterr().out
    assert "hunter" not in out
    value = json.loads(out)
    assert value["summary"] == {"replace": 1}
    (step,) = value["steps"]
    assert (step["kind"], step["namespace"], step["name"]) == ("Job", "nlp", "sft")
    image = {
        "path": "spec.template.spec.containers[0].image",
        "from": "registry.example.com/train:v1",
        "to": "registry.example.com/train:v2",
    }
    assert image in step["changes"]


def test_markdown_puts_each_diff_in_a_details_block(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change(repository)
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD", "-o", "markdown"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("3 objects differ from `git:HEAD`.\n")
    assert out.count("<details>") == out.count("```diff\n") == 4
    assert "hunter2" not in out


@pytest.mark.parametrize(
    ("against", "said"),
    [
        ("git:nowhere", "there is no revision `nowhere` here"),
        ("git:--upload-pack=x", "is not a revision"),
        ("absent", "`absent` is not a directory of manifests"),
        ("jobs/sft.yaml", "`jobs/sft.yaml` is not a directory of manifests"),
    ],
)
def test_invalid_comparison_target_is_reported(against: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "-f", "jobs", "--against", against]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("labels: {app.kubernetes.io/managed-by: gpuctl\n", "while parsing a flow mapping"),
        ("gpuctl: !!int ''\n", "a value does not fit its type"),
        ("gpuctl: 2024-13-45\n", "a value does not fit its type"),
    ],
)
def test_invalid_yaml_in_manifests_is_reported(
    repository: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "out").mkdir()
    (repository / "out" / "x.yaml").write_text(text)
    assert run(["diff", "-f", "jobs", "--against", "out"]) == 2
    assert f"`out/x.yaml` is not YAML: {problem}\n" in capsys.readouterr().err


def test_invalid_documents_are_reported(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "jobs" / "sft.yaml").write_text("kind: training\n")
    assert run(["diff", "-f", "jobs", "--against", "git:HEAD"]) == 2
    assert "error[" in capsys.readouterr().err


@pytest.mark.parametrize("output", ["text", "json", "markdown"])
def test_changed_credential_is_listed_but_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    document = {
        "kind": "compute",
        "version": "v0.1",
        "job": {"name": "x"},
        "environment": {"image": "r.example.com/x:1", "command": ["run", "--password", "hunter2-a"]},
        "resources": {"cpu": 1, "memory": "1Gi"},
    }
    sources = {"DB": "postgres://u:hunter2-a@db/x", "HF_TOKEN": "hunter2-a"}
    file, out = tmp_path / "job.yaml", tmp_path / "out"
    for secret in ("hunter2-a", "hunter2-b"):
        document["environment"] |= {
            "command": ["run", "--password", secret],
            "env": {name: value.replace("hunter2-a", secret) for name, value in sources.items()},
        }
        file.write_text(json.dumps(document))
        if secret == "hunter2-a":
            assert run(["build", "-f", str(file), "-o", str(out)]) == 0
    capsys.readouterr()
    assert run(["diff", "-f", str(file), "--against", str(out), "-o", output]) == 1
    said = capsys.readouterr()
    assert "hunter2" not in said.out + said.err
    assert said.out.count("<masked, changed>") == 3
